package localfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"ferry/internal/transfer"
)

// A Disk is the operating system as this package uses it: there is no other way
// from here to a file. It is the seam through which a test makes I/O fail, or
// puts a whole file system of its own in place of the host's. Calls on a
// directory take one component, never a path, and do not follow links. Paths
// have '/' as separator. What a signal interrupts is repeated here; but for that
// no call is ever made twice.
type Disk interface {
	Host
	Dirs
	Names
	Contents
	Syncs
}

// Host is the host's directories by their paths.
type Host interface {
	// Resolve gives a path of the host with its links resolved.
	Resolve(path string) (string, error)
	// OpenRoot opens a directory of the host, from which OpenBeneath starts;
	// ENOTDIR where it is none.
	OpenRoot(path string) (Root, error)
	CloseRoot(r Root) error
	// OpenBeneath opens a directory beneath a root. Links are followed as long
	// as they stay there; otherwise, and where that cannot be known because a
	// link is absolute, the error is ErrEscapes. A directory that this process's
	// user may search and not read gives a Searched handle, where the host can
	// open one.
	OpenBeneath(r Root, rel string) (Handle, error)
	// Trace is the directory to which an absolute path of the host leads now,
	// looked up from its top; ENOTDIR where it is none. Without follow a link
	// on the way is an error, too.
	Trace(path string, follow bool) (Stat, error)
	// Mounted reports whether a directory, given by its path with links
	// resolved, is the top of a file system that is mounted there.
	Mounted(path string) (bool, error)
}

// Dirs is what can be learned of a directory that is open.
type Dirs interface {
	// Child opens a directory in a directory.
	Child(d *Dir, name string) (Handle, error)
	CloseDir(d *Dir) error
	// Where is the path at which a directory lies now, links resolved; ENOENT
	// where it has been removed.
	Where(d *Dir) (string, error)
	StatDir(d *Dir) (Stat, error)
	Lstat(d *Dir, name string) (Stat, error)
	// Names reads up to n names, and gives io.EOF where there are no more; n < 0
	// reads them all, from the beginning.
	Names(d *Dir, n int) ([]string, error)
	// Free is the space that is left to this process's user.
	Free(d *Dir) (int64, error)
	// DefaultMode is the permission bits that the default access control list of a directory leaves
	// to a file that is made there; ok is false where it has none, and the umask holds.
	DefaultMode(d *Dir) (mode uint32, ok bool, err error)
}

// Names makes and changes names in a directory that is open.
type Names interface {
	// Open opens a file in a directory, never through a link and never waiting
	// for the other end of a FIFO.
	Open(d *Dir, name string, flag int, perm os.FileMode) (File, error)
	Mkdir(d *Dir, name string) error
	// Rename without replace fails with EEXIST where the new name exists, and
	// with EINVAL, ENOSYS or ENOTSUP where the file system cannot promise that.
	Rename(d *Dir, from, to string, replace bool) error
	// RenameInto is Rename into another directory.
	RenameInto(d *Dir, from string, into *Dir, to string, replace bool) error
	Link(d *Dir, from, to string) error
	Unlink(d *Dir, name string) error
}

// Contents is what files hold, and their attributes.
type Contents interface {
	Stat(f File) (Stat, error)
	ReadAt(f File, b []byte, off int64) (int, error)
	Write(f File, b []byte, off int64) (int, error)
	Truncate(f File, size int64) error
	// Allocate reserves space up to size without changing the file's size.
	Allocate(f File, size int64) error
	// Punch gives back what is reserved between off and end.
	Punch(f File, off, end int64) error
	// SetMeta sets permission bits and modification time of an open file that
	// has the given name in d; of d itself where f is nil; the other mode
	// bits of d stay. KeepMode leaves the permission bits as they are,
	// and so does a time that is not transfer.KnownTime the file's.
	SetMeta(d *Dir, name string, f File, mode uint32, mtime int64) error
	Close(f File) error
}

// Syncs makes durable what was done.
type Syncs interface {
	// SyncDir makes the names in a directory durable.
	SyncDir(d *Dir) error
	// StartSync begins to write a file's data back. It promises nothing when it
	// succeeds; data that the file system could not place is an error, as of a
	// sync, and as final. Where it is not offered it does nothing.
	StartSync(f File) error
	// SyncData makes a file's data and size durable, Sync its times and mode too.
	SyncData(f File) error
	Sync(f File) error
	// WatchFS begins to watch the file system on which a directory lies, so that
	// SyncFS can tell of what could not be written to it. The error is
	// errors.ErrUnsupported, or another for which notOffered holds, where SyncFS
	// could not keep its promises.
	WatchFS(d *Dir) (Watch, error)
	// SyncFS makes durable what had been written on the whole watched file system
	// when it was called: data, sizes, modes, times and names, whoever wrote them.
	// Whatever could not be written since the watch began is an error, once: the
	// next call speaks of what came later only. One call on a watch at a time.
	// The first one, too, may say that it is not offered.
	SyncFS(w Watch) error
	CloseWatch(w Watch) error
}

