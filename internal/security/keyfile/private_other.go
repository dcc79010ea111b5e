//go:build !unix

package keyfile

import (
	"errors"
	"io/fs"
)

// private has nothing to look at: who may read a file is in its access control list, which
// it has from the user's directory.
func private(string, fs.FileInfo, fs.FileMode) error { return nil }

// look and entryOf are for systems where files have no owner and mode of Unix.
func look(string) (entry, error)         { return entry{}, errors.ErrUnsupported }
func entryOf(fs.FileInfo) (entry, error) { return entry{}, errors.ErrUnsupported }
