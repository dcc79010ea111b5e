//go:build linux

// Package commit_test holds the commit path, the resume points and the deletion
// of sources against a file system in memory that crashes in every way it may,
// and on which every call fails in its turn. It is run by make test-faults.
package commit_test

import (
	"os"
	"testing"

	"ferry/test/campaign"
)

func TestMain(m *testing.M) { os.Exit(campaign.Main(m)) }
