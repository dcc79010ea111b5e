//go:build linux

// Package commit_test tests the commit path, the resume points and the deletion of sources. They run on a file system
// in memory. It crashes in every permitted way, and every call on it fails in its turn. make test-faults runs it.
package commit_test

import (
	"os"
	"testing"

	"ferry/test/campaign"
)

func TestMain(m *testing.M) { os.Exit(campaign.Main(m)) }
