package disk

import (
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"ferry/internal/transfer"
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

// dirFile returns the *os.File of a directory's Handle. Calls on it are the *at system calls.
func dirFile(d *Dir) *os.File {
	if s, is := d.handle.(searched); is {
		return s.File
	}
	return d.handle.(*os.File)
}

func dirFD(d *Dir) int { return int(dirFile(d).Fd()) }

// A searched is a directory that was opened with O_PATH.
type searched struct{ *os.File }

// Searched marks the handle.
func (searched) Searched() {}

// readable returns EACCES for a directory that was opened only for searching.
func readable(d *Dir, op string) error {
	if _, is := d.handle.(searched); is {
		return &os.PathError{Op: op, Path: d.path, Err: unix.EACCES}
	}
	return nil
}

// OpenRoot opens a root as an *os.File.
func (realDisk) OpenRoot(path string) (Root, error) {
	fd, _, err := openDirectory(func(flag int) (int, error) { return openat(unix.AT_FDCWD, path, flag, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func (realDisk) CloseRoot(r Root) error { return r.(*os.File).Close() }

// openDirectory opens a directory for reading, or only for searching if the user may not read it.
func openDirectory(open func(flag int) (int, error)) (fd int, searching bool, err error) {
	fd, err = open(unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC)
	if err != unix.EACCES {
		return fd, false, err
	}
	fd, err = open(traced)
	return fd, true, err
}

// openHandle is openDirectory, with a Handle of the given name as its result.
func openHandle(name string, open func(flag int) (int, error)) (Handle, error) {
	fd, searching, err := openDirectory(open)
	if err != nil {
		return nil, &os.PathError{Op: "openat", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	if searching {
		return searched{f}, nil
	}
	return f, nil
}

// OpenBeneath needs permission to search, not to read, the directories on the way.
func (realDisk) OpenBeneath(r Root, rel string) (Handle, error) {
	h, err := openHandle(rel, func(flag int) (int, error) { return openBeneath(r.(*os.File), rel, flag) })
	if errors.Is(err, unix.EXDEV) {
		err = errors.Join(ErrEscapes, err)
	}
	return h, err
}

// openBeneath returns EXDEV for a path that leads out of the root, or may lead out of it.
func openBeneath(root *os.File, rel string, flag int) (fd int, err error) {
	err = retry(func() error {
		for range 64 { // EAGAIN: a directory was moved meanwhile
			fd, err = unix.Openat2(int(root.Fd()), rel, &unix.OpenHow{Flags: uint64(flag), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
			if err != unix.EAGAIN {
				break
			}
		}
		return err
	})
	if noOpenat2(err) {
		return openParts(root, rel, flag)
	}
	return fd, err
}

// noOpenat2 reports an error of an old kernel, of a filter of system calls, or of a long path.
func noOpenat2(err error) bool {
	return err == unix.ENOSYS || err == unix.EPERM || err == unix.ENAMETOOLONG
}

// openParts is openBeneath without openat2. It opens the path component by component without a link, or as os.Root
// does, which needs permission to read each directory on the way.
func openParts(root *os.File, rel string, flag int) (int, error) {
	if !slices.Contains(strings.Split(rel, "/"), "..") {
		fd, err := openPath(int(root.Fd()), rel)
		if err == nil {
			defer unix.Close(fd)
			return openat(fd, ".", flag, 0)
		}
		if err != unix.ELOOP && err != unix.ENOTDIR { // of a link
			return -1, err
		}
	}

	top, err := os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(root.Fd())))
	if err != nil {
		return -1, errnoOf(err)
	}
	defer top.Close()
	f, err := top.OpenFile(rel, flag, 0)
	if escapes(err) {
		return -1, unix.EXDEV
	}
	if err != nil {
		return -1, errnoOf(err)
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	return fd, err
}

// errnoOf returns the operating system's error within err, or err if there is none.
func errnoOf(err error) error {
	if errno, is := errors.AsType[unix.Errno](err); is {
		return errno
	}
	return err
}

func (realDisk) Child(d *Dir, name string) (Handle, error) {
	return openHandle(name, func(flag int) (int, error) { return openat(dirFD(d), name, flag|unix.O_NOFOLLOW, 0) })
}

func (realDisk) CloseDir(d *Dir) error { return dirFile(d).Close() }

func (realDisk) Lstat(d *Dir, name string) (Stat, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstatat(dirFD(d), name, &st, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return Stat{}, &os.PathError{Op: "lstat", Path: name, Err: err}
	}
	return toStat(&st), nil
}

func (realDisk) StatDir(d *Dir) (Stat, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(dirFD(d), &st) }); err != nil {
		return Stat{}, &os.PathError{Op: "fstat", Path: d.path, Err: err}
	}
	return toStat(&st), nil
}

func (realDisk) Trace(path string, follow bool) (Stat, error) {
	fd, err := tracePath(path, follow)
	if err != nil {
		return Stat{}, &os.PathError{Op: "openat2", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return Stat{}, &os.PathError{Op: "fstat", Path: path, Err: err}
	}
	return toStat(&st), nil
}

// traced holds the flags for opening a directory only to read its identity.
const traced = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

func tracePath(path string, follow bool) (int, error) {
	if follow {
		return openat(unix.AT_FDCWD, path, traced, 0)
	}
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: traced, Resolve: unix.RESOLVE_NO_SYMLINKS})
		return err
	})
	if noOpenat2(err) {
		return traceParts(path)
	}
	return fd, err
}

// traceParts is tracePath without openat2.
func traceParts(path string) (int, error) {
	top, err := openat(unix.AT_FDCWD, "/", traced, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(top)
	return openPath(top, path)
}

// openPath goes down from a directory component by component.
func openPath(top int, path string) (int, error) {
	fd, err := openat(top, ".", traced, 0)
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || err != nil {
			continue
		}
		var next int
		next, err = openat(fd, part, traced|unix.O_NOFOLLOW, 0)
		unix.Close(fd)
		fd = next
	}
	return fd, err
}

// Mounted asks the kernel, or where that is too old compares the devices of the
// directory and of the one above.
func (realDisk) Mounted(path string) (bool, error) {
	fd, err := tracePath(path, false)
	if err != nil {
		return false, &os.PathError{Op: "openat2", Path: path, Err: err}
	}
	defer unix.Close(fd)

	var st unix.Statx_t
	err = retry(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st) })
	if err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}

	var here, above unix.Stat_t
	err = retry(func() error { return unix.Fstat(fd, &here) })
	if err == nil {
		err = retry(func() error { return unix.Fstatat(fd, "..", &above, 0) })
	}
	if err != nil {
		return false, &os.PathError{Op: "fstat", Path: path, Err: err}
	}
	return here.Dev != above.Dev || here.Ino == above.Ino, nil // "/" is above itself
}

