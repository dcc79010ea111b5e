package filetest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// AsUser makes the test's thread open files as a user with ordinary permissions, and makes that user the owner of
// everything beneath dir. It changes nothing for a test that runs as an ordinary user.
func AsUser(t *testing.T, dir string) {
	t.Helper()
	const user = 60001
	Must(t, os.Chmod(filepath.Dir(dir), 0o711))
	if os.Geteuid() != 0 {
		return
	}
	Must(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, user, user))
	}))
	runtime.LockOSThread()
	Must(t, errors.Join(unix.Setfsgid(user), unix.Setfsuid(user)))
	t.Cleanup(func() {
		Must(t, errors.Join(unix.Setfsuid(0), unix.Setfsgid(0)))
		runtime.UnlockOSThread()
	})
}

// SearchOnly gives a directory a mode until the test ends, such as 0111, which allows no listing.
func SearchOnly(t *testing.T, dir string, mode os.FileMode) {
	t.Helper()
	Must(t, os.Chmod(dir, mode))
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
}
