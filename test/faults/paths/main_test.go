//go:build linux

// Package paths_test changes destinations while files arrive. Directories and roots are renamed, replaced by links,
// covered by mounts and removed, and temporaries are swapped and cut.
package paths_test

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
