package localtest

import (
	"errors"
	"strings"
	"testing"

	"ferry/internal/content/record"
	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/intent"
	"ferry/internal/place/local/land"
	"ferry/internal/transfer"
)

var appending = ifExists(transfer.IfExistsAppend)

// anotherTransfer changes the configuration to that of another transfer at the same place.
func anotherTransfer(n byte, change func(*place.LandConfig)) func(*place.LandConfig) {
	return func(c *place.LandConfig) {
		c.Transfer[0] ^= n
		change(c)
	}
}

func testAppend(t *testing.T, p *Place) {
	f, j := p.open(t), newLedger()
	l := p.land(t, f, j, appending)
	if o := landOne(t, l, j, 1, "log", "one\n", 5); !o.OK() || o.Written != nil || p.read(t, "log") != "one\n" {
		t.Errorf("where nothing is: %+v, %q", o, p.read(t, "log"))
	}

	must(t, p.Chmod(p.at("log"), 0o604))
	o := landOne(t, l, j, 2, "log", "two, without an end", 5)
	const both = "one\ntwo, without an end"
	if want := (transfer.Written{Size: int64(len(both)), Base: 4, Digest: sum([]byte(both))}); !o.OK() || o.Written == nil || *o.Written != want || p.read(t, "log") != both {
		t.Errorf("%+v, %+v, %q", o, o.Written, p.read(t, "log"))
	}
	if want := sum([]byte("two, without an end")); o.Digest != want || o.Size != 19 || string(o.Path) != p.at("log") {
		t.Errorf("its outcome has %+v", o)
	}

	s, err := f.OpenSource("log")
	must(t, err)
	if s.Mode() != 0o604 || s.Mtime() == 5 {
		t.Errorf("mode %o, time %d", s.Mode(), s.Mtime())
	}
	must(t, s.Close())

	// Arrived bytes are compared with their digest when they are read back.
	w, err := write(l, 9, "log", []byte("what came"))
	must(t, err)
	must(t, p.WriteFile(p.at(disk.TempName(7, 1, testID, 9)), []byte("what rots")))
	_, err = l.Commit(t.Context(), []place.Pending{w})
	if !errors.As(err, new(*place.AgainError)) || p.read(t, "log") != both {
		t.Errorf("damaged data was appended: %v, %q", err, p.read(t, "log"))
	}

	large := string(body(3<<20, 7))
	if o := landOne(t, l, j, 3, "log", large, 5); !o.OK() || p.read(t, "log") != both+large {
		t.Errorf("a large file: %+v", o)
	}
	if o := landOne(t, l, j, 4, "log", "", 5); !o.OK() || p.read(t, "log") != both+large || o.Written.Base != o.Written.Size {
		t.Errorf("an empty file: %+v", o)
	}
	if left := p.own(); left != nil {
		t.Errorf("left: %v", left)
	}
}

// A file that cannot be appended to is refused before the first byte, or at the end if it appears later.
func testAppendRefused(t *testing.T, p *Place) {
	f, j := p.open(t), newLedger()
	p.tree(t, "x")
	must(t, p.MkdirAll(p.at("d")))
	must(t, p.Symlink("x", p.at("link")))
	l := p.land(t, f, j, appending)
	for _, name := range []string{"d", "link"} {
		_, err := l.Create(1, transfer.Path(name), 9, 9)
		wantKind(t, err, transfer.KindWrongType)
		if !strings.Contains(err.Error(), p.at(name)) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}

	w, err := write(l, 2, "y", []byte("data"))
	must(t, err)
	must(t, p.Symlink("x", p.at("y")))
	_, err = l.Commit(t.Context(), []place.Pending{w})
	must(t, err)
	if o := j.outcomes[2]; !o.Failed() || o.Err.Kind != transfer.KindWrongType || p.read(t, "x") != "content of x" {
		t.Errorf("a link meanwhile: %+v", o)
	}
	if left := p.own(); left != nil {
		t.Errorf("left: %v", left)
	}
}

// Several transfers append to one file at once: all of them begin before any of them ends.
func testAppendAtOnce(t *testing.T, p *Place) {
	f := p.open(t)
	const many = 6
	var parts []string
	errs := make(chan error, many)
	for n := range many {
		j := newLedger()
		l := p.land(t, f, j, anotherTransfer(byte(n+1), appending))
		part := strings.Repeat(string(rune('a'+n)), 1000+n)
		w, err := write(l, 1, "log", []byte(part))
		must(t, err)
		parts = append(parts, part)
		go func() {
			_, err := l.Commit(t.Context(), []place.Pending{w})
			if o := j.outcomes[1]; err == nil && !o.OK() {
				err = o.Err
			}
			errs <- err
		}()
	}
	for range many {
		if err := <-errs; err != nil && !errors.As(err, new(*place.AgainError)) {
			t.Error(err)
		} else if err != nil {
			t.Error("one that has the name to itself begins again: ", err)
		}
	}

	got := p.read(t, "log")
	for _, part := range parts {
		if strings.Count(got, part) != 1 {
			t.Errorf("%d bytes of %q... are not there once", len(part), part[:1])
		}
	}
	if len(got) != many*1000+15 {
		t.Errorf("%d bytes", len(got))
	}
	if left := p.own(); left != nil {
		t.Errorf("left: %v", left)
	}
}

