package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The holder of a directory finds out when another one has marked it, and does not remove that mark.
func TestMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mark")
	if _, marked, err := HolderOf(path); marked || err != nil {
		t.Fatalf("without a mark: %v %v", marked, err)
	}
	first, err := SetMark(path, Holder{Instance: "one", Host: "a"})
	if err != nil || first.Check() != nil {
		t.Fatal(err, first.Check())
	}
	second, err := SetMark(path, Holder{Instance: "two", Host: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Check(); !errors.Is(err, ErrTaken) {
		t.Errorf("the first finds %v", err)
	}
	if err := first.Release(); !errors.Is(err, ErrTaken) || second.Check() != nil {
		t.Errorf("the first removes the mark of the second: %v, %v", err, second.Check())
	}
	if h, marked, err := HolderOf(path); h.Instance != "two" || h.Host != "b" || !marked || err != nil {
		t.Errorf("it is %+v's: %v", h, err)
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
	if h, marked, err := HolderOf(path); h.Instance != "" || !marked || err != nil {
		t.Errorf("after that it is %+v's: %v", h, err)
	}
	if err := os.WriteFile(path, []byte("zzz"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h, _, err := HolderOf(path); h.Instance == "" || err != nil {
		t.Errorf("a mark that cannot be read counts as none: %+v %v", h, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := second.Check(); !errors.Is(err, ErrTaken) {
		t.Errorf("without the file: %v", err)
	}
}

func TestAMarkThatIsTooLong(t *testing.T) {
	if _, err := SetMark(filepath.Join(t.TempDir(), "mark"), Holder{Host: strings.Repeat("h", 600)}); err == nil {
		t.Error("it was written")
	}
}
