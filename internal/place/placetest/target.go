package placetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

func testLand(t *testing.T, p *Fixture) {
	j := newJournal()
	l := p.land(t, p.Target, j, "")
	names := []string{"plain", "a/b/c/deep", "with blank", "new\nline", strings.Repeat("n", 255), "not\xffutf8\xfe", "-r", "ü", "*", "a/%41"}
	var group []place.Pending
	for n, name := range names {
		loc, err := l.Locate(transfer.Path(name), p.at(name))
		must(t, err)
		if loc.Name != transfer.Path(name) || len(loc.TempDirs) == 0 {
			t.Errorf("%q: %+v", name, loc)
		}
		group = append(group, write(t, l, uint64(n), name, body(n*17_000, byte(n))))
	}

	group = append(group, place.Pending{Outcome: transfer.Outcome{Item: 90, Type: transfer.ItemDir}, Name: "a/b", Mode: 0o750, Mtime: 1e18},
		place.Pending{Outcome: transfer.Outcome{Item: 92, Type: transfer.ItemBad, Path: "gone", Err: transfer.Errorf(transfer.KindMissing, "gone")}})
	j.before = func() {
		if there := p.visible(); len(there) > 0 {
			t.Errorf("before it is on record there are %q", there)
		}
	}
	done, err := l.Commit(t.Context(), group)
	must(t, err)
	if len(done) != len(group) || len(j.outcomes) != len(group) {
		t.Fatalf("%d of %d done, %d recorded", len(done), len(group), len(j.outcomes))
	}

	for n, name := range names {
		if o := j.outcomes[uint64(n)]; !o.OK() || o.Path != l.Path(transfer.Path(name)) {
			t.Errorf("%q: %+v", name, o)
		}
		p.shows(t, name, string(body(n*17_000, byte(n))))
	}

	must(t, errors.Join(l.RemoveLeftovers([]transfer.Path{p.Base}, false), l.Close()))
	if left := p.own(); len(left) > 0 || len(p.visible()) != len(names) {
		t.Errorf("left: %q", p.Names())
	}

	if _, err := l.Locate("../x", p.at("x")); err == nil {
		if _, err = l.Create(99, staging("../x", 1)); err == nil {
			t.Error("a name that leads out of the destination is taken")
		}
	}
}

// commit commits one file and returns its outcome.
func commit(t *testing.T, l place.Landing, j *journal, one place.Pending) transfer.Outcome {
	t.Helper()
	_, err := l.Commit(t.Context(), []place.Pending{one})
	must(t, err)
	return j.outcomes[one.Outcome.Item]
}

