package disk

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"ferry/internal/transfer"
)

// A Disk is the operating system for this package, which reaches files in no other way. Tests replace it to make I/O
// fail, or to use a file system of their own. Calls on a directory take one component, never a path, and do not follow
// links. Paths have '/' as separator. The Disk repeats a call that a signal has interrupted, and no other call.
type Disk interface {
	Host
	Dirs
	Names
	Contents
	Syncs
}

// Host opens and finds the host's directories by their paths.
type Host interface {
	// Resolve returns a path of the host with its links resolved.
	Resolve(path string) (string, error)
	// OpenRoot opens a directory of the host, from where OpenBeneath starts. It returns ENOTDIR if the path is no
	// directory.
	OpenRoot(path string) (Root, error)
	CloseRoot(r Root) error
	// OpenBeneath opens a directory beneath a root. It follows links that stay beneath the root. Otherwise, and for an
	// absolute link, the error is ErrEscapes. For a directory that this process's user may search and not read, it
	// returns a Searched handle, where the host can open one.
	OpenBeneath(r Root, rel string) (Handle, error)
	// Trace returns the Stat of the directory that an absolute path of the host leads to now, looked up from the top.
	// It returns ENOTDIR if the path is no directory. Without follow, a link on the way is an error, too.
	Trace(path string, follow bool) (Stat, error)
	// Mounted reports whether a directory is the top of a mounted file system. path has its links resolved.
	Mounted(path string) (bool, error)
}

// Dirs reads properties of open directories.
type Dirs interface {
	// Child opens a directory in a directory.
	Child(d *Dir, name string) (Handle, error)
	CloseDir(d *Dir) error
	// Where returns the path of a directory now, links resolved. It returns ENOENT if the directory has been removed.
	Where(d *Dir) (string, error)
	StatDir(d *Dir) (Stat, error)
	Lstat(d *Dir, name string) (Stat, error)
	// Names reads up to n names, and returns io.EOF at the end. With n < 0 it reads all names from the beginning.
	Names(d *Dir, n int) ([]string, error)
	// Free returns the number of free bytes for this process's user.
	Free(d *Dir) (int64, error)
	// DefaultMode returns the permission bits that the directory's default access control list leaves to a new file. ok
	// is false if the directory has no such list; then the umask applies.
	DefaultMode(d *Dir) (mode uint32, ok bool, err error)
}

// Names creates and changes names in an open directory.
type Names interface {
	// Open opens a file in a directory. It never follows a link and never waits for the other end of a FIFO.
	Open(d *Dir, name string, flag int, perm os.FileMode) (File, error)
	Mkdir(d *Dir, name string) error
	// Rename without replace fails with EEXIST if the new name exists. It fails with EINVAL, ENOSYS or ENOTSUP if the
	// file system cannot promise that.
	Rename(d *Dir, from, to string, replace bool) error
	// RenameInto is Rename to a name in another directory.
	RenameInto(d *Dir, from string, into *Dir, to string, replace bool) error
	Link(d *Dir, from, to string) error
	Unlink(d *Dir, name string) error
}

// Contents reads and writes the data and the attributes of files.
type Contents interface {
	Stat(f File) (Stat, error)
	ReadAt(f File, b []byte, off int64) (int, error)
	Write(f File, b []byte, off int64) (int, error)
	Truncate(f File, size int64) error
	// Allocate reserves space up to size without changing the file's size.
	Allocate(f File, size int64) error
	// Punch frees the reserved space between off and end.
	Punch(f File, off, end int64) error
	// SetMeta sets the permission bits and the modification time of an open file with the given name in d, or of d
	// itself if f is nil. The other mode bits of d stay. KeepMode keeps the permission bits, and a time that is not
	// transfer.KnownTime keeps the file's time.
	SetMeta(d *Dir, name string, f File, mode uint32, mtime int64) error
	Close(f File) error
}

// Syncs makes data and names durable.
type Syncs interface {
	// SyncDir makes the names in a directory durable.
	SyncDir(d *Dir) error
	// StartSync begins to write a file's data back. Success promises nothing. If the file system could not place the
	// data, the error is as final as that of a sync. Where the host does not offer it, StartSync does nothing.
	StartSync(f File) error
	// SyncData makes a file's data and size durable, Sync its times and mode too.
	SyncData(f File) error
	Sync(f File) error
	// WatchFS begins to watch the file system of a directory, so that SyncFS can report lost writes. If SyncFS could
	// not keep its promises, the error is errors.ErrUnsupported or another error that notOffered accepts.
	WatchFS(d *Dir) (Watch, error)
	// SyncFS makes durable all writes to the watched file system before the call: data, sizes, modes, times and names,
	// of any program. Writes that were lost since the watch began are an error once: the next call reports only later
	// losses. Only one call on a watch may run at a time. The first call, too, may report that the operation is not
	// offered.
	SyncFS(w Watch) error
	CloseWatch(w Watch) error
}

