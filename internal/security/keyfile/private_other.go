//go:build !unix

package keyfile

import (
	"errors"
	"io/fs"
)

// checkMode checks nothing: the access control list of the user's directory decides here which users may read a file.
func checkMode(string, fs.FileInfo, fs.FileMode) error { return nil }

// look and entryOf are for systems where files have no owner and mode of Unix.
func look(string) (entry, error)         { return entry{}, errors.ErrUnsupported }
func entryOf(fs.FileInfo) (entry, error) { return entry{}, errors.ErrUnsupported }
