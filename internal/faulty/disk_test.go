package faulty

import (
	"testing"

	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/localtest"
)

// onMemory returns a file system in memory, with or without a Disk without faults around it.
func onMemory(opt MemoryOptions, wrap bool) func(t *testing.T) *localtest.Place {
	return func(t *testing.T) *localtest.Place {
		m := NewMemory(opt)
		if err := m.MkdirAll("/place"); err != nil {
			t.Fatal(err)
		}
		var disk disk.Disk = m
		if wrap {
			disk = NewDisk(m)
		}
		t.Cleanup(func() {
			if n := m.Opened(); n != 0 {
				t.Errorf("%d files or directories are still open", n)
			}
		})
		return &localtest.Place{
			Disk: disk, Dir: "/place", Plain: opt.Plain,
			MkdirAll: m.MkdirAll, WriteFile: m.WriteFile, ReadFile: m.ReadFile, Remove: m.Remove, Move: m.Move, Hardlink: m.Hardlink,
			Symlink: m.Symlink, Chmod: m.Chmod,
			Names: func(dir string) (names []string) {
				m.Files(dir, func(name string, _ []byte) { names = append(names, name) })
				return names
			},
		}
	}
}

func TestDiskContract(t *testing.T) {
	for name, opt := range map[string]MemoryOptions{"memory": {}, "without the no-replace rename": {Plain: true}, "folding case": {Fold: true},
		"with limits": {Blocks: 10_000, Inodes: 1000}} {
		t.Run(name, func(t *testing.T) {
			localtest.Run(t, onMemory(opt, false))
			t.Run("behind a faulty disk", func(t *testing.T) { localtest.Run(t, onMemory(opt, true)) })
		})
	}
}
