package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A sync of a whole file system replaces the sync of each file only if it promises as much. These are the findings for
// each file system (docs/adr/0007-group-sync.md has the other reasons):
//
//   - Linux before 5.8 does not report data that could not be written, and
//     before 5.17 not a journal that could not: there it is not offered.
//   - ext4: data, journal and the flush of the disk's cache, with or without a
//     journal. ext2 has the same magic number, and a driver of its own that does
//     not flush: the table of mounts tells the two apart.
//   - xfs: data written to a new file always has a record in the log,
//     and forcing the log flushes the disk's cache first. That does not apply to a
//     realtime device: a file system with one is not accepted.
//   - tmpfs: neither call does anything, and one is quicker than many.
//   - btrfs: it would commit a transaction of everything, where a file's own
//     sync writes a few blocks into a log.
//   - overlayfs passes the call on and does not pass on all errors; NFS, FUSE and
//     all others promise nothing that is known here.

// firstReportingKernel is the first kernel version with a syncfs that reports all losses.
var firstReportingKernel = [2]int{5, 17}

// kernelReportsLosses reports whether the syncfs of this kernel reports all losses.
var kernelReportsLosses = sync.OnceValue(func() bool {
	var u unix.Utsname
	return unix.Uname(&u) == nil && atLeast(unix.ByteSliceToString(u.Release[:]), firstReportingKernel)
})

// A watched file system is represented by one of its directories, opened once more. The kernel keeps the last reported
// failure with the open file, from the open and from each syncfs. Only one syncfs may run at a time, so only one
// goroutine may use it.
type watched struct {
	f     *os.File
	dev   uint64
	table bool // the table of mounts has not been read yet: few transfers need it
}

// Name returns the directory given to WatchFS.
func (w *watched) Name() string { return w.f.Name() }

func (realDisk) WatchFS(d *Dir) (Watch, error) {
	if !kernelReportsLosses() {
		return nil, errors.ErrUnsupported
	}

	var fs unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(dirFD(d), &fs) }); err != nil {
		return nil, &os.PathError{Op: "statfs", Path: d.path, Err: err}
	}

	if fs.Type != unix.TMPFS_MAGIC && fs.Type != unix.EXT4_SUPER_MAGIC && fs.Type != unix.XFS_SUPER_MAGIC {
		return nil, errors.ErrUnsupported
	}

	st, err := d.Stat()
	if err != nil {
		return nil, err
	}

	fd, err := openat(dirFD(d), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: d.path, Err: err}
	}
	return &watched{os.NewFile(uintptr(fd), d.path), st.Dev, fs.Type != unix.TMPFS_MAGIC}, nil
}

// SyncFS is not repeated after a signal: one error hides the other, and the kernel treats both as reported.
func (realDisk) SyncFS(w Watch) error {
	h := w.(*watched)
	if h.table {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil || !syncedWhole(mounts, unix.Major(h.dev), unix.Minor(h.dev)) {
			return errors.ErrUnsupported
		}
		h.table = false
	}
	return unix.Syncfs(int(h.f.Fd()))
}

func (realDisk) CloseWatch(w Watch) error { return w.(*watched).f.Close() }

// atLeast compares a kernel's release, such as "6.18.44-generic", with a version. A release that cannot be parsed
// counts as older.
func atLeast(release string, want [2]int) bool {
	major, rest, _ := strings.Cut(release, ".")
	minor := rest
	if end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		minor = rest[:end]
	}

	a, err := strconv.Atoi(major)
	if err != nil {
		return false
	}

	b, err := strconv.Atoi(minor)
	if err != nil {
		return false
	}
	return a > want[0] || a == want[0] && b >= want[1]
}

// syncedWhole looks a device up in the table of mounts (proc(5), mountinfo: number, parent, major:minor, root, mount
// point, options, optional fields, a hyphen, type, source, options of the file system). Every mount of it must use a
// driver with a complete syncfs. A device that is not listed is not accepted.
func syncedWhole(mounts []byte, major, minor uint32) bool {
	device := fmt.Sprintf("%d:%d", major, minor)
	found := false
	for line := range bytes.Lines(mounts) {
		before, after, ok := strings.Cut(string(line), " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(head) < 6 || len(tail) < 3 || head[2] != device {
			continue
		}
		switch tail[0] {
		case "ext4", "ext3": // one driver
		case "xfs":
			if strings.Contains(","+tail[2], ",rtdev=") {
				return false
			}
		default:
			return false
		}
		found = true
	}
	return found
}
