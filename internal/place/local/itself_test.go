//go:build linux

package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// Items that would land in their own source are found through links, hard links, nested roots and spellings, by
// CheckOverlap and by the walk.
func TestIntoItself(t *testing.T) {
	dir := realTemp(t)
	tree(t, dir, "out/d/f", "out/d/sub/g", "out/e/", "out/a")
	must(t, os.Symlink(filepath.Join(dir, "out/d/sub"), filepath.Join(dir, "out/absolute")))
	must(t, os.Symlink("d", filepath.Join(dir, "out/relative")))
	must(t, os.Symlink("a", filepath.Join(dir, "out/toa")))
	must(t, os.Link(filepath.Join(dir, "out/a"), filepath.Join(dir, "out/hard")))
	f := openFS(t, nil, filepath.Join(dir, "out"), filepath.Join(dir, "out/d/sub"))
	in := func(p string) transfer.Path { return transfer.Path(filepath.Join(dir, "out", p)) }
	for _, c := range []struct {
		source, dest transfer.Path
		want         string // of the error; empty: it goes
	}{
		{"d", "d", "into itself"},
		{"d", "d/new/er/", "into itself"},
		{"d", in("d/sub"), "into itself"}, // beneath another root
		{in("d"), "absolute", "into itself"},
		{"d", "absolute/new", "into itself"},
		{"d", "relative", "into itself"},
		{"d", "e/../d/sub/../x", "into itself"},
		{".", "e", "into itself"},
		{"", "e", "into itself"},
		{in(""), "new/", "into itself"},
		{"d", ".", "same file"},
		{"d", "./", "same file"},
		{"a", "a", "same file"},
		{"a", "hard", "same file"},
		{"hard", "a", "same file"},
		{"a", "e/../a", "same file"},
		{"a", "toa", ""}, // the link is replaced, not its target
		{"d", "e", ""},
		{"d", "dd", ""},
		{"d/sub", "d", "same file"},
		{"d/sub", "d/other", ""},
		{"d/sub", ".", ""},
		{"d/f", "d/sub/", ""},
		{"relative", "d/sub", ""}, // links are not sent
	} {
		src := c.source
		if src == "" {
			src = "./"
		}
		err := f.CheckOverlap(&place.WalkRequest{Args: place.Args(true, transfer.File(src))}, transfer.File(c.dest), false)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || transfer.KindOf(err) != transfer.KindUsage) {
			t.Errorf("%s to %s: %v, want %q", src, c.dest, err, c.want)
		}
		res, rerr := f.Resolve(transfer.File(c.dest), false)
		must(t, rerr)
		var bad []string
		_, werr := f.Walk(t.Context(), place.WalkRequest{Args: []place.Argument{{Source: transfer.File(src), Recursive: true, Group: &place.Group{Into: res, Here: true}}}}, func(it transfer.Item) error {
			if it.Err != nil {
				bad = append(bad, it.Err.Text)
			}
			return nil
		})
		must(t, werr)
		if got := strings.Join(bad, "\n"); c.want != "" && !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "itself") {
			t.Errorf("the walk of %s to %s says %q, want %q", src, c.dest, got, c.want)
		}
	}
}
