//go:build linux

// Package disk_test breaks what lies beneath Ferry's files: disks that are
// full, directories that may not be written, file systems that take two names
// for one, people who swap a directory for a link while a file lands in it.
package disk_test

import (
	"os"
	"testing"

	"ferry/test/campaign"
)

func TestMain(m *testing.M) { os.Exit(campaign.Main(m)) }

const mib = 1 << 20

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
