package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(path); !errors.Is(err, ErrHeld) {
		t.Fatalf("a second one gets %v", err)
	}
	first.Close()
	again, err := Take(path)
	if err != nil {
		t.Fatalf("after the first has let go: %v", err)
	}
	again.Close()
}

func TestAFileThatCannotBeUsed(t *testing.T) {
	if _, err := Take(filepath.Join(t.TempDir(), "missing", "lock")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("in a directory that is not there: %v", err)
	}
}
