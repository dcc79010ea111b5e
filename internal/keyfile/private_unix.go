//go:build unix

package keyfile

import (
	"io/fs"
	"os"
	"syscall"
)

// private is nil for what is this user's own and has none of the bits of mode. Root may
// read the secrets of a user for whom it works.
func private(info fs.FileInfo, bits fs.FileMode) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	own := ok && (int(st.Uid) == os.Geteuid() || os.Geteuid() == 0)
	if !own || info.Mode().Perm()&bits != 0 {
		return ErrLax
	}
	return nil
}
