//go:build linux

// Package source_test is campaigns against the files that are sent: they grow,
// shrink, are rewritten and replaced while they are read, and new files come to
// their names while they are deleted. What arrives is one of the files that
// there were, whole, and nobody's newer file is touched.
package source_test

import (
	"os"
	"testing"

	"ferry/test/campaign"
	"ferry/test/judge"
)

func TestMain(m *testing.M) { os.Exit(campaign.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sumOf is the sum of a file as it is now.
func sumOf(path string) (judge.Sum, error) {
	f, err := os.Open(path)
	if err != nil {
		return judge.Sum{}, err
	}
	defer f.Close()
	return judge.Of(f)
}
