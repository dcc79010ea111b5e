package localfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"syscall"

	"ferry/internal/transfer"
)

// A Found is a regular file that Scan has found, or a directory that it could not read.
type Found struct {
	Path  transfer.Path // of the host
	Rel   transfer.Path // beneath the directory that is scanned
	In    string        // the directory that has it, links resolved
	Dev   uint64
	Inode uint64
	Size  int64
	Mtime int64 // nanoseconds since 1970, as Ctime
	Ctime int64
	Err   error // why the directory was not read: nothing is known of the files beneath it
}

// Version is the file's version, as an open file of the same identity has it.
func (f *Found) Version() transfer.Version {
	return identity{Dev: f.Dev, Ino: f.Inode, Size: f.Size, Mtime: f.Mtime, Ctime: f.Ctime}.version()
}

// A ScanRequest says what Scan reads.
type ScanRequest struct {
	Dir     transfer.Path
	Levels  int                    // of directories beneath Dir that are read; 0: none
	Want    func(name string) bool // whether files of that name are passed on
	Entered func(real string)      // is told of each directory that is read, links resolved
}

// Scan passes on the regular files in a directory: those of a directory in the order of their
// names by bytes, a directory's in the place of its name. It leaves out what has a name of Ferry's own,
// what may not be read, links, and directories whose names begin with '.'. Its memory does
// not grow with their number. The error is fn's, that of ctx, or why Dir itself cannot be read. Where nothing in
// Dir may be read, it is of KindDenied, whether Dir is there or not.
func (l Local) Scan(ctx context.Context, req ScanRequest, fn func(*Found) error) error {
	p, err := l.locate(req.Dir)
	if err == nil {
		err = p.root.mayRead()
	}
	if err != nil {
		return err
	}
	if err := l.mayReach(l.may, transfer.AuthSource, p); err != nil {
		return err // whether it is there is not said
	}
	d, err := l.openDir(p)
	if err != nil {
		return sourceError(req.Dir, err)
	}
	defer d.close()
	s := &scan{walker{fs: l.FS, ctx: ctx, may: l.may}, req, fn}
	return s.read(d, "", req.Levels)
}

// MayScan is nil unless Scan would read nothing because of the name of a directory. It looks at nothing.
func (l Local) MayScan(dir transfer.Path) error {
	p, err := l.locate(dir)
	if err != nil || l.may == nil {
		return nil // Scan says so
	}
	return l.mayName(l.may, transfer.AuthSource, p)
}

type scan struct {
	walker
	req ScanRequest
	fn  func(*Found) error
}

// read passes on what is in a directory. The error of the topmost directory is passed on; other
// directories that cannot be read are said to fn.
func (s *scan) read(d *Dir, rel string, levels int) error {
	if s.req.Entered != nil {
		s.req.Entered(d.real)
	}
	names, err := s.sorted(d, func(n string) bool {
		return !isReserved(n) && (s.req.Want(n) || levels > 0 && !hidden(n))
	})
	switch {
	case err == nil:
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case rel == "":
		return sourceError(transfer.Path(d.path), err)
	default:
		return s.unread(d.path, rel, err)
	}
	defer names.close()

	for {
		name, err := names.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return s.scratchError(d, err)
		}
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if err := s.name(d, name, path.Join(rel, name), levels); err != nil {
			return err
		}
	}
}

// name passes on what has one name in a directory.
func (s *scan) name(d *Dir, name, rel string, levels int) error {
	at := path.Join(d.path, name)
	st, err := d.lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return s.unread(at, rel, err)
	}
	if denied, _ := s.hidden(d, name); denied != nil && st.Type == TypeFile {
		if transfer.KindOf(denied) == transfer.KindDenied {
			return nil
		}
		return s.unread(at, rel, denied)
	}
	switch {
	case st.Type == TypeFile && s.req.Want(name):
		return s.fn(&Found{Path: transfer.Path(at), Rel: transfer.Path(rel), In: d.real, Dev: st.Dev, Inode: st.Ino, Size: st.Size, Mtime: st.Mtime, Ctime: st.Ctime})
	case st.Type != TypeDir || levels == 0 || hidden(name):
		return nil
	}

	sub, leave, err := s.enter(&entry{d, name, st})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), transfer.KindOf(err) == transfer.KindOutsideRoot:
		return nil // it has gone since it was looked at, or is the state directory
	case err != nil:
		return s.unread(at, rel, err)
	}
	return first(s.read(sub, rel, levels-1), leave())
}

func (s *scan) unread(at, rel string, err error) error {
	return s.fn(&Found{Path: transfer.Path(at), Rel: transfer.Path(rel), Err: sourceError(transfer.Path(at), err)})
}

// MatchName reports whether a name matches a pattern for one name: '*' is any run of bytes, '?' any
// one byte. A name that begins with '.' is matched only by a pattern that does.
func MatchName(pattern, name string) bool { return matchName(typed(pattern), name) }

// NamesLike is MatchName for many names.
func NamesLike(pattern string) func(name string) bool {
	pattern = typed(pattern)
	return func(name string) bool { return matchName(pattern, name) }
}
