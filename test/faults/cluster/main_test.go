//go:build linux

// Package cluster_test takes away queue managers of a cluster of three while files are sent: those that
// lead, all in turn, all at once, and one behind a wire that carries nothing; and then looks whether every
// file has arrived once, and whether anybody says that something was lost. It is run by make test-faults.
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
