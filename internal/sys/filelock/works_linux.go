package filelock

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A mount is a line of /proc/self/mountinfo: the kind of a file system and its options.
type mount struct {
	kind    string
	options []string
}

func (m mount) has(option string) bool {
	for _, o := range m.options {
		if o == option {
			return true
		}
	}
	return false
}

// shareable checks the mount of a directory.
func shareable(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("%s cannot be looked at: %w", dir, err)
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("how %s is mounted cannot be found out: %w", dir, err)
	}
	defer f.Close()
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return fmt.Errorf("%s cannot be looked at: %w", dir, err)
	}
	m, found := mountOf(f, real, uint64(st.Dev))
	if !found {
		return fmt.Errorf("how %s is mounted cannot be found out", dir)
	}
	if why := m.refused(); why != "" {
		return fmt.Errorf("%s lies on %s, %s", dir, m.kind, why)
	}
	return nil
}

// mountOf finds the mount of a path: of those that lie above it the longest, and of several
// there the last. Where the kernel gives a device number to each of its parts (btrfs), that
// of the path may be no mount's; the path decides then.
func mountOf(table io.Reader, path string, dev uint64) (best mount, found bool) {
	longest, exact := -1, false
	want := fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
	for s := bufio.NewScanner(table); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(head) < 6 || len(tail) < 1 {
			continue
		}
		at := unescape(head[4])
		if at != "/" && path != at && !strings.HasPrefix(path, at+"/") {
			continue
		}
		same := head[2] == want
		if exact && !same || exact == same && len(at) < longest {
			continue
		}
		longest, exact, found = len(at), same, true
		best = mount{kind: tail[0]}
		for _, o := range append([]string{head[5]}, tail[min(2, len(tail)):]...) {
			best.options = append(best.options, strings.Split(o, ",")...)
		}
	}
	return best, found
}

// unescape reads the \ooo of mountinfo.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Kinds of file system with locks that were found to keep other hosts out, or that no other host has mounted at the
// same time. Those that are not listed are refused: a host cannot see whether their locks reach others.
var (
	// One host at a time has them mounted; a lock keeps this host's processes out.
	ofOneHost = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs", "overlay", "reiserfs", "jfs"}
	// The file system's servers keep the locks.
	ofMany = []string{"nfs4", "ocfs2", "gfs2", "gpfs", "lustre", "ceph", "cifs", "smb3", "beegfs"}
	// Served by a process, which passes locks on.
	served = []string{"fuse.glusterfs", "fuse.ceph-fuse", "fuse.juicefs"}
)

// refused says why a lock on a mount keeps no other host out; empty: it does.
func (m mount) refused() string {
	for _, o := range []string{"nolock", "local_lock=all", "local_lock=flock", "nobrl", "localflocks", "noflock"} {
		if m.has(o) {
			return "mounted with " + o + ", so that locks are this host's alone"
		}
	}
	switch {
	case m.kind == "nfs":
		return "version 3, which keeps the locks of a host that is gone; mount it as nfs4"
	case m.kind == "lustre" && !m.has("flock"):
		return "mounted without flock, so that locks are refused or this host's alone"
	}
	for _, list := range [][]string{ofOneHost, ofMany, served} {
		for _, k := range list {
			if k == m.kind {
				return ""
			}
		}
	}
	return "a file system without known locks between hosts"
}
