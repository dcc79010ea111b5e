package localfs

import (
	"errors"
	"io"
	"os"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A Source is a regular file that is open for reading. It is safe for
// concurrent use.
type Source struct {
	fs   *FS
	f    File
	path transfer.Path
	st   Stat

	dataset bool   // or a member of one
	at      int64  // read so far
	unsized bool   // its size says nothing
	lies    string // where it was when it was opened, links resolved; empty where nobody asks
}

// OpenSource opens a regular file. A link is not followed, a FIFO not waited
// for. The kinds of its errors are Missing, Unreadable, WrongType and
// OutsideRoot.
func (f *FS) OpenSource(p transfer.Path) (*Source, error) {
	s := f.Sources(transfer.Location{})
	defer s.Close()
	return s.Open(p, false)
}

// Sources opens the files of one transfer, one after the other. It keeps the
// directory of the last one, because the next is most often in the same. It is
// one goroutine's.
type Sources struct {
	fs      *FS
	dataset bool
	dir     *Dir
	path    string // of dir
	left    int    // files until the path is looked up again: somebody may have renamed it
	may     place.Permit
	follow  bool // a link is opened where it leads
}

// lookUpAfter is how many files are opened by way of one look at their path.
const lookUpAfter = 256

// Sources begins with nothing open. It is told what the request asks for first.
func (f *FS) Sources(first transfer.Location) *Sources {
	return &Sources{fs: f, dataset: first.Place == transfer.Datasets} // then all of them are
}

// Close lets go of the directory.
func (s *Sources) Close() {
	if s.dir != nil {
		s.dir.close()
		s.dir = nil
	}
}

// parent is the directory of a file, opened beneath its root.
func (s *Sources) parent(l location) (*Dir, error) {
	if at := l.parent().path; s.dir == nil || s.path != at || s.left == 0 {
		s.Close()
		d, err := s.fs.openParent(l)
		if err != nil {
			return nil, err
		}
		s.dir, s.path, s.left = d, at, lookUpAfter
	}

	s.left--
	if s.fs.isState(s.dir, l.base()) {
		return nil, inState(l.path)
	}
	return s.dir, nil
}

// Open opens a regular file, as OpenSource does; with unsized one of which the size is
// known to say nothing.
func (s *Sources) Open(p transfer.Path, unsized bool) (*Source, error) {
	f := s.fs
	l, err := f.locate(p)
	if err == nil {
		err = l.root.mayRead()
	}
	if err != nil {
		return nil, err
	}

	if l.isRoot() {
		return nil, notRegular(p, TypeDir)
	}

	d, err := s.parent(l)
	if err == nil && s.follow {
		if st, lerr := d.lstat(l.base()); lerr == nil && st.Type == TypeLink {
			if l, _, err = f.leads(p, s.may); err == nil && l.isRoot() {
				err = notRegular(p, TypeDir)
			}
			if err == nil {
				d, err = s.parent(l)
			}
		}
	}
	if err != nil {
		return nil, sourceError(p, err)
	}

	lies, err := s.mayRead(d, l.base())
	if err != nil {
		return nil, sourceError(p, err)
	}

	file, err := f.disk.Open(d, l.base(), os.O_RDONLY, 0)
	if err != nil {
		s.Close() // its path may lead elsewhere by now
		return nil, sourceError(p, err)
	}

	st, err := f.disk.Stat(file)
	if err == nil && st.Type != TypeFile {
		err = notRegular(p, st.Type)
	}
	if err != nil {
		f.disk.Close(file)
		return nil, sourceError(p, err)
	}

	src := &Source{fs: f, f: file, path: p, st: st, dataset: s.dataset, unsized: unsized, lies: lies}
	if !unsized {
		sized, err := src.hasSize()
		if err != nil {
			src.Close()
			return nil, sourceError(p, err)
		}
		src.unsized = !sized
	}
	return src, nil
}

func notRegular(p transfer.Path, t FileType) error {
	switch t {
	case TypeDir:
		return wrap(transfer.KindWrongType, nil, "use -r to send what is in it", "source %s is a directory", p)
	case TypeLink:
		return wrap(transfer.KindWrongType, nil, "name what it leads to", "source %s is a symbolic link, which is not followed", p)
	}
	return wrap(transfer.KindWrongType, nil, "", "source %s is a device, socket or pipe; only regular files are sent", p)
}

func (s *Stat) identity() identity {
	return identity{Dev: s.Dev, Ino: s.Ino, Size: s.Size, Mtime: s.Mtime, Ctime: s.Ctime}
}

// Read reads on. The last bytes come with io.EOF, or it comes behind them. Errors
// beside that are of kind Unreadable, Changing where the file has changed, and
// ErrUnsized where its size is wrong.
func (s *Source) Read(b []byte) (int, error) {
	if s.unsized {
		return s.readUnsized(b)
	}
	return s.readSized(b)
}

// ReadAt reads as an io.ReaderAt does, whatever Read has read; an error other than
// io.EOF is of kind Unreadable.
func (s *Source) ReadAt(b []byte, off int64) (int, error) {
	n, err := s.fs.disk.ReadAt(s.f, b, off)
	if err != nil && err != io.EOF {
		err = sourceError(s.path, err)
	}
	return n, err
}

// SeekTo has Read go on at an offset. It reports false where the file cannot be relied on
// to be the same when it is read again.
func (s *Source) SeekTo(at int64) bool {
	if s.unsized && at != s.at {
		return false
	}
	s.at = at
	return true
}

// Size is how many bytes there are to be read; -1 where only reading tells.
func (s *Source) Size() int64 {
	if s.unsized {
		return -1
	}
	return s.st.Size
}

// Path is the file's, as it was opened.
func (s *Source) Path() transfer.Path { return s.path }

// Version is the file's when it was opened.
func (s *Source) Version() transfer.Version { return s.st.identity().version() }

// Mode is the permission bits; setuid and its like are not among them.
func (s *Source) Mode() uint32 { return s.st.Mode }

// Mtime is the modification time in nanoseconds since 1970.
func (s *Source) Mtime() int64 { return s.st.Mtime }

// Allocated is the space that the file takes on its disk, in bytes.
func (s *Source) Allocated() int64 { return s.st.Allocated }

// Unchanged asks the open file whether its identity is still that of when it
// was opened. The error is of kind Changing.
func (s *Source) Unchanged() error {
	now, err := s.fs.disk.Stat(s.f)
	if err != nil {
		return sourceError(s.path, err)
	}

	was := s.st.identity()
	switch is := now.identity(); {
	case is == was:
		return nil
	case is.Size != was.Size:
		return transfer.Errorf(transfer.KindChanging, "source %s changed while it was read: from %d to %d bytes", s.path, was.Size, is.Size)
	case is.Mtime != was.Mtime:
		return transfer.Errorf(transfer.KindChanging, "source %s was written to while it was read", s.path)
	}
	return transfer.Errorf(transfer.KindChanging, "source %s was renamed, replaced or otherwise changed while it was read", s.path)
}

// Close lets go of the file.
func (s *Source) Close() error { return s.fs.disk.Close(s.f) }

// StatDir reads the permission bits and modification time of a directory.
func (f *FS) StatDir(p transfer.Path) (mode uint32, mtime int64, err error) {
	l, err := f.locate(p)
	if err != nil {
		return 0, 0, err
	}

	d, err := f.openDir(l)
	if err != nil {
		return 0, 0, sourceError(p, err)
	}

	st, err := d.stat()
	if err = errors.Join(err, d.close()); err != nil {
		return 0, 0, sourceError(p, err)
	}
	return st.Mode, st.Mtime, nil
}
