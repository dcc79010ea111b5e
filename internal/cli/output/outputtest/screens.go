// Package outputtest compares the screens of commands with those that are kept in testdata.
package outputtest

import (
	"os"
	"path/filepath"
	"testing"
)

// Screens compares text with testdata/screens.txt of the package under test, or writes that file if update is set.
func Screens(t testing.TB, update bool, shown string) {
	t.Helper()
	name := filepath.Join("testdata", "screens.txt")
	if update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(shown), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || string(want) != shown {
		t.Errorf("the screens have changed (go test -update of this package writes them): %v\n%s", err, shown)
	}
}
