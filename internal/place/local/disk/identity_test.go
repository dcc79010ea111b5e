package disk

import (
	"testing"

	"ferry/internal/transfer"
)

func TestSameFile(t *testing.T) {
	a := Identity{Dev: 1, Ino: 2, Size: 3, Mtime: 4, Ctime: 5}
	b := a
	if b.Ctime = 9; !a.SameFile(b) {
		t.Error("a rename changes the ctime alone")
	}
	for _, change := range []func(*Identity){func(i *Identity) { i.Dev++ }, func(i *Identity) { i.Ino++ }, func(i *Identity) { i.Size++ }, func(i *Identity) { i.Mtime++ }} {
		b := a
		if change(&b); a.SameFile(b) {
			t.Errorf("%+v passes for %+v", b, a)
		}
	}
}

func TestVersionRoundTrip(t *testing.T) {
	for _, id := range []Identity{{}, {1 << 63, 1<<64 - 1, -1, -5, 1 << 62}, {64770, 1_234_567, 10 << 10, 1_700_000_000_000_000_000, 1_700_000_000_000_000_001}} {
		if again, err := ParseVersion(id.Version()); err != nil || again != id || len(id.Version()) > transfer.MaxVersion {
			t.Errorf("%+v became %+v, %v", id, again, err)
		}
	}
}
