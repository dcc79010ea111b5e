//go:build linux

package local

import (
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

func walkOf(t *testing.T, f *FS, req place.WalkRequest, after *walked) (items []walked) {
	t.Helper()
	if after != nil {
		req.After = &after.it
	}
	_, err := f.Walk(t.Context(), req, func(it transfer.Item) error {
		items = append(items, walked{it.Arg, it})
		return nil
	})
	must(t, err)
	return items
}

// Names beneath a base are literals and keep their directories. A file that is named twice is sent once. After an
// interruption the walk continues behind any item.
func TestWalkBeneathABase(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "base/a", "base/d/e/x", "base/d/y", "base/*", "base/z/1", "base/z/2", "outside")
	for _, c := range []struct {
		sources   []transfer.Path
		recursive bool
		want      []transfer.Path // names
		bad       int
	}{
		{[]transfer.Path{"d/e/x", "a", "*"}, false, []transfer.Path{"d/e/x", "a", "*"}, 0},
		{[]transfer.Path{"z", "z/1", "./a", "a", "d/e/../y"}, true, []transfer.Path{"z/1", "z/2", "z", "a", "d/y"}, 0},
		{[]transfer.Path{"z/2", "z"}, true, []transfer.Path{"z/2", "z/1", "z"}, 0},
		{[]transfer.Path{"d", "none", "../outside"}, false, []transfer.Path{"d", "none", "../outside"}, 3},
		{[]transfer.Path{".", "a"}, true, []transfer.Path{"*", "a", "d/e/x", "d/e", "d/y", "d", "z/1", "z/2", "z"}, 0},
	} {
		req := place.WalkRequest{Base: transfer.Path(dir + "/base")}
		for _, p := range c.sources {
			req.Args = append(req.Args, place.Argument{Source: transfer.File(p), Recursive: c.recursive})
		}
		all := walkOf(t, f, req, nil)
		seen, bad := map[transfer.Path]bool{}, 0
		for n, it := range all {
			if it.it.Type == transfer.ItemBad {
				bad++
			}
			if seen[it.it.Name] && it.it.Type != transfer.ItemBad {
				t.Errorf("%s: %s comes twice", c.sources, it.it.Name)
			}
			seen[it.it.Name] = true
			if n < len(c.want) && it.it.Name != c.want[n] {
				t.Errorf("%s: item %d is %s, want %s", c.sources, n, it.it.Name, c.want[n])
			}
		}
		if len(all) != len(c.want) || bad != c.bad {
			t.Errorf("%s: %d items, %d bad:\n%s", c.sources, len(all), bad, lines(all))
		}
		for n := range all {
			if got, want := lines(walkOf(t, f, req, &all[n])), lines(all[n+1:]); got != want {
				t.Errorf("%s after %v:\n%s\nwant\n%s", c.sources, all[n], got, want)
			}
		}
	}
}

// A retry emits only some items, under their earlier names.
func TestWalkOnly(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "d/a", "d/b/c", "e/a", "x")
	whole := walkOf(t, f, place.WalkRequest{Args: place.Args(true, transfer.File("d"), transfer.File("e"), transfer.File("none"), transfer.File("x"))}, nil)
	var only []transfer.Path
	var want []walked
	for n, w := range whole {
		if n%2 == 0 {
			only, want = append(only, w.it.Source), append(want, w)
		}
	}
	got := walkOf(t, f, place.WalkRequest{Args: place.Args(true, transfer.File("d"), transfer.File("e"), transfer.File("none"), transfer.File("x")), Only: only}, nil)
	if lines(got) != lines(want) || len(got) < 3 {
		t.Errorf("%s\nwant\n%s", lines(got), lines(want))
	}
}
