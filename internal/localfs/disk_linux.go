package localfs

import (
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Limits names the primitives that this platform lacks; on Linux there are
// none.
func Limits() []string { return nil }

// BootID names this boot of the host. It is empty where it cannot be known.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// A handle is a directory's descriptor; calls on it are the *at calls.
type handle struct{ f *os.File }

func newHandle(root *os.Root, rel string) (handle, error) {
	f, err := root.OpenFile(rel, os.O_RDONLY|unix.O_DIRECTORY, 0)
	return handle{f}, err
}

// child opens a directory in this one; a link is not followed.
func (h handle) child(name string) (handle, error) {
	fd, err := openat(h.fd(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return handle{}, &os.PathError{Op: "openat", Path: name, Err: err}
	}
	return handle{os.NewFile(uintptr(fd), name)}, nil
}

func (h handle) fd() int      { return int(h.f.Fd()) }
func (h handle) close() error { return h.f.Close() }

func (h handle) lstat(name string) (stat, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstatat(h.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return stat{}, &os.PathError{Op: "lstat", Path: name, Err: err}
	}
	return toStat(&st), nil
}

func (h handle) stat() (stat, error) { return fstat(h.f) }

// names reads up to n names; n < 0 reads them all, from the beginning.
func (h handle) names(n int) ([]string, error) {
	if n < 0 {
		if _, err := h.f.Seek(0, 0); err != nil {
			return nil, err
		}
	}
	return h.f.Readdirnames(n)
}

// realPath is where the directory lies now.
func (h handle) realPath() (string, error) {
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(h.fd()))
}

func (h handle) free() (int64, error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(h.fd(), &st) }); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

func fstat(f *os.File) (stat, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(int(f.Fd()), &st) }); err != nil {
		return stat{}, &os.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	return toStat(&st), nil
}

func toStat(st *unix.Stat_t) stat {
	s := stat{mode: uint32(st.Mode) & 0o777, dev: uint64(st.Dev), ino: st.Ino, nlink: uint64(st.Nlink), uid: st.Uid,
		size: st.Size, mtime: unix.TimespecToNsec(st.Mtim), ctime: unix.TimespecToNsec(st.Ctim), allocated: int64(st.Blocks) * 512}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		s.typ = typeFile
	case unix.S_IFDIR:
		s.typ = typeDir
	case unix.S_IFLNK:
		s.typ = typeLink
	}
	return s
}

// retry repeats a call that a signal has interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func openat(dir int, name string, flag int, perm uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, flag, perm)
		return err
	})
	return fd, err
}

func (realDisk) Open(d *Dir, name string, flag int, perm os.FileMode) (*os.File, error) {
	fd, err := openat(d.fd(), name, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, uint32(perm))
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: d.path + "/" + name, Err: err}
	}
	unix.SetNonblock(fd, false) // it was for the open only
	return os.NewFile(uintptr(fd), d.path+"/"+name), nil
}

func (realDisk) Mkdir(d *Dir, name string) error {
	return retry(func() error { return unix.Mkdirat(d.fd(), name, 0o777) })
}

func (realDisk) Rename(d *Dir, from, to string, replace bool) error {
	var flags uint
	if !replace {
		flags = unix.RENAME_NOREPLACE
	}
	return retry(func() error { return unix.Renameat2(d.fd(), from, d.fd(), to, flags) })
}

func (realDisk) Link(d *Dir, from, to string) error {
	return retry(func() error { return unix.Linkat(d.fd(), from, d.fd(), to, 0) })
}

func (realDisk) Unlink(d *Dir, name string) error {
	return retry(func() error { return unix.Unlinkat(d.fd(), name, 0) })
}

func (realDisk) SyncDir(d *Dir) error { return d.f.Sync() }

func (realDisk) Allocate(f *os.File, size int64) error {
	return retry(func() error { return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size) })
}

func (realDisk) Punch(f *os.File, off, end int64) error {
	return retry(func() error {
		return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, off, end-off)
	})
}

func (realDisk) SetMeta(d *Dir, _ string, f *os.File, mode uint32, mtime int64) error {
	if f == nil {
		f = d.f
	}
	fd := int(f.Fd())
	// Both are tried: a file system that has no modes may still have times.
	err := retry(func() error { return unix.Fchmod(fd, mode&0o777) })
	ts := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(mtime)}
	terr := retry(func() error {
		// A null path is the descriptor itself; no wrapper offers it.
		_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
		if e != 0 {
			return e
		}
		return nil
	})
	if err == nil {
		err = terr
	}
	return err
}

func (realDisk) StartSync(f *os.File) {
	unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}

func (realDisk) SyncData(f *os.File) error {
	return retry(func() error { return unix.Fdatasync(int(f.Fd())) })
}

// mine reports whether a temporary can be one that this process's user made.
func (s *stat) mine() bool { return s.uid == uint32(os.Geteuid()) && s.mode&0o077 == 0 }
