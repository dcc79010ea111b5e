package disk

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"ferry/internal/transfer"
)

var platformLimits = []string{"a sync may stop at the drive's cache"}

// BootID names this boot of the host. It is empty where it cannot be known.
func BootID() string {
	s, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return s
}

func toStat(fi os.FileInfo, _ func() (*os.File, error), _ bool) (Stat, error) {
	s := Stat{Type: typeOf(fi.Mode()), Mode: uint32(fi.Mode().Perm()), Size: fi.Size(), Mtime: transfer.UnixNano(fi.ModTime().Unix(), int64(fi.ModTime().Nanosecond()))}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.Dev, s.Ino, s.Nlink, s.UID = uint64(st.Dev), st.Ino, uint64(st.Nlink), st.Uid
		s.Ctime, s.Allocated = st.Ctimespec.Nano(), st.Blocks*512
	}
	return s, nil
}

func free(f *os.File) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

func syncDir(d *Dir) error { return handleOf(d).f.Sync() }

// MayBeOwn reports whether a temporary can be one that this process's user made.
func (s *Stat) MayBeOwn() bool { return s.UID == uint32(os.Geteuid()) }
