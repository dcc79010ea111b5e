package placetest

import (
	"context"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// only returns a Permit for paths that contain a word.
func only(word string, rights ...transfer.Authority) place.Permit {
	return func(right transfer.Authority, path string) error {
		for _, r := range rights {
			if r == right && strings.Contains(path, word) {
				return nil
			}
		}
		return transfer.Errorf(transfer.KindDenied, "no agent may %s %s", right, path)
	}
}

// testMayRead: a file without the right to read is not opened, walked or deleted.
func testMayRead(t *testing.T, p *Fixture) {
	p.put(t, "open/a", "1")
	p.put(t, "closed/b", "2")
	src := p.Source.For(transfer.Files, only("/open", transfer.AuthSource))
	files := src.Files(transfer.File(p.at("open/a")))
	defer files.Close()
	f, err := files.Open(p.at("open/a"), false)
	must(t, err)
	if realPath := f.Facts().RealPath; !strings.HasSuffix(realPath, "/open/a") {
		t.Errorf("an open file lies at %q", realPath)
	}
	f.Close()
	_, err = files.Open(p.at("closed/b"), false)
	wantKind(t, err, transfer.KindDenied)

	items, _ := walk(t, src, place.WalkRequest{Args: place.Args(true, transfer.File(p.at("open/a")), transfer.File(p.at("closed/b")))})
	if len(items) != 2 || items[0].Type != transfer.ItemFile || items[1].Type != transfer.ItemBad || items[1].Err.Kind != transfer.KindDenied {
		t.Errorf("the walk gives %+v", items)
	}

	d, ok := src.(place.Deleter)
	if !ok {
		return
	}
	files = p.Source.Files(transfer.File(p.at("open/a")))
	f, err = files.Open(p.at("open/a"), false)
	must(t, err)
	v := f.Facts().Version
	f.Close()
	files.Close()
	wantKind(t, d.Delete(p.at("open/a"), v, d.AsideName(testID, 1), false), transfer.KindDenied)
	p.shows(t, "open/a", "1")
	d = p.Source.For(transfer.Files, only("/open", transfer.AuthDeleteSource)).(place.Deleter)
	must(t, d.Delete(p.at("open/a"), v, d.AsideName(testID, 1), false))
	if names := p.visible(); len(names) != 1 {
		t.Errorf("there are %q", names)
	}
}

// testMayResolve: a forbidden DEST is refused with the same error for a directory, a file and a free name. A DEST with
// a permitted file beneath it is not refused.
func testMayResolve(t *testing.T, p *Fixture) {
	p.put(t, "closed/dir/f", "1")
	p.put(t, "closed/file", "2")
	p.put(t, "open/dir/f", "3")
	may := only("/open", transfer.AuthDest)
	same := func(at string, err error) {
		t.Helper()
		wantKind(t, err, transfer.KindDenied)
		text := strings.ReplaceAll(err.Error(), at, "AT")
		if want := strings.ReplaceAll(p.denied(may, "closed/x").Error(), "closed/x", "AT"); text != want {
			t.Errorf("%s is refused with %q, not %q", at, text, want)
		}
	}
	for _, at := range []string{"closed/dir", "closed/file", "closed/none", "closed/dir/f", "closed/file/none", "closed/none/none"} {
		for _, dest := range []string{at, at + "/"} {
			for _, several := range []bool{false, true} {
				_, err := p.Target.Resolve(transfer.File(p.Base+transfer.Path("/"+dest)), several, may)
				same(at, err)
			}
		}
		_, err := p.Target.Resolved(transfer.Resolution{Base: p.at(at)}, may)
		same(at, err)
	}
	for _, at := range []string{"open", "open/dir", "open/none/"} {
		if _, err := p.Target.Resolve(transfer.File(p.Base+transfer.Path("/"+at)), false, may); err != nil {
			t.Errorf("%s is refused: %v", at, err)
		}
	}
	beneath := func(right transfer.Authority, path string) error {
		if right == transfer.AuthDest && strings.HasSuffix(path, "/open/") {
			return nil
		}
		return transfer.Errorf(transfer.KindDenied, "%s of %s is not allowed", right, path)
	}
	if _, err := p.Target.Resolve(transfer.File(p.at("open")), false, beneath); err != nil {
		t.Errorf("a directory with a permitted file in it is refused: %v", err)
	}
}

// denied returns the error for a destination that does not exist.
func (p *Fixture) denied(may place.Permit, name string) error {
	_, err := p.Target.Resolve(transfer.File(p.at(name)), false, may)
	return err
}

// testMayLand: nothing is begun at a forbidden destination. An existing file is replaced only with the right to
// overwrite.
func testMayLand(t *testing.T, p *Fixture) {
	p.put(t, "open/there", "old")
	land := func(may place.Permit, ifExists string) place.Landing {
		return landAs(t, p.Target, place.LandConfig{Durable: true, Journal: newJournal(), May: may, Destination: into(p.Base, ifExists)})
	}
	l := land(only("/open", transfer.AuthDest), transfer.IfExistsError)
	_, err := l.Create(1, staging("closed/new/x", 1))
	wantKind(t, err, transfer.KindDenied)
	done, err := l.Commit(context.Background(), []place.Pending{write(t, l, 2, "open/x", []byte("new"))})
	must(t, err)
	if len(done) != 1 || done[0].Err != nil {
		t.Fatalf("it ends as %+v", done)
	}
	p.shows(t, "open/x", "new")

	l = land(only("/open", transfer.AuthDest), transfer.IfExistsOverwrite)
	_, err = l.Create(3, staging("open/there", 1))
	wantKind(t, err, transfer.KindDenied)
	l = land(only("/open", transfer.AuthDest, transfer.AuthOverwrite), transfer.IfExistsOverwrite)
	_, err = l.Commit(context.Background(), []place.Pending{write(t, l, 4, "open/there", []byte("new"))})
	must(t, err)
	p.shows(t, "open/there", "new")
	for _, n := range p.Names() {
		if strings.Contains(n, "closed") || strings.Contains(n, ".ferry-") {
			t.Errorf("there is %s", n)
		}
	}
}