// KeepMode stands for the permission bits that a file or directory has.
const KeepMode = ^uint32(0)

// ErrEscapes says that a path leaves its root, or may.
var ErrEscapes = errors.New("the path leads out of its root")

// A File is an open file. What else it is only the Disk knows that opened it.
type File interface {
	Name() string // the path under which it was opened
}

// A Watch is a file system that is watched, as its Disk knows it.
type Watch interface {
	Name() string // the directory for which it was asked
}

// A Root is the top of a tree that is open, as its Disk knows it.
type Root interface{ Name() string }

// A Handle is an open directory as its Disk knows it.
type Handle any

// A Searched is the Handle of a directory that may be searched and not read. The
// Disk finds names in it, and neither lists them nor makes them durable.
type Searched interface{ Searched() }

// A Dir is an open directory beneath a root.
type Dir struct {
	disk   Disk
	handle Handle
	path   string // as it was addressed: absolute
	real   string // where it lay when it was opened, links resolved
	id     dirID  // zero where its path is never looked up again
}

// A dirID tells a directory from any other, as long as it is open.
type dirID struct{ dev, ino uint64 }

func (s *Stat) dirID() dirID { return dirID{s.Dev, s.Ino} }

// NewDir is a directory that a Disk has opened, addressed by a path and lying
// at a real one.
func NewDir(disk Disk, h Handle, path, real string) *Dir {
	return &Dir{disk: disk, handle: h, path: path, real: real}
}

// Path is the directory's absolute path as it was addressed.
func (d *Dir) Path() string { return d.path }

// Handle is what the Disk gave when it opened the directory.
func (d *Dir) Handle() Handle { return d.handle }

// close may be called again.
func (d *Dir) close() error {
	if d.handle == nil {
		return nil
	}
	err := d.disk.CloseDir(d)
	d.handle = nil
	return err
}

func (d *Dir) lstat(name string) (Stat, error) { return d.disk.Lstat(d, name) }
func (d *Dir) stat() (Stat, error)             { return d.disk.StatDir(d) }
func (d *Dir) names(n int) ([]string, error)   { return d.disk.Names(d, n) }
func (d *Dir) free() (int64, error)            { return d.disk.Free(d) }

// listed returns a directory that was opened and is changeable, and closes one that
// is not.
func listed(d *Dir, err error) (*Dir, error) {
	if err != nil {
		return nil, err
	}
	if err := d.changeable(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// changeable is nil if the names in a directory can be listed and made durable, as is
// needed to change them.
func (d *Dir) changeable() error {
	if _, is := d.handle.(Searched); !is {
		return nil
	}
	return wrap(transfer.KindUnwritable, syscall.EACCES, "let the agent's user read and write the directory",
		"names in directory %s cannot be changed: the directory cannot be read: permission denied", transfer.Path(d.path))
}

// child opens a directory in this one; a link is not followed.
func (d *Dir) child(name, path, real string) (*Dir, error) {
	h, err := d.disk.Child(d, name)
	if err != nil {
		return nil, err
	}
	return NewDir(d.disk, h, path, real), nil
}

// identify notes which directory it is, so that its path can be looked up again.
func (d *Dir) identify() error {
	st, err := d.stat()
	if err == nil {
		d.id = st.dirID()
	}
	return err
}

// A FileType is a kind of file, as far as this package tells them apart.
type FileType uint8

// The types of files; TypeOther is a device, socket or pipe.
const (
	TypeOther FileType = iota
	TypeFile
	TypeDir
	TypeLink
)

// A Stat is what is read of a file's inode.
type Stat struct {
	Type      FileType
	Mode      uint32 // permission bits
	Dev, Ino  uint64
	Nlink     uint64
	UID       uint32
	Size      int64
	Mtime     int64 // nanoseconds since 1970, as Ctime
	Ctime     int64
	Allocated int64
}

// A fileReader reads an open file as an io.ReaderAt.
type fileReader struct {
	disk Disk
	f    File
}

func (r fileReader) ReadAt(b []byte, off int64) (int, error) { return r.disk.ReadAt(r.f, b, off) }

// RealDisk is the host's own.
func RealDisk() Disk { return realDisk{} }

type realDisk struct{}

func (realDisk) Resolve(path string) (string, error) {
	return resolve(HostRules.host(path))
}

// resolve is a path of the host without its links, clean.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return HostRules.clean(filepath.ToSlash(real)), nil
}

// escapes tells os.Root's own refusals from errors of the operating system.
func escapes(err error) bool {
	var errno syscall.Errno
	return err != nil && !errors.As(err, &errno) && !errors.Is(err, os.ErrClosed)
}
