//go:build linux

// Package cluster_test stops or separates queue managers of a cluster of three while files are sent: leaders, all in
// turn, all at once, and one with a cut link. Then it checks that every file has arrived once and that no queue manager
// reports a loss. make test-faults runs it.
package cluster_test

import (
	"os"
	"testing"

	"ferry/test/campaign"
)

func TestMain(m *testing.M) { os.Exit(campaign.Main(m)) }

const (
	source = "ALPHA"
	dest   = "BETA"

	mib = 1 << 20
)
