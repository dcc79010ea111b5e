//go:build linux

// Package power_test cuts the power of a host. The process ends, and the file system with its files and its state loses
// all data that were not synced, except for the journal of the file system. Answers from before the cut must be true
// after it.
//
// Each process has an ext4 file system of its own on a loop device. The ioctl FS_IOC_SHUTDOWN with NOLOGFLUSH is the
// cut. The file system is then mounted again and checked before any process changes it, and the process is restarted.
// The method shows neither torn sectors nor disks that report a flush that they have not done.
package power_test

import (
	"os"
	"testing"

	"ferry/test/campaign"
)

func TestMain(m *testing.M) { os.Exit(campaign.Main(m)) }

const mib = 1 << 20

// must ends the test on an error outside Ferry.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
