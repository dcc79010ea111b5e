//go:build !unix

package keyfile

import (
	"errors"
	"io/fs"
)

// private has nothing to look at: who may read a file is in its access control list, which
// it has from the user's directory.
func private(string, fs.FileInfo, fs.FileMode) error { return nil }

// look is for systems on which a file has one owner.
func look(string) (entry, error) { return entry{}, errors.ErrUnsupported }
