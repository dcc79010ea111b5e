//go:build linux

// Package ledger_test tests the ledger under failing calls, crashes at any moment, and repeated commands. make
// test-faults runs it.
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
