package filelock

import "errors"

// shareable refuses every directory: a file that is open cannot be replaced here, as who
// takes a directory over must do.
func shareable(string) error {
	return errors.New("a directory cannot be taken over from another process on Windows")
}
