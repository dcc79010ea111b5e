//go:build linux

// Package monitored_test has campaigns against monitors. Files of a watched directory are replaced, reused and written
// in every way while monitors look and send. Each settled version arrives once.
package monitored_test

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
