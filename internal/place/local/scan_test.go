package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/place/local/walk"
	"ferry/internal/transfer"
)

// Scan passes only readable files to fn, in the order of their names with NUL for '/'.
func TestScan(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"in/b", "in/a-b", "in/a/x", "in/a/deep/y", "in/.h", "in/.dir/z", "in/.ferry-t.part", "in/c.txt", "in/secret", "in/\xff", "other/o"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("b", filepath.Join(dir, "in/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../other", filepath.Join(dir, "in/a/to")); err != nil {
		t.Fatal(err)
	}
	fs, err := local.Open(local.Config{Roots: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	may := func(_ transfer.Authority, path string) error {
		if strings.Contains(path, "secret") || strings.HasSuffix(path, "/other") || strings.Contains(path, "/other/") {
			return transfer.Errorf(transfer.KindDenied, "not that")
		}
		return nil
	}
	scan := func(at string, levels int, want func(string) bool) (string, error) {
		var all []string
		files := fs.Place().For(transfer.Files, may).(local.Local)
		err := files.Scan(t.Context(), place.ScanRequest{Dir: transfer.Path(at), Levels: levels, Want: want}, func(f *place.Found) error {
			if f.Inode == 0 || f.Mtime == 0 || f.Size != int64(len("in/"+f.Rel)) || string(f.Path) != filepath.Join(dir, at, string(f.Rel)) {
				t.Errorf("found %+v", f)
			}
			all = append(all, string(f.Rel))
			return nil
		})
		return fmt.Sprintf("%q", all), err
	}
	every := func(string) bool { return true }
	for _, c := range []struct {
		levels int
		want   func(string) bool
		found  string
	}{
		{0, every, `[".h" "a-b" "b" "c.txt" "\xff"]`},
		{1, every, `[".h" "a/x" "a-b" "b" "c.txt" "\xff"]`},
		{9, every, `[".h" "a/deep/y" "a/x" "a-b" "b" "c.txt" "\xff"]`},
		{9, func(n string) bool { return walk.MatchName("?", n) }, `["a/deep/y" "a/x" "b" "\xff"]`},
	} {
		if got, err := scan("in", c.levels, c.want); err != nil || got != c.found {
			t.Errorf("%d levels: %s, %v; want %s", c.levels, got, err, c.found)
		}
	}
	for at, kind := range map[string]transfer.Kind{"missing": transfer.KindMissing, "../..": transfer.KindOutsideRoot, "in/b": transfer.KindMissing, "other/secret/x": transfer.KindDenied} {
		if got, err := scan(at, 1, every); transfer.KindOf(err) != kind {
			t.Errorf("%s: %s, %v", at, got, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fs.Place().Scan(ctx, place.ScanRequest{Dir: "in", Want: every}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
