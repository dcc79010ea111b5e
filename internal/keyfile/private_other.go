//go:build !unix

package keyfile

import "io/fs"

// private has nothing to look at: who may read a file is in its access control list, which
// it has from the user's directory.
func private(fs.FileInfo, fs.FileMode) error { return nil }
