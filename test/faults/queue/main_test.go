//go:build linux

// Package queue_test has campaigns against the queue manager. One changes its store while it is stopped, another
// repeats the commands that it has carried. Neither may lose or duplicate a file, and detectable damage must be
// reported.
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