func testNameTaken(t *testing.T, p *Fixture) {
	j := newJournal()
	l := p.land(t, p.Target, j, "")
	one, two := write(t, l, 1, "one", body(100, 1)), write(t, l, 2, "two", body(100, 2))
	p.put(t, "one", "first")
	_, err := l.Commit(t.Context(), []place.Pending{one, two})
	must(t, err)
	if o := j.outcomes[1]; o.Err == nil || o.Err.Kind != transfer.KindExists {
		t.Errorf("a name that is taken meanwhile: %+v", o)
	}

	p.shows(t, "one", "first")
	p.shows(t, "two", string(body(100, 2)))
	_, err = l.Create(3, staging("one", 64<<10))
	wantKind(t, err, transfer.KindExists)
	_, err = l.Look("one", mtime, 10)
	wantKind(t, err, transfer.KindExists)
	must(t, l.RemoveLeftovers([]transfer.Path{p.Base}, true))
	if left := p.own(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func testOverwrite(t *testing.T, p *Fixture) {
	j := newJournal()
	l := p.land(t, p.Target, j, transfer.IfExistsOverwrite)
	p.put(t, "x", "the old one")
	one := write(t, l, 1, "x", []byte("new"))
	p.shows(t, "x", "the old one")
	if o := commit(t, l, j, one); !o.OK() {
		t.Errorf("%+v", o)
	}
	p.shows(t, "x", "new")
}

// testOutcomesNotRecorded commits a file, and the ledger then refuses the outcome. Recover decides it, and RemoveLeftovers leaves
// nothing.
func testOutcomesNotRecorded(t *testing.T, p *Fixture) {
	j := newJournal()
	l := p.land(t, p.Target, j, "")
	one := write(t, l, 1, "x", body(100, 1))
	one.Part.Point()
	must(t, one.Part.Sync())
	j.failEnd = errors.New("input/output error")
	if _, err := l.Commit(t.Context(), []place.Pending{one}); err == nil || len(j.committing) != 1 {
		t.Fatalf("%d intents, %v", len(j.committing), err)
	}
	verdict, o, err := l.Recover(j.committing[0], "boot")
	must(t, err)
	if verdict != place.Done || !o.OK() {
		t.Errorf("%s, %+v", verdict, o)
	}
	p.shows(t, "x", string(body(100, 1)))
	must(t, l.RemoveLeftovers([]transfer.Path{p.Base}, false))
	if left := p.own(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func testSkip(t *testing.T, p *Fixture) {
	j := newJournal()
	l := p.land(t, p.Target, j, transfer.IfExistsSkip)
	p.put(t, "x", "the old one")
	_, err := l.Create(1, staging("x", 64<<10))
	wantKind(t, err, transfer.KindSkipped)
	late := write(t, l, 2, "y", []byte("new"))
	p.put(t, "y", "came before")
	if o := commit(t, l, j, late); !o.Skipped() {
		t.Errorf("%+v", o)
	}

	p.shows(t, "x", "the old one")
	p.shows(t, "y", "came before")
	must(t, l.RemoveLeftovers([]transfer.Path{p.Base}, true))
	if left := p.own(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// testUpdate: an older file is replaced by the source, and a newer one stays.
func testUpdate(t *testing.T, p *Fixture) {
	j := newJournal()
	l := p.land(t, p.Target, j, transfer.IfExistsUpdate)
	p.put(t, "newer", "there since today")
	_, err := l.Create(1, staging("newer", 64<<10)) // the source is of 2023
	wantKind(t, err, transfer.KindSkipped)
	_, err = l.Look("newer", mtime, 64<<10)
	wantKind(t, err, transfer.KindSkipped)

	p.put(t, "older", "there since today")
	s := staging("older", 3)
	s.Mtime = 4e18 // 2096
	part, err := l.Create(2, s)
	must(t, err)
	must(t, part.Write([]byte("new")))
	one := pending(part, 2, "older", []byte("new"))
	one.Mtime = s.Mtime
	if o := commit(t, l, j, one); !o.OK() || o.Skipped() {
		t.Errorf("%+v", o)
	}
	p.shows(t, "newer", "there since today")
	p.shows(t, "older", "new")
}

// testRename: an item gets a free name beside the taken one, which its outcome reports; or the place refuses that with
// an explanation.
func testRename(t *testing.T, p *Fixture) {
	j := newJournal()
	l := p.land(t, p.Target, j, transfer.IfExistsRename)
	p.put(t, "pay.csv", "the first")
	if _, err := l.Locate("pay.csv", p.at("pay.csv")); err != nil {
		wantKind(t, err, transfer.KindUsage)
		return
	}
	taken := map[transfer.Path]bool{p.at("pay.csv"): true}
	for n := range uint64(3) {
		content := body(100, byte(n))
		o := commit(t, l, j, write(t, l, n, "pay.csv", content))
		if !o.OK() || taken[o.Path] {
			t.Fatalf("%+v; taken are %v", o, taken)
		}
		taken[o.Path] = true
		name, _ := strings.CutPrefix(string(o.Path), string(p.Base)+"/")
		p.shows(t, name, string(content))
	}
	p.shows(t, "pay.csv", "the first")
	if there := p.visible(); len(there) != len(taken) {
		t.Errorf("there are %q", there)
	}
}

// testTwoDestinations commits a group with items of two destinations that treat taken names differently.
func testTwoDestinations(t *testing.T, p *Fixture) {
	j := newJournal()
	l := p.land(t, p.Target, j, "")
	other := l.At(into(p.at("other"), transfer.IfExistsOverwrite))
	t.Cleanup(func() { other.Close() })
	p.put(t, "other/x", "the old one")
	one, two := write(t, l, 1, "x", body(9000, 1)), write(t, other, 2, "x", body(9000, 2))
	two.At = other
	_, err := l.Commit(t.Context(), []place.Pending{one, two})
	must(t, err)
	for n, want := range map[uint64]transfer.Path{1: p.at("x"), 2: p.at("other/x")} {
		if o := j.outcomes[n]; !o.OK() || o.Path != want {
			t.Errorf("%+v", o)
		}
	}
	p.shows(t, "x", string(body(9000, 1)))
	p.shows(t, "other/x", string(body(9000, 2)))
	must(t, errors.Join(l.RemoveLeftovers([]transfer.Path{p.Base, p.at("other")}, true), other.Close(), l.Close()))
	if left := p.own(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// testNotDurable lands a file that must only survive the process. It is as complete, and a new process continues it as
// well.
func testNotDurable(t *testing.T, p *Fixture) {
	content := body(60_000, 1)
	cfg := place.LandConfig{Journal: newJournal(), Destination: into(p.Base, "")}
	l := landAs(t, p.Target, cfg)
	part, err := l.Create(1, staging("x", len(content)))
	must(t, err)
	must(t, part.Write(content[:30_000]))
	point := part.Point()
	must(t, errors.Join(part.Sync(), part.Write(body(100, 9)), part.Close(), l.Close()))

	_, target := p.Again()
	j := newJournal()
	cfg.Journal = j
	l = landAs(t, target, cfg)
	if part, err = l.Reopen(1, staging("x", len(content)), point); err != nil {
		t.Fatal(err)
	}
	must(t, part.Write(content[part.Offset():]))
	if o := commit(t, l, j, pending(part, 1, "x", content)); !o.OK() {
		t.Errorf("%+v", o)
	}
	p.shows(t, "x", string(content))
	must(t, l.RemoveLeftovers([]transfer.Path{p.Base}, true))
	if left := p.own(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// testGoOn continues from each of several safe points, in a new process each time. Bytes written after a point, safe or
// not, are gone.
func testGoOn(t *testing.T, p *Fixture) {
	content := body(60_000, 1)
	for n, at := range []int{1, 5000, 10_240, 10_241, 37_000} {
		name := fmt.Sprint("d/x", n)
		item := uint64(n)
		l := p.land(t, p.Target, newJournal(), "")
		part, err := l.Create(item, staging(transfer.Path(name), len(content)))
		must(t, err)
		for k := 0; k < at; k += 1000 {
			must(t, part.Write(content[k:min(k+1000, at)]))
		}
		point := part.Point()
		if len(point) == 0 || len(point) > transfer.MaxPlacePoint {
			t.Errorf("the point has %d bytes", len(point))
		}
		must(t, part.Write(content[at:at+7000])) // Sync may come later
		must(t, part.Sync())
		must(t, part.Write(body(12_000, 9)))
		must(t, errors.Join(part.Close(), l.Close()))

		_, target := p.Again()
		j := newJournal()
		l = p.land(t, target, j, "")
		if part, err = l.Reopen(item, staging(transfer.Path(name), len(content)), point); err != nil {
			t.Fatal(err)
		}
		if part.Offset() != int64(at) {
			t.Fatalf("it goes on at %d, want %d", part.Offset(), at)
		}
		must(t, part.Write(content[at:]))
		if o := commit(t, l, j, pending(part, item, name, content)); !o.OK() {
			t.Errorf("%+v", o)
		}
		p.shows(t, name, string(content))
		must(t, l.RemoveLeftovers([]transfer.Path{p.at("d")}, true))
		if left := p.own(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

func testBadPoints(t *testing.T, p *Fixture) {
	l := p.land(t, p.Target, newJournal(), "")
	part, err := l.Create(1, staging("x", 60_000))
	must(t, err)
	must(t, part.Write(body(20_000, 1)))
	point := part.Point()
	must(t, errors.Join(part.Sync(), part.Close()))
	for n := range point {
		bad := append([]byte(nil), point[:n]...)
		if part, err := l.Reopen(1, staging("x", 60_000), bad); err == nil {
			t.Errorf("the first %d bytes of a point are one: it goes on at %d", n, part.Offset())
			part.Close()
		}
	}

	_, err = l.Reopen(2, staging("y", 60_000), point)
	wantKind(t, err, transfer.KindMissing)
	must(t, l.RemoveLeftovers([]transfer.Path{p.Base}, true))
	_, err = l.Reopen(1, staging("x", 60_000), point)
	wantKind(t, err, transfer.KindMissing)
}

func testLeaveNothing(t *testing.T, p *Fixture) {
	l := p.land(t, p.Target, newJournal(), "")
	part, err := l.Create(1, staging("d/discarded", 9000))
	must(t, err)
	must(t, part.Write(body(9000, 1)))
	part.Point()
	must(t, errors.Join(part.Sync(), part.Discard()))
	if part, err = l.Create(2, staging("d/dropped", 9000)); err != nil {
		t.Fatal(err)
	}

	must(t, errors.Join(part.Write(body(9000, 1)), part.Close()))
	_, target := p.Again()
	l = p.land(t, target, newJournal(), "")
	must(t, l.Drop(2, "d/dropped"))
	must(t, l.Drop(2, "d/dropped"))
	if left := p.Names(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}

	if part, err = l.Create(3, staging("d/forgotten", 9000)); err != nil {
		t.Fatal(err)
	}

	part.Point()
	must(t, errors.Join(part.Write(body(9000, 1)), part.Sync(), part.Close()))
	_, target = p.Again()
	must(t, p.land(t, target, nil, "").RemoveLeftovers([]transfer.Path{p.at("d"), p.at("gone"), p.Base}, true))
	if left := p.Names(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

var errGone = errors.New("the ledger is gone")

// testRecover decides items after a crash between COMMITTING and COMMITTED.
func testRecover(t *testing.T, p *Fixture) {
	for n, c := range []struct {
		name    string
		before  string // content under the name when the commit begins
		crash   error  // of the journal: no item has its name yet
		then    string // content that gets the name after the crash
		exists  string
		verdict place.Verdict
		shows   string
	}{
		{name: "before its name", crash: errGone, verdict: place.Done, shows: "new"},
		{name: "after its name", verdict: place.Done, shows: "new"},
		{name: "taken meanwhile", crash: errGone, then: "theirs", verdict: place.Refused, shows: "theirs"},
		{name: "over an old one", before: "old", crash: errGone, exists: transfer.IfExistsOverwrite, verdict: place.Done, shows: "new"},
		{name: "over an old one, after its name", before: "old", exists: transfer.IfExistsOverwrite, verdict: place.Done, shows: "new"},
	} {
		name := fmt.Sprint("x", n)
		if c.before != "" {
			p.put(t, name, c.before)
		}
		j := newJournal()
		j.fail = c.crash
		l := p.land(t, p.Target, j, c.exists)
		one := write(t, l, 1, name, []byte("new"))
		if _, err := l.Commit(t.Context(), []place.Pending{one}); !errors.Is(err, c.crash) {
			t.Fatalf("%s: the commit ends with %v", c.name, err)
		}
		must(t, l.Close())
		if c.then != "" {
			p.put(t, name, c.then)
		}
		b, err := json.Marshal(j.committing[0])
		must(t, err)
		var in transfer.Intent
		must(t, json.Unmarshal(b, &in)) // as a ledger gives it back
		for range 2 {                   // a crash may come before the verdict is recorded
			_, target := p.Again()
			l = p.land(t, target, newJournal(), c.exists)
			v, o, err := l.Recover(in, boot)
			if err != nil || v != c.verdict || o.OK() != (v == place.Done) {
				t.Errorf("%s: %v, %+v, %v; want %v", c.name, v, o, err, c.verdict)
			}
		}
		p.shows(t, name, c.shows)
		must(t, errors.Join(l.RemoveLeftovers([]transfer.Path{p.Base}, true), l.Close()))
		if left := p.own(); len(left) > 0 {
			t.Errorf("%s: left: %q", c.name, left)
		}
		for k := range in.Place {
			if _, _, err := l.Recover(transfer.Intent{Outcome: in.Outcome, Place: in.Place[:k]}, boot); err == nil {
				t.Errorf("%s: the first %d bytes of an intent are one", c.name, k)
			}
		}
	}
}

// testTakenAway recovers an item that got its name and was taken away by its consumer before that was recorded. It does
// not arrive a second time, and is not reported as present.
func testTakenAway(t *testing.T, p *Fixture) {
	for n, then := range []string{"", "something of the consumer's"} {
		name := fmt.Sprint("x", n)
		j := newJournal()
		l := p.land(t, p.Target, j, "")
		commit(t, l, j, write(t, l, 1, name, []byte("new")))
		must(t, errors.Join(l.Close(), p.Remove(name)))
		want := 0
		if then != "" {
			p.put(t, name, then)
			want = 1
		}
		for range 2 {
			_, target := p.Again()
			l = p.land(t, target, newJournal(), "")
			v, o, err := l.Recover(j.committing[0], boot)
			if err != nil || v != place.Taken && v != place.Moved || v == place.Moved && o.OK() {
				t.Errorf("then %q: %v, %+v, %v", then, v, o, err)
			}
		}
		if then != "" {
			p.shows(t, name, then)
		}
		must(t, errors.Join(l.RemoveLeftovers([]transfer.Path{p.Base}, true), l.Close()))
		if there := p.Names(); len(there) != want {
			t.Errorf("then %q: there are %q", then, there)
		}
	}
}

func testJournalFails(t *testing.T, p *Fixture) {
	j := newJournal()
	j.fail = errGone
	l := p.land(t, p.Target, j, "")
	one := write(t, l, 1, "x", body(100, 1))
	if _, err := l.Commit(t.Context(), []place.Pending{one}); !errors.Is(err, errGone) {
		t.Fatalf("the commit ends with %v", err)
	}
	if there := p.visible(); len(there) > 0 || len(j.outcomes) > 0 {
		t.Errorf("%q are there, %d outcomes recorded", there, len(j.outcomes))
	}
}
