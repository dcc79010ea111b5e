//go:build unix

package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// checkMode is nil for a file or directory that belongs to this user and has none of the bits of mode.
func checkMode(path string, info fs.FileInfo, bits fs.FileMode) error {
	switch e, err := entryOf(info); {
	case err != nil:
		return err
	case e.uid != os.Geteuid():
		return &ForeignError{Path: path, UID: e.uid, GID: e.gid}
	case e.mode.Perm()&bits != 0:
		return ErrInsecure
	}
	return nil
}

// look is the entry at a path, of a link itself.
func look(path string) (entry, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return entry{}, err
	}
	e, err := entryOf(info)
	if err == nil && info.Mode()&fs.ModeSymlink == 0 {
		e.acl, err = aclOf(path)
	}
	return e, err
}

// entryOf is an entry without its access control list.
func entryOf(info fs.FileInfo) (entry, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return entry{}, errors.ErrUnsupported
	}
	return entry{uid: int(st.Uid), gid: int(st.Gid), mode: info.Mode()}, nil
}
