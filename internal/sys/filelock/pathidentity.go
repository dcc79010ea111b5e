package filelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// A PathIdentity is a file or directory and the path at which it was found. A process can go on writing to an open file that
// has lost its name, and those bytes are lost to all readers.
type PathIdentity struct {
	path string
	was  fs.FileInfo
}

// PathIdentityOf returns the Place of the file or directory at a path.
func PathIdentityOf(path string) (PathIdentity, error) {
	was, err := os.Stat(path)
	return PathIdentity{path, was}, err
}

// Check fails where the path leads to something else, or to nothing: its file or
// a directory above it was removed, renamed or replaced. Where that cannot be
// told, because the path cannot be looked at, it does not.
func (p PathIdentity) Check() error {
	now, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s was removed or renamed", p.path)
	case err == nil && !os.SameFile(p.was, now):
		return fmt.Errorf("%s was replaced by another file", p.path)
	}
	return nil
}
