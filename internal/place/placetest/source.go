package placetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// walk returns the items of a walk, with a line for each file and each bad item, and their arguments.
func walk(t *testing.T, s place.Source, w place.WalkRequest) (items []transfer.Item, args []int) {
	t.Helper()
	_, err := s.Walk(t.Context(), w, func(it transfer.Item) error {
		items, args = append(items, it), append(args, it.Arg)
		return nil
	})
	must(t, err)
	return items, args
}

func testWalk(t *testing.T, p *Fixture) {
	want := []string{}
	for n := range 20 {
		name := fmt.Sprintf("in/d%d/f%02d", n%3, n)
		p.put(t, name, name)
		want = append(want, name)
	}

	p.put(t, "other", "x")
	p.put(t, "in/d1/.ferry-1-2", "x")
	req := place.WalkRequest{Args: place.Args(true, transfer.File(p.at("in")), transfer.File(p.at("missing")), transfer.File(p.at("other")))}
	items, args := walk(t, p.Source, req)
	var got []string
	for _, it := range items {
		if it.Type == transfer.ItemFile && it.Name != "other" {
			got = append(got, string(it.Name))
		}
	}

	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Fatalf("it gives %q, want %q", got, want)
	}

	bad := slices.IndexFunc(items, func(it transfer.Item) bool { return it.Type == transfer.ItemBad })
	if bad < 0 || items[bad].Err == nil || items[bad].Err.Kind != transfer.KindMissing || args[bad] != 1 {
		t.Errorf("the missing file is not reported: %+v", items)
	}

	again, _ := p.Again()
	for k := range items {
		after := req
		after.After = &items[k]
		rest, _ := walk(t, again, after)
		if !slices.EqualFunc(rest, items[k+1:], func(a, b transfer.Item) bool { return a.Source == b.Source && a.Name == b.Name && a.Type == b.Type }) {
			t.Errorf("behind item %d it gives %d items, want %d", k, len(rest), len(items)-k-1)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Source.Walk(ctx, req, func(transfer.Item) error { return ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Errorf("a walk that is given up ends with %v", err)
	}

	stop := errors.New("the journal is full")
	if _, err := p.Source.Walk(t.Context(), req, func(transfer.Item) error { return stop }); err != stop {
		t.Errorf("the error of emit is %v", err)
	}
}

// open opens a file and reads nothing from it.
func (p *Fixture) open(t *testing.T, name string) place.File {
	t.Helper()
	files := p.Source.Files(transfer.File(p.at(name)))
	t.Cleanup(files.Close)
	f, err := files.Open(p.at(name), false)
	must(t, err)
	return f
}

func testRead(t *testing.T, p *Fixture) {
	for n, size := range []int{0, 1, 4999, 70_000} {
		name, content := fmt.Sprint("f", n), body(size, byte(n))
		must(t, p.Put(name, content))
		f := p.open(t, name)
		got, err := io.ReadAll(f)
		if err != nil || string(got) != string(content) {
			t.Fatalf("%d bytes of %d are read: %v", len(got), size, err)
		}
		must(t, f.Unchanged())
		facts := f.Facts()
		if facts.Size != -1 && facts.Size != int64(size) {
			t.Errorf("the size of %d bytes is said to be %d", size, facts.Size)
		}
		if n := len(facts.Version); n == 0 || n > transfer.MaxVersion {
			t.Errorf("the version has %d bytes", n)
		}
		if s, ok := f.(place.Rewinder); ok && size > 0 && s.SeekTo(int64(size)/2) {
			if rest, err := io.ReadAll(f); err != nil || string(rest) != string(content[size/2:]) {
				t.Errorf("%d bytes are read from the middle: %v", len(rest), err)
			}
		}
		must(t, f.Close())
		again := p.open(t, name)
		if again.Facts().Version != facts.Version {
			t.Error("the version of an unchanged file is another")
		}
		must(t, again.Close())
	}

	_, err := p.Source.Files(transfer.Location{}).Open(p.at("none"), false)
	wantKind(t, err, transfer.KindMissing)
}

func testChange(t *testing.T, p *Fixture) {
	p.put(t, "x", "first")
	f := p.open(t, "x")
	was := f.Facts().Version
	p.put(t, "x", "other content")
	wantKind(t, f.Unchanged(), transfer.KindChanging)
	must(t, f.Close())
	f = p.open(t, "x")
	if f.Facts().Version == was {
		t.Error("a changed file has the same version")
	}
	must(t, f.Close())
}

func testDelete(t *testing.T, p *Fixture) {
	d, ok := p.Source.(place.Deleter)
	if !ok {
		return // an unsupported operation is refused before data flows
	}

	p.put(t, "x", "first")
	f := p.open(t, "x")
	was := f.Facts().Version
	must(t, f.Close())
	p.put(t, "x", "other content")
	aside := d.AsideName(testID, 1)
	wantKind(t, d.Delete(p.at("x"), was, aside, false), transfer.KindChanging)
	p.shows(t, "x", "other content")
	f = p.open(t, "x")
	now := f.Facts().Version
	must(t, f.Close())
	must(t, d.Delete(p.at("x"), now, aside, false))
	if left := p.Names(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}

	again, _ := p.Again()
	must(t, again.(place.Deleter).Delete(p.at("x"), now, aside, true))
	wantKind(t, d.Delete(p.at("none"), now, aside, false), transfer.KindMissing)
	for _, v := range []transfer.Version{"", "\xff", was[:len(was)-1]} {
		p.put(t, "y", "first")
		if err := d.Delete(p.at("y"), v, aside, false); err == nil {
			t.Errorf("it is deleted by the version %q", v)
		}
		p.shows(t, "y", "first")
	}
}
