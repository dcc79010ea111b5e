package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestPathIdentity(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(dir string) error
		moved bool
	}{
		{"nothing", func(string) error { return nil }, false},
		{"the file written to", func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), []byte("more"), 0o600) }, false},
		{"the file removed", func(dir string) error { return os.Remove(filepath.Join(dir, "f")) }, true},
		{"the file renamed", func(dir string) error { return os.Rename(filepath.Join(dir, "f"), filepath.Join(dir, "g")) }, true},
		{"another file renamed over it", func(dir string) error {
			other := filepath.Join(dir, "other")
			return errors.Join(os.WriteFile(other, nil, 0o600), os.Rename(other, filepath.Join(dir, "f")))
		}, true},
		{"the directory removed", os.RemoveAll, true},
		{"the directory renamed", func(dir string) error { return os.Rename(dir, dir+".old") }, true},
		{"the directory replaced", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
		}, true},
		{"the directory replaced by a file", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.WriteFile(dir, nil, 0o600))
		}, true},
		{"the directory moved, and a link to it put in its place", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Symlink(dir+".old", dir))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600)); err != nil {
				t.Fatal(err)
			}
			p, err := PathIdentityOf(filepath.Join(dir, "f"))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.do(dir); err != nil {
				t.Fatal(err)
			}
			if err := p.Check(); (err != nil) != c.moved {
				t.Errorf("moved %v: %v", c.moved, err)
			}
		})
	}
	if _, err := PathIdentityOf(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing is there: %v", err)
	}
}
