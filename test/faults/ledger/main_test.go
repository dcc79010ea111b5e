//go:build linux

// Package ledger_test breaks what a ledger stands on: calls that fail, crashes
// at any moment, commands that come again and again. It is run by make
// test-faults.
package ledger_test

import (
	"os"
	"testing"

	"ferry/test/campaign"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(campaign.Main(m))
}
