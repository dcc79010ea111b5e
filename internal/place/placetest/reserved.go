package placetest

import (
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// testReserved: a name that begins with .ferry- is refused in each path of a request, and no such file is read, made,
// replaced or deleted.
func testReserved(t *testing.T, p *Fixture) {
	const held = ".ferry-a-pay80.attributes"
	p.put(t, "d/"+held, "held")
	before := len(p.Names())
	names := []string{"d/" + held, "d/.ferry-x", "d/.ferry-x/", "d/.ferry-x/y", "new/.ferry-x/y/"}
	for _, name := range names {
		dest := transfer.File(p.Base + transfer.Path("/"+name))
		for _, several := range []bool{false, true} {
			if res, err := p.Target.Resolve(dest, several, nil); err == nil {
				t.Errorf("the destination %s is %+v", name, res)
			}
		}
		res := transfer.Resolution{Base: p.at(name), Into: true}
		if res, err := p.Target.Resolved(res, nil); err == nil {
			t.Errorf("the earlier destination %s is %+v", name, res)
		}
		for _, to := range []place.Destination{into(p.Base, transfer.IfExistsOverwrite), {IfExists: transfer.IfExistsOverwrite, Resolution: res},
			{IfExists: transfer.IfExistsOverwrite, Resolution: transfer.Resolution{Base: p.at(name)}}} {
			l := landAs(t, p.Target, place.LandConfig{Durable: true, Journal: newJournal(), Destination: to})
			item := transfer.Path("f")
			if to.Resolution.Base == p.Base {
				item = transfer.Path(name)
			}
			if part, err := l.Create(1, staging(item, 1)); err == nil {
				part.Discard()
				t.Errorf("an item lands at %s as %s", to.Resolution.Base, item)
			}
			if at, err := l.Look(item, 0, 1); err == nil {
				t.Errorf("an item could land at %s", at)
			}
		}
		items, _ := walk(t, p.Source, place.WalkRequest{Args: place.Args(true, transfer.File(p.at(name)))})
		if len(items) != 1 || items[0].Type != transfer.ItemBad {
			t.Errorf("the walk gives %+v", items)
		}
		files := p.Source.Files(transfer.File(p.at(name)))
		if f, err := files.Open(p.at(name), false); err == nil {
			f.Close()
			t.Errorf("%s is opened", name)
		}
		files.Close()
	}
	p.shows(t, "d/"+held, "held")
	if now := p.Names(); len(now) != before {
		t.Errorf("there are %q", now)
	}
}
