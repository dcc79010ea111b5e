package land

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

// No file lands with more permissions than a new file of the agent's own user has, and never with setuid, setgid or
// sticky bits.
func TestModesAreBeneathTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	f, dir := newFS(t, nil)
	l := lander(f, disktest.NewJournal(nil), nil)
	var group []place.Pending
	for name, mode := range map[string]uint32{"all": 0o777, "usual": 0o644, "setuid": 0o4755, "every": 1<<32 - 1, "none": 0} {
		p, err := write(l, uint64(len(group)), name, body(10, 1))
		must(t, err)
		p.Mode = mode
		group = append(group, p)
	}
	group = append(group, place.Pending{Outcome: transfer.Outcome{Item: 90, Type: transfer.ItemDir}, Name: "dir", Mode: 0o7777, Mtime: 1e18})
	_, err := l.Commit(t.Context(), group)
	must(t, err)
	for name, want := range map[string]os.FileMode{"all": 0o750, "usual": 0o640, "setuid": 0o750, "every": 0o750, "none": 0, "dir": 0o750 | os.ModeDir} {
		fi, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if fi.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, fi.Mode(), want)
		}
	}
}
