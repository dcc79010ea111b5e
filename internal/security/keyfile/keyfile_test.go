//go:build unix

package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestSecretsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	if _, err := Open(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
	for range 2 {
		d, err := Make(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"one", "", "two"} {
			if err := d.Write("key", []byte(text)); err != nil {
				t.Fatal(err)
			}
			if got, err := d.Read("key"); err != nil || string(got) != text {
				t.Errorf("%q, %v", got, err)
			}
		}
		info, err := os.Stat(filepath.Join(path, "key"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		for range 2 {
			if err := d.Remove("key"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Read("key"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("one that was removed: %v", err)
		}
	}
}

// A file that others can read, or that cannot be a secret, is refused with a readable error.
func TestLaxSecretsAreRefused(t *testing.T) {
	for _, mode := range []fs.FileMode{0o770, 0o705, 0o710, 0o701} {
		path := filepath.Join(t.TempDir(), "d")
		if _, err := Make(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		for _, open := range []func(string) (*Dir, error){Make, Open} {
			if _, err := open(path); !errors.Is(err, ErrInsecure) || !strings.Contains(err.Error(), path) {
				t.Errorf("a directory of mode %o: %v", mode, err)
			}
		}
	}

	d, err := Make(filepath.Join(t.TempDir(), "d"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(d.Path(), "key")
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o660, 0o602, 0o611} {
		if err := errors.Join(d.Write("key", []byte("x")), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Read("key"); !errors.Is(err, ErrInsecure) || !strings.Contains(err.Error(), path) {
			t.Errorf("a file of mode %o: %v", mode, err)
		}
	}
	if err := d.Write("key", []byte("y")); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Read("key"); err != nil || string(got) != "y" {
		t.Errorf("written anew: %q, %v", got, err)
	}

	if err := errors.Join(os.Symlink("key", filepath.Join(d.Path(), "link")), syscall.Mkfifo(filepath.Join(d.Path(), "pipe"), 0o600),
		os.WriteFile(filepath.Join(d.Path(), "large"), make([]byte, MaxSize+1), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "pipe", "large", "."} {
		if b, err := d.Read(name); err == nil {
			t.Errorf("%s is read: %d bytes", name, len(b))
		}
	}
	if _, err := Open(path); err == nil {
		t.Error("a file is a directory")
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(d.Path(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link); err == nil {
		t.Error("a link is a directory")
	}
}

// Leftovers of a crash are removed, and nothing else.
func TestSweep(t *testing.T) {
	d, err := Make(filepath.Join(t.TempDir(), "d"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Write("key", []byte("x")), os.WriteFile(filepath.Join(d.Path(), ".new-1"), nil, 0o600), d.Sweep()); err != nil {
		t.Fatal(err)
	}
	if all, err := os.ReadDir(d.Path()); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// A file is replaced whole, and the leftover of an attempt before a crash does not hinder it.
func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(path+".new", []byte("half of what was to be written"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "2"} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("the file has %q, %v; not %q", got, err, text)
		}
	}
	if _, err := os.Stat(path + ".new"); err == nil {
		t.Error("the new file is left")
	}
}
