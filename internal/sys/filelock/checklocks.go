package filelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// CheckLocks is nil where a lock in a directory can keep a process of another host out, as
// far as this host can tell. It looks at the file system's kind and at how it is
// mounted, and tries a lock. See Kind.
func CheckLocks(dir string) error {
	if err := shareable(dir); err != nil {
		return err
	}
	return probe(filepath.Join(dir, "lock.probe"))
}

// probe takes a lock twice: the second time must be refused.
func probe(path string) (err error) {
	first, err := Take(path)
	if errors.Is(err, ErrHeld) {
		return nil // another process probes, and its lock has kept this one out
	}
	if err != nil {
		return fmt.Errorf("files in %s cannot be locked: %w", filepath.Dir(path), err)
	}
	defer func() {
		os.Remove(path)
		first.Close()
	}()
	second, err := Take(path)
	if err == nil {
		second.Close()
		return fmt.Errorf("a file in %s can be locked twice", filepath.Dir(path))
	}
	if !errors.Is(err, ErrHeld) && !os.IsNotExist(err) {
		return fmt.Errorf("files in %s cannot be locked: %w", filepath.Dir(path), err)
	}
	return nil
}
