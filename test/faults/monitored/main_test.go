//go:build linux

// Package monitored_test is campaigns against monitors: files of a watched directory are replaced, used again and written to in every
// way while their monitors look and send. Each version that stands arrives once.
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
