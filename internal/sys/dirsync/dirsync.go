// Package dirsync makes the names in directories durable: a file that was made, renamed or removed
// is so after a power cut only when its directory has been synced.
package dirsync

import (
	"errors"
	"os"
	"runtime"
)

// Sync makes the names in directories durable. On Windows, which cannot sync a directory, it does nothing.
func Sync(dirs ...string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	for _, dir := range dirs {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
	}
	return nil
}
