//go:build linux

// Package queue_test is campaigns against the queue manager: its store is
// operated on behind its back, and the commands that it has carried come again.
// Neither may cost or double a file, and what can be noticed must be said.
package queue_test

import (
	"os"
	"testing"

	"ferry/test/campaign"
)

func TestMain(m *testing.M) { os.Exit(campaign.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
