package bench

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// copySet copies a set's directory.
func copySet(t *testing.T, s *FileSet, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(s.Dir)); err != nil {
		t.Fatal(err)
	}
}

func TestSetsAreMadeAlike(t *testing.T) {
	for _, content := range []string{Random, Prose} {
		a, err := MakeFiles(filepath.Join(t.TempDir(), "set"), 23, 1234, content)
		if err != nil {
			t.Fatal(err)
		}
		b, err := MakeFiles(filepath.Join(t.TempDir(), "set"), 23, 1234, content)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Names) != 23 || len(a.Parts) != MaxParts || a.Bytes() != 23*1234 || a.Name() != "set" {
			t.Errorf("%s: %d files in %d parts, %d bytes", content, len(a.Names), len(a.Parts), a.Bytes())
		}
		if err := a.Verify(b.Dir); err != nil {
			t.Errorf("%s: the same set made twice differs: %v", content, err)
		}
		seen := map[string]bool{}
		for _, sum := range a.sums {
			seen[sum] = true
		}
		if len(seen) != 23 {
			t.Errorf("%s: only %d of 23 files differ", content, len(seen))
		}
	}
}

func TestVerifyFindsWhatIsWrong(t *testing.T) {
	set, err := MakeFiles(filepath.Join(t.TempDir(), "set"), 12, 100, Random)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(dir string) error{
		"changed": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, set.Names[3]), make([]byte, 100), 0o644)
		},
		"shorter": func(dir string) error { return os.Truncate(filepath.Join(dir, set.Names[3]), 99) },
		"missing": func(dir string) error { return os.Remove(filepath.Join(dir, set.Names[3])) },
		"extra":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "0", "other"), nil, 0o644) },
		"swapped": func(dir string) error {
			return os.Rename(filepath.Join(dir, set.Names[3]), filepath.Join(dir, set.Names[4]))
		},
	} {
		dir := filepath.Join(t.TempDir(), "copy")
		copySet(t, set, dir)
		if err := set.Verify(dir); err != nil {
			t.Fatalf("a faithful copy is refused: %v", err)
		}
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		if set.Verify(dir) == nil {
			t.Errorf("%s: the damage was not detected", name)
		}
	}
}

func TestSharesTakeEveryFileOnce(t *testing.T) {
	set, err := MakeFiles(filepath.Join(t.TempDir(), "set"), 12, 10, Random)
	if err != nil {
		t.Fatal(err)
	}
	dest := t.TempDir()
	jobs, check := set.Shares(Job{}, dest, "copy", 5)
	seen := map[string]bool{}
	for _, j := range jobs {
		if err := os.MkdirAll(filepath.Join(dest, string(j.To)), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, s := range j.Sources {
			if seen[string(s)] {
				t.Errorf("%s is sent twice", s)
			}
			seen[string(s)] = true
			data, err := os.ReadFile(filepath.Join(filepath.Dir(set.Dir), string(s)))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dest, string(j.To), filepath.Base(string(s))), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(jobs) != 5 || len(seen) != 12 {
		t.Errorf("%d jobs take %d files", len(jobs), len(seen))
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dest, "copy")); !os.IsNotExist(err) {
		t.Errorf("the copies are still there: %v", err)
	}
	if check() == nil {
		t.Error("copies that are not there are taken for good")
	}
}

func TestSweeperRemovesOnlyWhatIsRight(t *testing.T) {
	set, err := MakeFiles(filepath.Join(t.TempDir(), "set"), 10, 50, Random)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	w := &sweeper{set: set, copies: []*swept{{dir: dir, seen: map[string]bool{}}}}
	if w.complete() == nil {
		t.Error("a copy that never came is complete")
	}
	copySet(t, set, dir)
	temporary := filepath.Join(dir, "0", ".ferry-1.part")
	if err := os.WriteFile(temporary, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.complete(); err != nil {
		t.Fatal(err)
	}
	var left []string
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return err
	})
	if len(left) != 1 || left[0] != temporary {
		t.Errorf("left are %v", left)
	}
	copySet(t, set, dir+"2")
	if err := os.WriteFile(filepath.Join(dir+"2", set.Names[9]), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	w = &sweeper{set: set, copies: []*swept{{dir: dir + "2", seen: map[string]bool{}}}}
	told := make(chan error, 1)
	stop := w.start(func(err error) { told <- err })
	first := <-told
	if err := stop(); err == nil || err != first {
		t.Errorf("a copy with other bytes: %v is told at once, and in the end %v", first, err)
	}
}

func TestCopiesAreCheckedBeforeTheyGo(t *testing.T) {
	set, err := MakeFiles(filepath.Join(t.TempDir(), "set"), 12, 10, Random)
	if err != nil {
		t.Fatal(err)
	}
	for _, parts := range []bool{false, true} {
		dest := t.TempDir()
		jobs, check := set.Copies(Job{}, dest, "copy", parts)
		if want := map[bool]int{false: 1, true: MaxParts}[parts]; len(jobs) != want {
			t.Errorf("parts %v: %d jobs, not %d", parts, len(jobs), want)
		}
		spoilt := filepath.Join(dest, "copy", "set", set.Names[7])
		copySet(t, set, filepath.Join(dest, "copy", "set"))
		if err := os.WriteFile(spoilt, []byte("0123456789"), 0o644); err != nil {
			t.Fatal(err)
		}
		if check() == nil {
			t.Errorf("parts %v: a spoilt copy is taken for good", parts)
		}
		if _, err := os.Stat(spoilt); err != nil {
			t.Errorf("parts %v: the damaged copy is gone and cannot be examined: %v", parts, err)
		}
	}
}
