//go:build linux

// Package source_test has campaigns on source files. They grow, shrink, are rewritten and replaced while they are read,
// and new files get their names while they are deleted. Each arrived file is one whole version, and Ferry changes no
// newer file of another program.
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

// sumOf returns the present sum of a file.
func sumOf(path string) (judge.Sum, error) {
	f, err := os.Open(path)
	if err != nil {
		return judge.Sum{}, err
	}
	defer f.Close()
	return judge.Of(f)
}
