package localfs

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
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

func toStat(fi os.FileInfo, _ func() (*os.File, error), _ bool) (stat, error) {
	s := stat{typ: typeOf(fi.Mode()), mode: uint32(fi.Mode().Perm()), size: fi.Size(), mtime: fi.ModTime().UnixNano()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.dev, s.ino, s.nlink, s.uid = uint64(st.Dev), st.Ino, uint64(st.Nlink), st.Uid
		s.ctime, s.allocated = st.Ctimespec.Nano(), st.Blocks*512
	}
	return s, nil
}

func (h handle) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(h.f.Fd()), &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

func syncDir(d *Dir) error { return d.f.Sync() }

// mine reports whether a temporary can be one that this process's user made.
func (s *stat) mine() bool { return s.uid == uint32(os.Geteuid()) && s.mode&0o077 == 0 }
