//go:build linux

package local

import (
	"os"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

// Reserved names are refused in each case of their letters, and where a link leads to one. Other names are not.
func TestReservedNames(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "d/.ferry-own/x", "d/.FERRY-big", "d/ferry-x", "d/.ferry")
	must(t, os.Symlink(dir+"/d/.ferry-own", dir+"/link"))
	for name, refused := range map[transfer.Path]bool{
		".ferry-x": true, ".FERRY-x": true, ".Ferry-x/y": true, "d/.ferry-own/y": true, "link/y": true, "link/": true,
		"ferry-x": false, ".ferry": false, ".ferryx": false, "x.ferry-": false, "d/ferry-x": false, "d/.ferry": false,
	} {
		_, err := f.Resolve(transfer.File(name), false)
		if got := transfer.KindOf(err) == transfer.KindOutsideRoot; got != refused || err != nil && !got {
			t.Errorf("the destination %s: %v", name, err)
		}
		l := f.Land(place.LandConfig{Transfer: testID, Journal: disktest.NewJournal(nil),
			Destination: place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(dir), Into: true}}})
		err = disk.CheckName(name)
		if err == nil {
			_, _, err = l.Known(name)
		}
		if part, cerr := l.Create(1, name, 0, 0); cerr == nil {
			must(t, part.Discard())
		} else {
			err = cerr
		}
		if got := transfer.KindOf(err) == transfer.KindOutsideRoot; got != (refused || name[len(name)-1] == '/') {
			t.Errorf("an item %s: %v", name, err)
		}
	}
	// A walk omits a reserved name in other letters, too, and opening the file is refused.
	items, _ := walkAll(t, f, true, nil, "d/.")
	if got := lines(items); got != "0 file .ferry\n0 file ferry-x" {
		t.Errorf("the walk gives\n%s", got)
	}
	s := f.source.Sources(transfer.File("d"))
	defer s.Close()
	if src, err := s.Open("d/.FERRY-big", false); transfer.KindOf(err) != transfer.KindOutsideRoot {
		t.Errorf("it is opened: %v, %v", src, err)
	}
}
