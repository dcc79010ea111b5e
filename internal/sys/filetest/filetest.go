// Package filetest has helpers for tests that work on files of the operating system.
package filetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Must ends the test with an error that is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Dir returns a new temporary directory with a path that contains no link.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	Must(t, err)
	return dir
}

// Tree makes files beneath a directory and, for names that end in '/', directories.
func Tree(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		p := filepath.Join(dir, n)
		if strings.HasSuffix(n, "/") {
			Must(t, os.MkdirAll(p, 0o777))
			continue
		}
		Must(t, os.MkdirAll(filepath.Dir(p), 0o777))
		Must(t, os.WriteFile(p, []byte("content of "+n), 0o644))
	}
}

// Read returns the content of a file.
func Read(t testing.TB, p string) string {
	t.Helper()
	b, err := os.ReadFile(p)
	Must(t, err)
	return string(b)
}

// Exists reports whether a name is there. It follows no link.
func Exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}
