//go:build linux

// Package disk_test tests Ferry on difficult file systems: full disks, directories without write permission, file
// systems that take two names for one, and directories that are swapped for links while files arrive in them.
package disk_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"ferry/test/campaign"
)

// TestMain sets the umask to 0. Files must arrive with the permissions of the source, independent of the shell's umask.
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
