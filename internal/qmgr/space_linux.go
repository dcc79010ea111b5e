package qmgr

import "golang.org/x/sys/unix"

// hasSpace reports whether a directory's file system has so much left.
func hasSpace(dir string, bytes, inodes uint64) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false
	}
	// A file system without a fixed number of inodes says that it has none.
	return st.Bavail*uint64(st.Bsize) >= bytes && (st.Files == 0 || st.Ffree >= inodes)
}