func (realDisk) Names(d *Dir, n int) ([]string, error) {
	if err := readable(d, "readdir"); err != nil {
		return nil, err
	}
	f := dirFile(d)
	if n < 0 {
		if _, err := f.Seek(0, 0); err != nil {
			return nil, err
		}
	}
	return f.Readdirnames(n)
}

func (realDisk) Where(d *Dir) (string, error) {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(dirFD(d)))
	if err == nil && strings.HasSuffix(name, " (deleted)") {
		// Only the number of links distinguishes a directory that has been removed from one of that name.
		var st unix.Stat_t
		if err := retry(func() error { return unix.Fstat(dirFD(d), &st) }); err != nil {
			return "", err
		}
		if st.Nlink == 0 {
			return "", unix.ENOENT
		}
	}
	return name, err
}

func (realDisk) Free(d *Dir) (int64, error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(dirFD(d), &st) }); err != nil {
		return 0, err
	}
	if st.Type == unix.TMPFS_MAGIC && st.Blocks == 0 {
		return math.MaxInt64, nil // one without a limit
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

func toStat(st *unix.Stat_t) Stat {
	s := Stat{Mode: uint32(st.Mode) & 0o777, Dev: uint64(st.Dev), Ino: st.Ino, Nlink: uint64(st.Nlink), UID: st.Uid,
		Size: st.Size, Mtime: transfer.UnixNano(st.Mtim.Unix()), Ctime: transfer.UnixNano(st.Ctim.Unix()), Allocated: int64(st.Blocks) * 512}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		s.Type = TypeFile
	case unix.S_IFDIR:
		s.Type = TypeDir
	case unix.S_IFLNK:
		s.Type = TypeLink
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

func (realDisk) Mkdir(d *Dir, name string) error {
	return retry(func() error { return unix.Mkdirat(dirFD(d), name, 0o777) })
}

func (realDisk) Rename(d *Dir, from, to string, replace bool) error {
	var flags uint
	if !replace {
		flags = unix.RENAME_NOREPLACE
	}
	return retry(func() error { return unix.Renameat2(dirFD(d), from, dirFD(d), to, flags) })
}

func (realDisk) RenameInto(d *Dir, from string, into *Dir, to string, replace bool) error {
	var flags uint
	if !replace {
		flags = unix.RENAME_NOREPLACE
	}
	return retry(func() error { return unix.Renameat2(dirFD(d), from, dirFD(into), to, flags) })
}

func (realDisk) Link(d *Dir, from, to string) error {
	return retry(func() error { return unix.Linkat(dirFD(d), from, dirFD(d), to, 0) })
}

func (realDisk) Unlink(d *Dir, name string) error {
	return retry(func() error { return unix.Unlinkat(dirFD(d), name, 0) })
}

func (realDisk) SyncDir(d *Dir) error {
	if err := readable(d, "sync"); err != nil {
		return err
	}
	return dirFile(d).Sync()
}

// setDirMeta is setMeta for a directory; its setgid and sticky bits stay.
func setDirMeta(fd int, mode uint32, mtime int64) error {
	if mode == KeepMode {
		return setMeta(fd, mode, mtime)
	}
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return err
	}
	return setMeta(fd, mode&0o777|st.Mode&0o7000, mtime)
}

// setMeta sets mode and time of an open file or directory.
func setMeta(fd int, mode uint32, mtime int64) error {
	// Both are tried: a file system that has no modes may still have times.
	var err error
	if mode != KeepMode {
		err = retry(func() error { return unix.Fchmod(fd, mode) })
	}
	ts := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(mtime)}
	if !transfer.KnownTime(mtime) {
		ts[1] = unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
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

// startNotOffered distinguishes a host that cannot start writeback before a sync from a host where it failed.
func startNotOffered(err error) bool {
	return NotOffered(err) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ESPIPE) // EPERM: a filter of system calls
}

// MayBeOwn reports whether a temporary can be one that this process's user made.
func (s *Stat) MayBeOwn() bool { return s.UID == uint32(os.Geteuid()) }

// syntheticFileSystems are the file systems of Linux that make contents up.
var syntheticFileSystems = map[int64]bool{unix.PROC_SUPER_MAGIC: true, unix.SYSFS_MAGIC: true, unix.DEBUGFS_MAGIC: true, unix.TRACEFS_MAGIC: true,
	unix.CGROUP_SUPER_MAGIC: true, unix.CGROUP2_SUPER_MAGIC: true, unix.SECURITYFS_MAGIC: true, unix.SELINUX_MAGIC: true,
	unix.BPF_FS_MAGIC: true, unix.EFIVARFS_MAGIC: true, unix.RDTGROUP_SUPER_MAGIC: true}

// Synthetic reports whether a file's size is meaningless. It also makes reads of the file not wait.
func (realDisk) Synthetic(f File) (is bool) {
	f.(*openFile).use("statfs", func(fd int) error {
		var st unix.Statfs_t
		if err := unix.Fstatfs(fd, &st); err != nil {
			return err
		}
		if is = syntheticFileSystems[int64(st.Type)]; is {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK)
			return err
		}
		return nil
	})
	return is
}
