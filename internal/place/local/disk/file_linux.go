package disk

import (
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// An openFile is usually a regular file. An os.File reads and sets the descriptor's flags, registers it with the
// poller, and gets a cleanup of the garbage collector. For files that are open for a millisecond, that is a
// considerable part of the work. Only realDisk makes openFiles, and the function that opens one closes it.
type openFile struct {
	name string
	mu   sync.RWMutex // held for reading while the descriptor is in use: after a close another file may get its number
	fd   int          // -1 once it is closed
}

// Name returns the path given to Open.
func (f *openFile) Name() string { return f.name }

// use makes a call on the descriptor, and repeats it if a signal interrupts it.
func (f *openFile) use(op string, call func(fd int) error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	err := os.ErrClosed
	if f.fd >= 0 {
		err = retry(func() error { return call(f.fd) })
	}
	if err != nil {
		return &os.PathError{Op: op, Path: f.name, Err: err}
	}
	return nil
}

func (f *openFile) close() error {
	f.mu.Lock()
	fd := f.fd
	f.fd = -1
	f.mu.Unlock()
	err := os.ErrClosed
	if fd >= 0 {
		err = unix.Close(fd) // the descriptor is closed even if Close returns an error
	}
	if err != nil {
		return &os.PathError{Op: "close", Path: f.name, Err: err}
	}
	return nil
}

// Open omits O_NONBLOCK for a new file. An existing file may be a FIFO, so Open does not wait for it, and clears the
// flag once it is open.
func (realDisk) Open(d *Dir, name string, flag int, perm os.FileMode) (File, error) {
	flag |= unix.O_NOFOLLOW
	wait := unix.O_NONBLOCK
	if flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL {
		wait = 0
	}

	path := d.path + "/" + name
	fd, err := openat(dirFD(d), name, flag|wait|unix.O_CLOEXEC|unix.O_NOCTTY, uint32(perm))
	if err == nil && wait != 0 {
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0); err != nil { // it has no other flag that this could take
			unix.Close(fd)
		}
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &openFile{name: path, fd: fd}, nil
}

func (realDisk) Close(f File) error { return f.(*openFile).close() }

func (realDisk) Stat(f File) (Stat, error) {
	var st unix.Stat_t
	if err := f.(*openFile).use("fstat", func(fd int) error { return unix.Fstat(fd, &st) }); err != nil {
		return Stat{}, err
	}
	return toStat(&st), nil
}

func (realDisk) ReadAt(f File, b []byte, off int64) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		err = f.(*openFile).use("read", func(fd int) (err error) {
			k, err = unix.Pread(fd, b[n:], off+int64(n))
			return err
		})
		if n += max(k, 0); k == 0 && err == nil {
			return n, io.EOF
		}
	}
	return n, err
}

func (realDisk) Write(f File, b []byte, off int64) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		err = f.(*openFile).use("write", func(fd int) (err error) {
			k, err = unix.Pwrite(fd, b[n:], off+int64(n))
			return err
		})
		if n += max(k, 0); k == 0 && err == nil {
			return n, io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// Clone makes the file share the blocks of another file.
func (realDisk) Clone(to, from File) error {
	return to.(*openFile).use("clone", func(fd int) error {
		return from.(*openFile).use("clone", func(source int) error { return unix.IoctlFileClone(fd, source) })
	})
}

func (realDisk) Truncate(f File, size int64) error {
	return f.(*openFile).use("truncate", func(fd int) error { return unix.Ftruncate(fd, size) })
}

// Allocate reserves space. A file system in memory would fill the space with zeros, page by page, which takes as long
// as writing. There it is not offered.
func (realDisk) Allocate(f File, size int64) error {
	return f.(*openFile).use("fallocate", func(fd int) error {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(fd, &fs); err == nil && fs.Type == unix.TMPFS_MAGIC {
			return unix.EOPNOTSUPP
		}
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, size)
	})
}

func (realDisk) Punch(f File, off, end int64) error {
	return f.(*openFile).use("fallocate", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, off, end-off)
	})
}

func (realDisk) SetMeta(d *Dir, _ string, f File, mode uint32, mtime int64) error {
	if f == nil {
		if err := readable(d, "chmod"); err != nil {
			return err
		}
		return setDirMeta(dirFD(d), mode, mtime)
	}
	if mode != KeepMode {
		mode &= 0o777
	}
	return f.(*openFile).use("chmod", func(fd int) error { return setMeta(fd, mode, mtime) })
}

func (realDisk) StartSync(f File) error {
	err := f.(*openFile).use("sync_file_range", func(fd int) error { return unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE) })
	if err != nil && startNotOffered(err) {
		return nil
	}
	return err
}

func (realDisk) SyncData(f File) error { return f.(*openFile).use("fdatasync", unix.Fdatasync) }
func (realDisk) Sync(f File) error     { return f.(*openFile).use("fsync", unix.Fsync) }
