//go:build unix

package audit

import (
	"errors"
	"os"
)

// Missing lists what the platform lacks of what the log relies on.
func Missing() []string { return nil }

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
