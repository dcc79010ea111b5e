package localtest

import (
	"errors"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

func testLand(t *testing.T, p *Place) {
	f := p.open(t)
	j := newLedger()
	l := p.land(t, f, j, nil)
	names := []string{"plain", "a/b/c/deep", "with blank", "new\nline", strings.Repeat("n", 255), "not\xffutf8\xfe", "-r", "ü", "*", "a/%41"}
	var group []place.Pending
	for i, n := range names {
		w, err := write(l, uint64(i), n, body(i*17_000, byte(i)))
		must(t, err)
		group = append(group, w)
	}

	group = append(group, place.Pending{Outcome: transfer.Outcome{Item: 90, Type: transfer.ItemDir}, Name: "a/b", Mode: 0o750, Mtime: 1e18},
		place.Pending{Outcome: transfer.Outcome{Item: 92, Type: transfer.ItemBad, Path: "/gone", Err: transfer.Errorf(transfer.KindMissing, "gone")}})
	done, err := l.Commit(t.Context(), group)
	must(t, err)
	if len(done) != len(group) || len(j.committing) != 0 {
		t.Fatalf("%d of %d done, %d committing", len(done), len(group), len(j.committing))
	}

	for i, n := range names {
		if o := j.outcomes[uint64(i)]; !o.OK() || string(o.Path) != p.at(n) {
			t.Errorf("%q: %+v", n, o)
		}
		if p.read(t, n) != string(body(i*17_000, byte(i))) {
			t.Errorf("%q has other content", n)
		}
		s, err := f.OpenSource(transfer.Path(n))
		must(t, err)
		if s.Mode() != 0o640 || s.Mtime() != 1_700_000_000_123_456_700 {
			t.Errorf("%q: mode %o, time %d", n, s.Mode(), s.Mtime())
		}
		must(t, s.Close())
	}

	if _, mtime, err := f.StatDir("a/b"); err != nil || mtime != 1e18 {
		t.Errorf("the directory has the time %d: %v", mtime, err)
	}

	if left := p.own(); left != nil {
		t.Errorf("left: %v", left)
	}
}

func testNameTaken(t *testing.T, p *Place) {
	f := p.open(t)
	j := newLedger()
	l := p.land(t, f, j, nil)
	var group []place.Pending
	for i, n := range []string{"one", "two"} {
		w, err := write(l, uint64(i), n, body(100, 1))
		must(t, err)
		group = append(group, w)
	}

	must(t, p.WriteFile(p.at("one"), []byte("first")))
	_, err := l.Commit(t.Context(), group)
	must(t, err)
	one, two := j.outcomes[0], j.outcomes[1]
	if one.Err == nil || one.Err.Kind != transfer.KindExists || !two.OK() || p.read(t, "one") != "first" || p.own() != nil {
		t.Fatalf("%+v %v", j.outcomes, p.own())
	}

	_, err = l.Create(5, "one", 64<<10, 64<<10)
	wantKind(t, err, transfer.KindExists)
	must(t, p.MkdirAll(p.at("d")))
	over := p.land(t, f, j, func(c *place.LandConfig) { c.IfExists = transfer.IfExistsOverwrite })
	_, err = over.Create(5, "d", 1, 512)
	wantKind(t, err, transfer.KindWrongType)
	_, err = l.Create(6, "one/below", 1, 512)
	wantKind(t, err, transfer.KindWrongType)
}

func testReopen(t *testing.T, p *Place) {
	f := p.open(t)
	l := p.land(t, f, newLedger(), nil)
	part, err := l.Create(1, "d/x", 1<<20, 1<<20)
	must(t, err)
	must(t, part.Write(body(3000, 1)))
	must(t, errors.Join(part.Sync(), part.Close()))
	again, err := l.Reopen(1, "d/x", intent.PointAt(2000), 1<<20, 1<<20)
	must(t, err)
	if again.Offset() != 2000 || again.Ino() != part.Ino() {
		t.Fatal(again.Offset())
	}

	must(t, again.Write([]byte("from here on")))
	b := make([]byte, 2012)
	if _, err := again.ReadAt(b, 0); err != nil || string(b) != string(body(2000, 1))+"from here on" {
		t.Fatalf("%q %v", b, err)
	}

	must(t, again.Close())
	// The mode of a commit that was not recorded is undone.
	must(t, p.Chmod(p.at("d/"+disk.TempName(7, 1, testID, 1)), 0o640))
	again, err = l.Reopen(1, "d/x", intent.PointAt(1000), 1<<20, 1<<20)
	must(t, errors.Join(err, again.Close()))
	temp := disk.TempName(7, 1, testID, 1)
	for _, c := range []struct {
		name  string
		spoil func()
		at    int64
	}{
		{"too short", func() {}, 2013},
		{"hard link", func() { must(t, p.Hardlink(p.at("d/"+temp), "second")) }, 10},
		{"link", func() {
			must(t, p.Remove(p.at("d/second")))
			must(t, p.Move(p.at("d/"+temp), "aside"))
			must(t, p.Symlink("aside", p.at("d/"+temp)))
		}, 10},
		{"gone", func() { must(t, p.Remove(p.at("d/"+temp))) }, 10},
	} {
		c.spoil()
		_, err := l.Reopen(1, "d/x", intent.PointAt(c.at), 1<<20, 1<<20)
		if transfer.KindOf(err) != transfer.KindMissing {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func testSweep(t *testing.T, p *Place) {
	f := p.open(t)
	own := []string{disk.TempName(7, 1, testID, 3), disk.TempName(7, 0, testID, 4)}
	other := transfer.NewID(testID.Time())
	keep := []string{disk.TempName(7, 1, other, 3), disk.TempName(8, 1, testID, 3), disk.TempName(7, 2, testID, 3), ".ferry-x.part", "file"}
	p.tree(t, append(own, keep...)...)
	l := p.land(t, f, newLedger(), nil)
	must(t, l.Sweep([]transfer.Path{transfer.Path(p.Dir), transfer.Path(p.at("gone")), "/etc", transfer.Path(p.at("file"))}))
	for _, n := range own {
		if p.exists(n) {
			t.Errorf("%s is left", n)
		}
	}

	for _, n := range keep {
		if !p.exists(n) {
			t.Errorf("%s is gone", n)
		}
	}
}

func testResolve(t *testing.T, p *Place) {
	f := p.open(t)
	p.tree(t, "d/in", "file")
	for _, c := range []struct {
		dest    string
		several bool
		base    string
		into    bool
		kind    transfer.Kind
	}{
		{dest: "d", base: "d", into: true}, {dest: ".", into: true}, {dest: "new", base: "new"}, {dest: "new/", base: "new", into: true, several: true},
		{dest: "a/b/c", base: "a/b/c"}, {dest: "file", base: "file"}, {dest: "new", several: true, kind: transfer.KindUsage},
		{dest: "file/", kind: transfer.KindWrongType}, {dest: "file/x", kind: transfer.KindWrongType}, {dest: "../x", kind: transfer.KindOutsideRoot},
		{dest: "state-of-ferry/x", kind: transfer.KindOutsideRoot},
	} {
		res, err := f.Resolve(transfer.File(transfer.Path(c.dest)), c.several)
		if transfer.KindOf(err) != c.kind || err == nil && (res.Into != c.into || string(res.Base) != p.at(c.base)) {
			t.Errorf("%s: %+v %v", c.dest, res, err)
		}
	}

	if n, err := f.Free(transfer.Resolution{Base: "none/yet/x"}); err != nil || n <= 0 {
		t.Errorf("%d free: %v", n, err)
	}
}

func testEscapes(t *testing.T, p *Place) {
	p.tree(t, "root/in/file", "out/canary", "root/state-of-ferry/ledger")
	whole := *p
	p.Dir = p.at("root")
	for link, to := range map[string]string{"rel": "../out", "abs": whole.at("out"), "canary": "../out/canary", "good": "in",
		"goodabs": p.at("in"), "tostate": "state-of-ferry"} {
		must(t, p.Symlink(to, p.at(link)))
	}

	f := p.open(t)
	for name, kind := range map[transfer.Path]transfer.Kind{
		"in/file": 0, "good/file": 0, "goodabs/file": 0, "rel/canary": transfer.KindOutsideRoot, "abs/canary": transfer.KindOutsideRoot,
		"canary": transfer.KindWrongType, "../out/canary": transfer.KindOutsideRoot, "state-of-ferry/ledger": transfer.KindOutsideRoot,
		"tostate/ledger": transfer.KindOutsideRoot, "in": transfer.KindWrongType, "in/none": transfer.KindMissing, "in/file/x": transfer.KindMissing,
	} {
		s, err := f.OpenSource(name)
		if transfer.KindOf(err) != kind {
			t.Errorf("%s: %v, want %v", name, err, kind)
		}
		if err == nil {
			must(t, s.Close())
		}
	}

	l := p.land(t, f, newLedger(), func(c *place.LandConfig) { c.IfExists = transfer.IfExistsOverwrite })
	for name, kind := range map[transfer.Path]transfer.Kind{
		"good/new": 0, "goodabs/new": 0, "rel/new": transfer.KindOutsideRoot, "abs/new": transfer.KindOutsideRoot,
		"tostate/x": transfer.KindOutsideRoot, "in/file/x": transfer.KindWrongType, "canary": 0, // the link itself is replaced
	} {
		part, err := l.Create(1, name, 0, 0)
		if transfer.KindOf(err) != kind {
			t.Errorf("create %s: %v, want %v", name, err, kind)
		}
		if err == nil {
			must(t, part.Discard())
		}
	}

	if whole.read(t, "out/canary") != "content of out/canary" || whole.own() != nil {
		t.Error("the canary is dead")
	}
}

func testWalk(t *testing.T, p *Place) {
	p.tree(t, "d/a", "d/b/1", "d/b/2", "d/.h", "e/x.txt", "d/"+disk.TempName(7, 1, testID, 1))
	must(t, p.Symlink("a", p.at("d/link")))
	f := p.open(t)
	var got []string
	links, err := f.Walk(t.Context(), place.WalkRequest{Args: place.Args(true, transfer.File("d"), transfer.Match("e/*.txt"), transfer.File("none"))},
		func(it transfer.Item) error {
			word := map[transfer.ItemType]string{transfer.ItemFile: "file ", transfer.ItemDir: "dir ", transfer.ItemBad: "bad "}[it.Type]
			got = append(got, word+string(it.Name))
			return nil
		})
	want := "file d/.h\nfile d/a\nfile d/b/1\nfile d/b/2\ndir d/b\ndir d\nfile x.txt\nbad none"
	if must(t, err); strings.Join(got, "\n") != want || links != 1 {
		t.Errorf("%d links and\n%s\nwant\n%s", links, strings.Join(got, "\n"), want)
	}
}