// KeepMode stands for the present permission bits of a file or directory.
const KeepMode = ^uint32(0)

// ErrEscapes reports that a path leaves its root, or may leave it.
var ErrEscapes = errors.New("the path leads out of its root")

// A File is an open file. Only the Disk that opened it knows its implementation.
type File interface {
	Name() string // the path under which it was opened
}

// A Watch is a watched file system. Only its Disk knows the implementation.
type Watch interface {
	Name() string // the directory given to WatchFS
}

// A Root is an open root directory. Only its Disk knows the implementation.
type Root interface{ Name() string }

// A Handle is an open directory. Only its Disk knows the implementation.
type Handle any

// A Searched is the Handle of a directory that may be searched and not read. The Disk finds names in it, but cannot
// list them or make them durable.
type Searched interface{ Searched() }

// A Dir is an open directory beneath a root.
type Dir struct {
	disk   Disk
	handle Handle
	path   string // the absolute path that the caller gave
	real   string // the real path at the time of opening, links resolved
	id     DirID  // zero where its path is never looked up again
}

// A DirID identifies a directory, as long as it is open.
type DirID struct{ Dev, Ino uint64 }

// DirID returns the identity of a directory.
func (s *Stat) DirID() DirID { return DirID{s.Dev, s.Ino} }

// NewDir returns a directory that a Disk has opened. path is the caller's path, real the path with links resolved.
func NewDir(disk Disk, h Handle, path, real string) *Dir {
	return &Dir{disk: disk, handle: h, path: path, real: real}
}

// Path returns the directory's absolute path as the caller gave it.
func (d *Dir) Path() string { return d.path }

// Real returns the directory's real path at the time of opening, with links resolved.
func (d *Dir) Real() string { return d.real }

// ID returns the identity of the directory. It is zero where the directory's path is never looked up again.
func (d *Dir) ID() DirID { return d.id }

// Handle returns the Disk's handle of the directory.
func (d *Dir) Handle() Handle { return d.handle }

// Close closes the directory. It may be called again.
func (d *Dir) Close() error {
	if d.handle == nil {
		return nil
	}
	err := d.disk.CloseDir(d)
	d.handle = nil
	return err
}

// Lstat returns the attributes of a name. It does not follow a link.
func (d *Dir) Lstat(name string) (Stat, error) { return d.disk.Lstat(d, name) }

// Stat returns the attributes of the directory.
func (d *Dir) Stat() (Stat, error) { return d.disk.StatDir(d) }

// Names is Disk.Names.
func (d *Dir) Names(n int) ([]string, error) { return d.disk.Names(d, n) }

// Free is Disk.Free.
func (d *Dir) Free() (int64, error) { return d.disk.Free(d) }

// Listed returns an opened directory if it is changeable, and otherwise closes it.
func Listed(d *Dir, err error) (*Dir, error) {
	if err != nil {
		return nil, err
	}
	if err := d.Changeable(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Changeable returns nil if the names in a directory can be listed and made durable, as changes need it.
func (d *Dir) Changeable() error {
	if _, is := d.handle.(Searched); !is {
		return nil
	}
	return Wrap(transfer.KindUnwritable, syscall.EACCES, "let the agent's user read and write the directory",
		"names in directory %s cannot be changed: the directory cannot be read: permission denied", transfer.Path(d.path))
}

// Child opens a directory in this one and does not follow a link.
func (d *Dir) Child(name, path, real string) (*Dir, error) {
	h, err := d.disk.Child(d, name)
	if err != nil {
		return nil, err
	}
	return NewDir(d.disk, h, path, real), nil
}

// Identify records the identity of the directory, so that its path can be looked up again.
func (d *Dir) Identify() error {
	st, err := d.Stat()
	if err == nil {
		d.id = st.DirID()
	}
	return err
}

// A FileType is a kind of file.
type FileType uint8

// The types of files; TypeOther is a device, socket or pipe.
const (
	TypeOther FileType = iota
	TypeFile
	TypeDir
	TypeLink
)

// A Stat holds attributes of a file's inode.
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

// RealDisk returns the Disk of the host.
func RealDisk() Disk { return realDisk{} }

type realDisk struct{}

func (realDisk) Resolve(path string) (string, error) {
	return resolve(HostRules.host(path))
}

// resolve returns a clean path of the host with its links resolved.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return HostRules.Clean(filepath.ToSlash(real)), nil
}

// escapes distinguishes os.Root's own refusals from errors of the operating system.
func escapes(err error) bool {
	var errno syscall.Errno
	return err != nil && !errors.As(err, &errno) && !errors.Is(err, os.ErrClosed)
}

// A Cloner is a disk that can make a file of the blocks of another one, on file systems that
// share blocks.
type Cloner interface{ Clone(to, from File) error }
