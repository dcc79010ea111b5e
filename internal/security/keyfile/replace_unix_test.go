//go:build unix

package keyfile

import (
	"os"
	"path/filepath"
	"testing"
)

// A file that others can read, or a link, is replaced also where it has the content already.
func TestReplaceOfALaxFile(t *testing.T) {
	dir := t.TempDir()
	lax, link := filepath.Join(dir, "lax"), filepath.Join(dir, "link")
	if err := os.WriteFile(lax, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Symlink("lax", link), os.Chmod(lax, 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{link, lax} {
		if err := Replace(path, []byte("text")); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Lstat(path); err != nil || fi.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", filepath.Base(path), fi.Mode(), err)
		}
	}
}

// A link in the place of the file that is written first is removed, and not followed.
func TestReplaceFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "notes")
	if err := os.WriteFile(victim, []byte("its own"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("victim", path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("text")); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{victim: "its own", path: "text"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v", filepath.Base(file), got, err)
		}
	}
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
}
