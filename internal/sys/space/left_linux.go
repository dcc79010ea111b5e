package space

import "golang.org/x/sys/unix"

// Left is how many bytes and inodes the file system of a directory has left for this user. One without a
// fixed number of inodes has Unknown of them.
func Left(dir string) (bytes, inodes uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	inodes = st.Ffree
	if st.Files == 0 {
		inodes = Unknown
	}
	return st.Bavail * uint64(st.Bsize), inodes, nil
}