// Other programs change the file just before it is replaced: the item begins again, and none of their data is lost.
func testAppendChanging(t *testing.T, p *Place) {
	for name, others := range map[string]func(at string) error{
		"longer": func(at string) error { return p.WriteFile(p.at(at), []byte("base and more")) },
		"replaced": func(at string) error {
			return errors.Join(p.WriteFile(p.at("new"), []byte("base")), p.Move(p.at("new"), at))
		},
		"removed": func(at string) error { return p.Remove(p.at(at)) },
		"mode":    func(at string) error { return p.Chmod(p.at(at), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			must(t, p.WriteFile(p.at(name), []byte("base")))
			var want string
			j := newLedger()
			j.before = func() {
				must(t, others(name))
				if b, err := p.ReadFile(p.at(name)); err == nil {
					want = string(b)
				}
			}
			l := p.land(t, p.open(t), j, appending)
			w, err := write(l, 1, name, []byte(" and new data"))
			must(t, err)
			_, err = l.Commit(t.Context(), []place.Pending{w})
			if !errors.As(err, new(*place.AgainError)) || transfer.KindOf(err) != transfer.KindChanging || len(j.outcomes)+len(j.committing) > 0 {
				t.Fatalf("%v, %+v", err, j.outcomes)
			}
			if got, _ := p.ReadFile(p.at(name)); string(got) != want {
				t.Errorf("%q, not %q", got, want)
			}
			j.before = nil
			if o := landOne(t, l, j, 1, name, " and new data", 5); !o.OK() || p.read(t, name) != want+" and new data" {
				t.Errorf("%+v, %q", o, p.read(t, name))
			}
		})
	}

	// Another program makes the file after the item found none.
	j := newLedger()
	j.before = func() { must(t, p.WriteFile(p.at("fresh"), []byte("theirs"))) }
	l := p.land(t, p.open(t), j, appending)
	w, err := write(l, 1, "fresh", []byte("ours"))
	must(t, err)
	if _, err = l.Commit(t.Context(), []place.Pending{w}); !errors.As(err, new(*place.AgainError)) || p.read(t, "fresh") != "theirs" {
		t.Errorf("%v, %q", err, p.read(t, "fresh"))
	}
	if left := p.own(); left != nil {
		t.Errorf("left: %v", left)
	}
}

// A sidecar gives the attributes of a file's records: records of another kind are not appended.
func testAppendRecords(t *testing.T, p *Place) {
	const fixed, variable = `{"v":1,"recfm":"FB","lrecl":4,"blksize":400,"encoding":"IBM-1047"}` + "\n", `{"v":1,"recfm":"VB","lrecl":255,"blksize":27998}` + "\n"
	f, j := p.open(t), newLedger()
	l := p.land(t, f, j, appending)
	item := uint64(0)
	land := func(name string, sidecar []byte) transfer.Outcome {
		item++
		w, err := write(l, item, name, []byte("rec1"))
		must(t, err)
		if sidecar != nil {
			w.Part.(*land.Partial).Sidecar = &intent.Sidecar{Data: sidecar}
		}
		_, err = l.Commit(t.Context(), []place.Pending{w})
		must(t, err)
		return j.outcomes[item]
	}

	if o := land("x", []byte(fixed)); !o.OK() {
		t.Fatalf("%+v", o)
	}
	if o := land("x", []byte(fixed)); !o.OK() || p.read(t, "x") != "rec1rec1" || p.read(t, record.SidecarName("x")) != fixed {
		t.Errorf("the same records: %+v, %q", o, p.read(t, "x"))
	}
	for _, sidecar := range [][]byte{nil, []byte(variable)} {
		o := land("x", sidecar)
		if o.OK() || o.Err.Kind != transfer.KindExists || !strings.Contains(o.Err.Text, "FB") || !strings.Contains(o.Err.Text, "IBM-1047") {
			t.Errorf("other records, %q: %+v", sidecar, o)
		}
		if p.read(t, "x") != "rec1rec1" || p.read(t, record.SidecarName("x")) != fixed {
			t.Errorf("%q, %q", p.read(t, "x"), p.read(t, record.SidecarName("x")))
		}
	}

	must(t, p.WriteFile(p.at("plain"), []byte("no records")))
	if o := land("plain", []byte(variable)); o.OK() || o.Err.Kind != transfer.KindExists || !strings.Contains(o.Err.Text, "no records") || p.exists(record.SidecarName("plain")) {
		t.Errorf("records to a file that has none: %+v", o)
	}
	if left := p.own(); len(left) != 1 || left[0] != record.SidecarName("x") {
		t.Errorf("left: %v", left)
	}
}
