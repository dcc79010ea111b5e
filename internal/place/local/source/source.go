package source

import (
	"errors"
	"io"
	"os"
	"path"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// A Source is a regular file that is open for reading. It is safe for concurrent use.
type Source struct {
	fs   *Access
	f    disk.File
	path transfer.Path
	st   disk.Stat

	dataset  bool   // the file is a data set, or a member of one
	at       int64  // read so far
	unsized  bool   // its size is meaningless
	realPath string // its real path when it was opened; empty without a permit
}

// OpenSource opens a regular file. It does not follow a link and does not wait for a FIFO. Its errors are of the kinds
// Missing, Unreadable, WrongType and OutsideRoot.
func (f *Access) OpenSource(p transfer.Path) (*Source, error) {
	s := f.Sources(transfer.Location{})
	defer s.Close()
	return s.Open(p, false)
}

// Sources opens the files of one transfer, one after another. It keeps the directory of the last file open, because the
// next file is usually in it. Only one goroutine may use it.
type Sources struct {
	fs      *Access
	dataset bool
	dir     *disk.Dir
	path    string // of dir
	left    int    // files until the path is looked up again, as it may have been renamed
	may     place.Permit
	follow  bool // a link is followed
}

// lookUpAfter is the number of files that are opened after one lookup of their path.
const lookUpAfter = 256

// Sources returns a Sources without open files. first is the first source of the request.
func (f *Access) Sources(first transfer.Location) *Sources {
	return &Sources{fs: f, dataset: first.Place == transfer.Datasets} // then all sources are data sets
}

// Close closes the directory.
func (s *Sources) Close() {
	if s.dir != nil {
		s.dir.Close()
		s.dir = nil
	}
}

// parent returns the directory of a file, opened beneath its root.
func (s *Sources) parent(l disk.Location) (*disk.Dir, error) {
	if at := l.Parent().Path; s.dir == nil || s.path != at || s.left == 0 {
		s.Close()
		d, err := s.fs.roots.OpenParent(l)
		if err != nil {
			return nil, err
		}
		s.dir, s.path, s.left = d, at, lookUpAfter
	}

	s.left--
	if s.fs.roots.IsState(s.dir, l.Base()) {
		return nil, disk.StateError(l.Path)
	}
	return s.dir, nil
}

// Open opens a regular file, as OpenSource does. unsized means that the size of the file is meaningless.
func (s *Sources) Open(p transfer.Path, unsized bool) (*Source, error) {
	f := s.fs
	l, err := f.roots.Locate(p)
	if err == nil {
		err = l.MayRead()
	}
	if err != nil {
		return nil, err
	}

	if l.IsRoot() {
		return nil, disk.NotRegular(p, disk.TypeDir)
	}

	d, err := s.parent(l)
	if err == nil && s.follow {
		if st, lerr := d.Lstat(l.Base()); lerr == nil && st.Type == disk.TypeLink {
			if l, _, err = f.roots.LinkTarget(p, s.may); err == nil && l.IsRoot() {
				err = disk.NotRegular(p, disk.TypeDir)
			}
			if err == nil {
				d, err = s.parent(l)
			}
		}
	}
	if err != nil {
		return nil, disk.SourceError(p, err)
	}

	lies, err := s.mayRead(d, l.Base())
	if err != nil {
		return nil, disk.SourceError(p, err)
	}

	file, err := f.disk.Open(d, l.Base(), os.O_RDONLY, 0)
	if err != nil {
		s.Close() // its path may lead elsewhere by now
		return nil, disk.SourceError(p, err)
	}

	st, err := f.disk.Stat(file)
	if err == nil && st.Type != disk.TypeFile {
		err = disk.NotRegular(p, st.Type)
	}
	if err != nil {
		f.disk.Close(file)
		return nil, disk.SourceError(p, err)
	}

	src := &Source{fs: f, f: file, path: p, st: st, dataset: s.dataset, unsized: unsized, realPath: lies}
	if !unsized {
		sized, err := src.hasSize()
		if err != nil {
			src.Close()
			return nil, disk.SourceError(p, err)
		}
		src.unsized = !sized
	}
	return src, nil
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
		err = disk.SourceError(s.path, err)
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
func (s *Source) Version() transfer.Version { return s.st.Identity().Version() }

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
		return disk.SourceError(s.path, err)
	}

	was := s.st.Identity()
	switch is := now.Identity(); {
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
func (f *Access) StatDir(p transfer.Path) (mode uint32, mtime int64, err error) {
	l, err := f.roots.Locate(p)
	if err != nil {
		return 0, 0, err
	}

	d, err := f.roots.OpenDir(l)
	if err != nil {
		return 0, 0, disk.SourceError(p, err)
	}

	st, err := d.Stat()
	if err = errors.Join(err, d.Close()); err != nil {
		return 0, 0, disk.SourceError(p, err)
	}
	return st.Mode, st.Mtime, nil
}

// Form returns the known description of a file's content, or nil. dataset reports that the file is a data set, or a
// member of one, so that its library's sidecar may describe it. A sidecar that cannot be read is an error of
// KindMalformed.
func (s *Source) Form() (known *transfer.Form, dataset bool, err error) {
	known, err = s.fs.roots.ReadForm(s.path, s.dataset)
	return known, s.dataset, err
}

// mayRead returns the path of a file in an open directory, if the user may read the file.
func (s *Sources) mayRead(d *disk.Dir, name string) (realPath string, err error) {
	if s.may == nil {
		return "", nil
	}
	real, err := s.fs.roots.RealPath(d)
	if err != nil {
		return "", err
	}
	realPath = path.Join(real, name)
	return realPath, disk.PermittedAs(s.may, transfer.AuthSource, realPath, d, name)
}

type files struct{ *Sources }

func (f files) Open(p transfer.Path, unsized bool) (place.File, error) {
	s, err := f.Sources.Open(p, unsized)
	if err != nil {
		return nil, err
	}
	return file{s}, nil
}

type file struct{ *Source }

var _ place.Seeker = file{}

func (f file) Facts() place.Facts {
	return place.Facts{Version: f.Version(), Size: f.Size(), Mode: f.Mode(), Mtime: f.Mtime(), Allocated: f.Allocated(), RealPath: f.realPath}
}
