//go:build linux

// Package power_test cuts the power of a host: the file system that a process
// has its files and its state on loses everything that was not synced, the
// process is gone, and what the journal has is all that there is. What was
// answered before the cut must be true after it.
//
// Each process has an ext4 file system of its own on a loop device. The ioctl
// FS_IOC_SHUTDOWN with NOLOGFLUSH is the cut; the file system is then mounted
// again, looked at before anybody has touched it, and the process started. It
// shows neither torn sectors nor disks that lie about a flush.
package power_test

import (
	"os"
	"testing"

	"ferry/test/campaign"
)

func TestMain(m *testing.M) { os.Exit(campaign.Main(m)) }

const mib = 1 << 20

// must ends the test where something that has nothing to do with Ferry fails.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
