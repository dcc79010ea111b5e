package local

import (
	"errors"
	"io"
	"os"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A Source is a regular file that is open for reading. It is safe for concurrent use.
type Source struct {
	fs   *FS
	f    File
	path transfer.Path
	st   Stat

	dataset bool   // the file is a data set, or a member of one
	at      int64  // read so far
	unsized bool   // its size is meaningless
	lies    string // its real path when it was opened; empty without a permit
}

// OpenSource opens a regular file. It does not follow a link and does not wait for a FIFO. Its errors are of the kinds
// Missing, Unreadable, WrongType and OutsideRoot.
func (f *FS) OpenSource(p transfer.Path) (*Source, error) {
	s := f.Sources(transfer.Location{})
	defer s.Close()
	return s.Open(p, false)
}

// Sources opens the files of one transfer, one after another. It keeps the directory of the last file open, because the
// next file is usually in it. Only one goroutine may use it.
type Sources struct {
	fs      *FS
	dataset bool
	dir     *Dir
	path    string // of dir
	left    int    // files until the path is looked up again, as it may have been renamed
	may     place.Permit
	follow  bool // a link is followed
}

// lookUpAfter is the number of files that are opened after one lookup of their path.
const lookUpAfter = 256

// Sources returns a Sources without open files. first is the first source of the request.
func (f *FS) Sources(first transfer.Location) *Sources {
	return &Sources{fs: f, dataset: first.Place == transfer.Datasets} // then all sources are data sets
}

// Close closes the directory.
func (s *Sources) Close() {
	if s.dir != nil {
		s.dir.close()
		s.dir = nil
	}
}

// parent returns the directory of a file, opened beneath its root.
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

// Open opens a regular file, as OpenSource does. unsized means that the size of the file is meaningless.
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
		return wrap(transfer.KindWrongType, nil, "use -r to send its files", "source %s is a directory", p)
	case TypeLink:
		return wrap(transfer.KindWrongType, nil, "name the target of the link", "source %s is a symbolic link, which is not followed", p)
	}
	return wrap(transfer.KindWrongType, nil, "", "source %s is a device, socket or pipe; only regular files are sent", p)
}

func (s *Stat) identity() identity {
	return identity{Dev: s.Dev, Ino: s.Ino, Size: s.Size, Mtime: s.Mtime, Ctime: s.Ctime}
}

// Read reads the next bytes. It returns io.EOF with the last bytes or after them. Other errors are of kind Unreadable,
// of kind Changing if the file has changed, and ErrUnsized if its size is wrong.
func (s *Source) Read(b []byte) (int, error) {
	if s.unsized {
		return s.readUnsized(b)
	}
	return s.readSized(b)
}

// ReadAt implements io.ReaderAt, independently of Read. An error other than io.EOF is of kind Unreadable.
func (s *Source) ReadAt(b []byte, off int64) (int, error) {
	n, err := s.fs.disk.ReadAt(s.f, b, off)
	if err != nil && err != io.EOF {
		err = sourceError(s.path, err)
	}
	return n, err
}

// SeekTo sets the offset of the next Read. It reports false if a second read of the file may give other bytes.
func (s *Source) SeekTo(at int64) bool {
	if s.unsized && at != s.at {
		return false
	}
	s.at = at
	return true
}

// Size returns the length in bytes, or -1 if only reading shows it.
func (s *Source) Size() int64 {
	if s.unsized {
		return -1
	}
	return s.st.Size
}

// Path returns the path given to Open.
func (s *Source) Path() transfer.Path { return s.path }

// Version returns the file's version when it was opened.
func (s *Source) Version() transfer.Version { return s.st.identity().version() }

// Mode returns the permission bits, without setuid, setgid and sticky.
func (s *Source) Mode() uint32 { return s.st.Mode }

// Mtime returns the modification time in nanoseconds since 1970.
func (s *Source) Mtime() int64 { return s.st.Mtime }

// Allocated returns the disk space of the file in bytes.
func (s *Source) Allocated() int64 { return s.st.Allocated }

// Unchanged checks that the identity of the open file has not changed since it was opened. The error is of kind
// Changing.
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

// Close closes the file.
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
