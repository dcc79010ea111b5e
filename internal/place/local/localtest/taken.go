package localtest

import (
	"errors"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/land"
	"ferry/internal/transfer"
)

func ifExists(word string) func(*place.LandConfig) {
	return func(c *place.LandConfig) { c.IfExists = word }
}

// landOne lands a file with a given modification time at a name and returns its outcome.
func landOne(t *testing.T, l *land.Landing, j *ledger, item uint64, name, content string, mtime int64) transfer.Outcome {
	t.Helper()
	p, err := write(l, item, name, []byte(content))
	must(t, err)
	p.Mtime = mtime
	_, err = l.Commit(t.Context(), []place.Pending{p})
	must(t, err)
	return j.outcomes[item]
}

func testSkip(t *testing.T, p *Place) {
	f, j := p.open(t), newLedger()
	p.tree(t, "x")
	must(t, p.MkdirAll(p.at("d")))
	l := p.land(t, f, j, ifExists(transfer.IfExistsSkip))
	wantKind(t, l.Wanted("x", 1, 9), transfer.KindSkipped)
	must(t, l.Wanted("y", 1, 9))
	if o := landOne(t, l, j, 1, "x", "another", 5); !o.Skipped() || p.read(t, "x") != "content of x" {
		t.Errorf("%+v", o)
	}

	if o := landOne(t, l, j, 2, "y", "another", 5); !o.OK() {
		t.Errorf("%+v", o.Err)
	}

	_, err := l.Create(3, "x", 64<<10, 64<<10)
	wantKind(t, err, transfer.KindSkipped)
	if o := landOne(t, l, j, 4, "d", "a file", 5); !o.Failed() || o.Err.Kind != transfer.KindWrongType {
		t.Errorf("a file in place of a directory: %+v", o.Err)
	}

	if left := p.own(); left != nil {
		t.Errorf("left: %v", left)
	}
}

func testUpdate(t *testing.T, p *Place) {
	f, j := p.open(t), newLedger()
	l := p.land(t, f, j, ifExists(transfer.IfExistsUpdate))
	const at = 1_700_000_000_000_000_000
	for item, c := range []struct {
		content string
		mtime   int64
		skipped bool
		then    string
	}{
		{"first", at, false, "first"}, {"same time", at, true, "first"}, {"older", at - 1e9, true, "first"},
		{"first", at + 0.9e9, true, "first"}, {"another size", at + 0.9e9, false, "another size"}, {"newer", at + 1e9, false, "newer"},
	} {
		if err := l.Wanted("x", c.mtime, int64(len(c.content))); (transfer.KindOf(err) == transfer.KindSkipped) != c.skipped {
			t.Errorf("%s: %v", c.content, err)
		}
		o := landOne(t, l, j, uint64(item), "x", c.content, c.mtime)
		if o.Skipped() != c.skipped || o.Failed() || p.read(t, "x") != c.then {
			t.Errorf("%s: %+v, and %q is there", c.content, o, p.read(t, "x"))
		}
	}

	if left := p.own(); left != nil {
		t.Errorf("left: %v", left)
	}
}

func testAnotherName(t *testing.T, p *Place) {
	f, j := p.open(t), newLedger()
	long := strings.Repeat("n", 250) + ".xml"
	p.tree(t, "pay.xml", "pay-1.xml", "d/.hidden", "d/tar.with.an-extension-that-is-none", long)
	must(t, p.MkdirAll(p.at("dir")))
	l := p.land(t, f, j, ifExists(transfer.IfExistsRename))
	for item, c := range []struct{ name, want string }{
		{"pay.xml", "pay-2.xml"}, {"pay.xml", "pay-3.xml"}, {"free", "free"}, {"d/.hidden", "d/.hidden-1"},
		{"d/tar.with.an-extension-that-is-none", "d/tar.with.an-extension-that-is-none-1"},
		{long, strings.Repeat("n", 249) + "-1.xml"},
	} {
		o := landOne(t, l, j, uint64(item), c.name, "number "+c.want, 7)
		if !o.OK() || string(o.Path) != p.at(c.want) || p.read(t, c.want) != "number "+c.want {
			t.Errorf("%s: %+v", c.name, o)
		}
	}

	if o := landOne(t, l, j, 20, "dir", "a file", 5); !o.Failed() {
		t.Errorf("%+v", o)
	}

	var group []place.Pending // of one name, as two sources may have
	for item := range uint64(2) {
		w, err := write(l, 30+item, "twice", []byte{byte('0' + item)})
		must(t, err)
		group = append(group, w)
	}

	_, err := l.Commit(t.Context(), group)
	must(t, err)
	if p.read(t, "twice") != "0" || p.read(t, "twice-1") != "1" {
		t.Error("two items of one name")
	}

	if p.read(t, "pay.xml") != "content of pay.xml" || p.own() != nil {
		t.Errorf("left: %v", p.own())
	}
}

// Another program takes a name between its choice and the rename: the item begins again.
func testAnotherNameTaken(t *testing.T, p *Place) {
	f, j := p.open(t), newLedger()
	p.tree(t, "x")
	l := p.land(t, f, j, ifExists(transfer.IfExistsRename))
	w, err := write(l, 1, "x", []byte("new"))
	must(t, err)
	j.before = func() { must(t, p.WriteFile(p.at("x-1"), []byte("a stranger's"))) }
	done, err := l.Commit(t.Context(), []place.Pending{w})
	if more := (*place.AgainError)(nil); len(done) != 0 || !errors.As(err, &more) || more.Items[0].Item != 1 {
		t.Fatalf("%v %v", done, err)
	}

	j.before = nil
	if o := landOne(t, l, j, 1, "x", "new", 5); !o.OK() || string(o.Path) != p.at("x-2") || p.read(t, "x-1") != "a stranger's" {
		t.Errorf("%+v", o)
	}
}
