package filelock

import "errors"

// shareable refuses every directory: a takeover replaces open files, and Windows does not allow that.
func shareable(string) error {
	return errors.New("a directory cannot be taken over from another process on Windows")
}
