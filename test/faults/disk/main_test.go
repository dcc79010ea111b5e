//go:build linux

// Package disk_test breaks what lies beneath Ferry's files: disks that are
// full, directories that may not be written, file systems that take two names
// for one, people who swap a directory for a link while a file lands in it.
package disk_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"ferry/test/campaign"
)

// TestMain takes the umask away: files are to land with the permissions that they have
// at the source, whatever the shell takes from new files.
func TestMain(m *testing.M) {
	unix.Umask(0)
	os.Exit(campaign.Main(m))
}

const mib = 1 << 20

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
