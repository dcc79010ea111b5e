//go:build linux

package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/localtest"
)

// onHost returns a directory of the host's own disk.
func onHost(t *testing.T) *localtest.Place {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sidecar := func(p, name string) string { return filepath.Join(filepath.Dir(p), name) }
	return &localtest.Place{
		Disk: disk.RealDisk(), Dir: dir,
		MkdirAll:  func(p string) error { return os.MkdirAll(p, 0o755) },
		WriteFile: func(p string, content []byte) error { return os.WriteFile(p, content, 0o644) },
		ReadFile:  os.ReadFile,
		Remove:    os.RemoveAll,
		Move:      func(p, name string) error { return os.Rename(p, sidecar(p, name)) },
		Hardlink:  func(p, name string) error { return os.Link(p, sidecar(p, name)) },
		Symlink:   os.Symlink,
		Chmod:     func(p string, mode uint32) error { return os.Chmod(p, os.FileMode(mode)) },
		Names: func(dir string) (names []string) {
			filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() {
					rel, _ := filepath.Rel(dir, p)
					names = append(names, rel)
				}
				return nil
			})
			return names
		},
	}
}

func TestContract(t *testing.T) { localtest.Run(t, onHost) }
