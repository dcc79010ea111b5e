//go:build unix

package local

import (
	"os"
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/transfer/transfertest"
)

// A literal source is only the file of this name. A pattern of a name matches only this name. A walk gives each name
// unchanged.
func TestNamesAreLiteral(t *testing.T) {
	f, dir := newFS(t, nil)
	must(t, os.Mkdir(dir+"/d", 0o755))
	all := transfertest.Hostile()
	for _, name := range all {
		must(t, os.WriteFile(dir+"/d/"+name, transfertest.Content(name), 0o644))
	}
	one := func(src transfer.Location, name string) {
		t.Helper()
		n := 0
		_, err := f.Walk(t.Context(), place.WalkRequest{Args: place.Args(false, src)}, func(it transfer.Item) error {
			if n++; it.Type != transfer.ItemFile || string(it.Name) != name || string(it.Source) != dir+"/d/"+name {
				t.Errorf("%+v gives %+v", src, it)
			}
			return nil
		})
		if err != nil || n != 1 {
			t.Errorf("%+v gives %d items, %v", src, n, err)
		}
	}
	for _, name := range all {
		one(transfer.File(transfer.Path("d/"+name)), name)
		if name[0] != '.' {
			one(transfer.Match(transfer.Path("?/"+transfer.Literally(name))), name)
		}
		res, err := f.Resolve(transfer.File(transfer.Path("d/"+name)), false)
		if err != nil || string(res.Base) != dir+"/d/"+name || res.Into || res.Place != transfer.Files {
			t.Errorf("the destination %q is %+v, %v", name, res, err)
		}
	}
	found := map[string]bool{}
	_, err := f.Walk(t.Context(), place.WalkRequest{Args: place.Args(true, transfer.File("d/."))}, func(it transfer.Item) error {
		found[string(it.Name)] = true
		return nil
	})
	if err != nil || len(found) != len(all) {
		t.Errorf("a walk gives %d of %d names, %v", len(found), len(all), err)
	}
	if _, err := f.Resolve(transfer.Location{Place: transfer.Queues, Path: "queue:A"}, false); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("a queue is a directory: %v", err)
	}
}
