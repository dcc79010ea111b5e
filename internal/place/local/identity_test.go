package local

import (
	"testing"

	"ferry/internal/transfer"
)

func TestSameFile(t *testing.T) {
	a := identity{Dev: 1, Ino: 2, Size: 3, Mtime: 4, Ctime: 5}
	b := a
	if b.Ctime = 9; !a.sameFile(b) {
		t.Error("a rename changes the ctime alone")
	}
	for _, change := range []func(*identity){func(i *identity) { i.Dev++ }, func(i *identity) { i.Ino++ }, func(i *identity) { i.Size++ }, func(i *identity) { i.Mtime++ }} {
		b := a
		if change(&b); a.sameFile(b) {
			t.Errorf("%+v passes for %+v", b, a)
		}
	}
}

func TestVersionRoundTrip(t *testing.T) {
	for _, id := range []identity{{}, {1 << 63, 1<<64 - 1, -1, -5, 1 << 62}, {64770, 1_234_567, 10 << 10, 1_700_000_000_000_000_000, 1_700_000_000_000_000_001}} {
		if again, err := parseVersion(id.version()); err != nil || again != id || len(id.version()) > transfer.MaxVersion {
			t.Errorf("%+v became %+v, %v", id, again, err)
		}
	}
}
