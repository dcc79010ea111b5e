package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

func TestExamine(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "in/a", "in/d/", "secret/b", "state-of-ferry/ledger")
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	must(t, os.Symlink("/etc", filepath.Join(dir, "out")))
	may := Local{FS: f, may: func(_ transfer.Authority, path string) error {
		if strings.Contains(path, "secret") {
			return transfer.Errorf(transfer.KindDenied, "no")
		}
		return nil
	}}
	for _, c := range []struct {
		path  transfer.Path
		size  int64
		there bool
		kind  transfer.Kind
	}{
		{"in/a", int64(len("content of in/a")), true, transfer.KindNone},
		{transfer.Path(filepath.Join(dir, "in/a")), int64(len("content of in/a")), true, transfer.KindNone},
		{"in/d", -1, true, transfer.KindNone},
		{".", -1, true, transfer.KindNone},
		{"link", -1, true, transfer.KindNone},
		{"in/none", 0, false, transfer.KindNone},
		{"none/none", 0, false, transfer.KindNone},
		{"in/a/b", 0, false, transfer.KindNone},
		{"secret/b", 0, false, transfer.KindDenied},
		{"secret/none", 0, false, transfer.KindDenied},
		{"../x", 0, false, transfer.KindOutsideRoot},
		{"/etc/passwd", 0, false, transfer.KindOutsideRoot},
		{"out/passwd", 0, false, transfer.KindOutsideRoot},
		{"state-of-ferry/ledger", 0, false, transfer.KindOutsideRoot},
		{"state-of-ferry", 0, false, transfer.KindOutsideRoot},
	} {
		size, there, err := may.Examine(c.path)
		if size != c.size || there != c.there || transfer.KindOf(err) != c.kind {
			t.Errorf("%s: %d, %v, %v", c.path, size, there, err)
		}
	}
}
