package walk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"syscall"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// VersionOf returns the version of a file that Scan has found. An open file of the same identity has the same version.
func VersionOf(f *place.Found) transfer.Version {
	return disk.Identity{Dev: f.Dev, Ino: f.Inode, Size: f.Size, Mtime: f.Mtime, Ctime: f.Ctime}.Version()
}

// Scan calls fn with each regular file in a directory, in the byte order of the names; a directory's files come at the
// position of its name. It omits files with names of Ferry's own, files that the user may not read, links, and
// directories with names that begin with '.'. Its memory does not grow with the number of files. It returns the error
// of fn or ctx, or the reason why Dir itself cannot be read. If the user may read no file in Dir, the error is of
// KindDenied, whether Dir exists or not.
func (f *Finder) Scan(ctx context.Context, may place.Permit, req place.ScanRequest, fn func(*place.Found) error) error {
	p, err := f.roots.Locate(req.Dir)
	if err == nil {
		err = p.MayRead()
	}
	if err != nil {
		return err
	}
	if err := f.roots.MayReach(may, transfer.AuthSource, p); err != nil {
		return err // it does not reveal whether the directory exists
	}
	d, err := f.roots.OpenDir(p)
	if err != nil {
		return disk.SourceError(req.Dir, err)
	}
	defer d.Close()
	s := &scan{walker{fs: f, ctx: ctx, may: may}, req, fn}
	return s.read(d, "", req.Levels)
}

// MayScan returns nil unless Scan would read nothing because of the name of a directory. It examines no file.
func (f *Finder) MayScan(may place.Permit, dir transfer.Path) error {
	p, err := f.roots.Locate(dir)
	if err != nil || may == nil {
		return nil // Scan reports the error
	}
	return f.roots.MayName(may, transfer.AuthSource, p)
}

type scan struct {
	walker
	req place.ScanRequest
	fn  func(*place.Found) error
}

// read calls fn with the files in a directory. It returns the error of the topmost directory; it passes other
// directories that cannot be read to fn.
func (s *scan) read(d *disk.Dir, rel string, levels int) error {
	if s.req.Entered != nil {
		s.req.Entered(d.Real())
	}
	names, err := s.sorted(d, func(n string) bool {
		return !disk.IsReserved(n) && (s.req.Want(n) || levels > 0 && !hidden(n))
	})
	switch {
	case err == nil:
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case rel == "":
		return disk.SourceError(transfer.Path(d.Path()), err)
	default:
		return s.unread(d.Path(), rel, err)
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

// name handles one name in a directory.
func (s *scan) name(d *disk.Dir, name, rel string, levels int) error {
	at := path.Join(d.Path(), name)
	st, err := d.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return s.unread(at, rel, err)
	}
	if denied, _ := s.hidden(d, name); denied != nil && st.Type == disk.TypeFile {
		if transfer.KindOf(denied) == transfer.KindDenied {
			return nil
		}
		return s.unread(at, rel, denied)
	}
	switch {
	case st.Type == disk.TypeFile && s.req.Want(name):
		return s.fn(&place.Found{Path: transfer.Path(at), Rel: transfer.Path(rel), In: d.Real(), Dev: st.Dev, Inode: st.Ino, Size: st.Size, Mtime: st.Mtime, Ctime: st.Ctime})
	case st.Type != disk.TypeDir || levels == 0 || hidden(name):
		return nil
	}

	sub, leave, err := s.enter(&entry{d, name, st})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), transfer.KindOf(err) == transfer.KindOutsideRoot:
		return nil // it is gone since the check, or it is the state directory
	case err != nil:
		return s.unread(at, rel, err)
	}
	return firstError(s.read(sub, rel, levels-1), leave())
}

func (s *scan) unread(at, rel string, err error) error {
	return s.fn(&place.Found{Path: transfer.Path(at), Rel: transfer.Path(rel), Err: disk.SourceError(transfer.Path(at), err)})
}

// MatchName reports whether a name matches a pattern for one name. '*' is any run of bytes, '?' any one byte. Only a
// pattern that begins with '.' matches a name that does.
func MatchName(pattern, name string) bool { return matchName(unescape(pattern), name) }

// NamesLike returns MatchName for one pattern and many names.
func NamesLike(pattern string) func(name string) bool {
	pattern = unescape(pattern)
	return func(name string) bool { return matchName(pattern, name) }
}
