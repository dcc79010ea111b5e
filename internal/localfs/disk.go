package localfs

import (
	"os"
)

// A Disk is the operating system as this package uses it: every call that
// writes, makes durable or names something. It is the seam through which a test
// makes I/O fail. Calls on a directory take one component, never a path, and do
// not follow links.
type Disk interface {
	// Open opens a file in a directory, never through a link and never waiting
	// for the other end of a FIFO.
	Open(d *Dir, name string, flag int, perm os.FileMode) (*os.File, error)
	Mkdir(d *Dir, name string) error
	// Rename without replace fails with EEXIST where the new name exists, and
	// with EINVAL, ENOSYS or ENOTSUP where the file system cannot promise that.
	Rename(d *Dir, from, to string, replace bool) error
	Link(d *Dir, from, to string) error
	Unlink(d *Dir, name string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(d *Dir) error

	Write(f *os.File, b []byte, off int64) (int, error)
	Truncate(f *os.File, size int64) error
	// Allocate reserves space up to size without changing the file's size.
	Allocate(f *os.File, size int64) error
	// Punch gives back what is reserved between off and end.
	Punch(f *os.File, off, end int64) error
	// SetMeta sets permission bits and modification time of an open file that
	// has the given name in d; of d itself where f is nil.
	SetMeta(d *Dir, name string, f *os.File, mode uint32, mtime int64) error
	// StartSync begins to write a file's data back; it promises nothing.
	StartSync(f *os.File)
	// SyncData makes a file's data and size durable, Sync its times and mode too.
	SyncData(f *os.File) error
	Sync(f *os.File) error
	Close(f *os.File) error
}

// RealDisk is the host's own.
func RealDisk() Disk { return realDisk{} }

type realDisk struct{}

func (realDisk) Write(f *os.File, b []byte, off int64) (int, error) { return f.WriteAt(b, off) }
func (realDisk) Truncate(f *os.File, size int64) error              { return f.Truncate(size) }
func (realDisk) Sync(f *os.File) error                              { return f.Sync() }
func (realDisk) Close(f *os.File) error                             { return f.Close() }

// A Dir is an open directory beneath a root.
type Dir struct {
	handle
	path string // as it was addressed: absolute, '/' as separator
	real string // where it lies, links resolved
}

// Path is the directory's absolute path as it was addressed.
func (d *Dir) Path() string { return d.path }

// A kind of file, as far as this package tells them apart.
type fileType uint8

const (
	typeOther fileType = iota
	typeFile
	typeDir
	typeLink
)

// A stat is what is read of a file's inode.
type stat struct {
	typ       fileType
	mode      uint32 // permission bits
	dev, ino  uint64
	nlink     uint64
	uid       uint32
	size      int64
	mtime     int64
	ctime     int64
	allocated int64
}
