package monitor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/transfer/transfertest"
)

// on returns the request of a definition for files of some names in /in.
func on(d *Definition, names ...string) (*transfer.Request, error) {
	s := sample()
	s.transfer, s.files = transfer.NewID(time.Now()), nil
	for _, name := range names {
		s.files = append(s.files, file{Found: place.Found{Path: transfer.Path("/in/" + name), Rel: transfer.Path(name)}})
	}
	q, err := d.request(s, nil)
	if err == nil {
		q.ID = s.transfer
		err = q.Check()
	}
	return q, err
}

// Each file is sent under exactly its name, for any characters in it.
func TestNamesOfFilesThatTrigger(t *testing.T) {
	for _, name := range transfertest.Hostile() {
		path, at := transfer.Path("/in/"+name), transfer.Path(name)
		q, err := on(files(), name)
		if err != nil || q.Items[0].Source != transfer.File(at) || q.Base != "in" || q.Dest != transfer.File("in/") {
			t.Errorf("%q: %+v, %v", name, q, err)
		}
		if slices.ContainsFunc(strings.Split(name, `\`), func(s string) bool { return s == "." || s == ".." }) {
			continue // it leads elsewhere on some hosts, and is refused
		}
		q, err = on(files(func(d *Definition) { d.Request.Dest = transfer.File("${FileName}") }), name)
		if err != nil || q.Items[0].Source != transfer.File(path) || q.Dest != transfer.File(at) {
			t.Errorf("%q to its name: %+v, %v", name, q, err)
		}
		q, err = on(files(func(d *Definition) {
			d.Request.Items[0].Source = transfer.Match("/in/${FileName{token=1}{separator=.}}*.dat")
		}), name)
		if token := tokensOf(name, "."); len(token) > 0 && len(name) < 250 && (err != nil || q.Items[0].Source != transfer.Match(transfer.Path("/in/"+transfer.Literally(token[0])+"*.dat"))) {
			t.Errorf("%q for its data: %+v, %v", name, q, err)
		}
	}
}

// A line of a trigger file that names a source and a destination gives exactly these paths, for any characters in them.
func TestNamesInATriggerFile(t *testing.T) {
	all := 0
	for _, how := range []TriggerFile{{Regex: `(.*)`}, {Regex: `(.*)>to>(.*)`, To: ToFile}} {
		f, err := how.form()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range transfertest.Hostile() {
			if strings.Contains(name, "\n") || strings.HasSuffix(name, "\r") || strings.TrimSpace(name) == "" {
				continue // no line of a text says it
			}
			all++
			text, want := name, transfer.RequestItem{Source: transfer.File(transfer.Path(name))}
			if how.To == ToFile {
				text, want.Dest = name+">to>"+name, want.Source
			}
			d := files(func(d *Definition) { d.TriggerFile, d.Request.Dest = &how, transfer.File("out/") })
			lines, err := f.lines([]byte("\r\n" + text + "\r\n"))
			if err != nil || len(lines) != 1 {
				t.Errorf("%q: %v, %v", name, lines, err)
				continue
			}
			s := sample()
			s.transfer = transfer.NewID(time.Now())
			q, err := d.request(s, lines)
			if err != nil || len(q.Items) != 1 || q.Items[0] != want {
				t.Errorf("%q became %+v, %v", name, q, err)
			}
		}
	}
	if all < 500 {
		t.Errorf("only %d lines were read", all)
	}
}

// A name cannot select other files than its own, nor lead out of the directory of the destination.
func TestNamesThatReachFurther(t *testing.T) {
	all, err := on(files(func(d *Definition) {
		d.Request.Items[0].Source = transfer.File("in/${FileName{token=1}{separator=.}}.dat")
	}), "*.trg")
	if err != nil || all.Items[0].Source != transfer.File("in/*.dat") {
		t.Errorf("the data of *.trg are %+v, %v", all, err)
	}
	out := files(func(d *Definition) { d.Request.Dest = transfer.File("out/${FileName{token=2}{separator=_}}/x") })
	if q, err := on(out, "a_.._x"); err == nil || !strings.Contains(err.Error(), "leads to another directory") {
		t.Errorf("a_.._x goes to %+v, %v", q, err)
	}
	s := sample()
	s.defaults = map[string]string{"where": "a/b"}
	if v, err := s.path("where", nil); err == nil || !strings.Contains(err.Error(), "only FilePath and SubPath") {
		t.Errorf("a value with a separator is %s, %v", v, err)
	}
	when := files(func(d *Definition) { d.Request.Dest = transfer.File("out/${CurrentTimeStampUTC{format=yyyy/MM}}/x") })
	if q, err := on(when, "f"); err != nil || strings.Count(string(q.Dest.Path), "/") != 3 {
		t.Errorf("a time goes to %+v, %v", q, err)
	}
}

// If a file has no valid request, the other files of its batch are sent.
func TestBatchWithANameThatIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for _, name := range []string{"a_b_c", "a_.._x", "d_e_f"} {
			b.write("in/"+name, "content")
		}
		b.create(files(func(d *Definition) {
			d.Batch, d.Request.Dest = 10, transfer.File("out/${FileName{token=2}{separator=_}}/${FileName}")
		}), false)
		pass(3 * time.Second)
		sent := b.sent()
		if len(sent) != 2 || sent[b.path("in/a_b_c")] != 1 || sent[b.path("in/d_e_f")] != 1 {
			t.Errorf("%v were sent", sent)
		}
		if m := b.shown(); m.Refused != 1 || m.Triggers != 2 {
			t.Errorf("%d of %d triggers are refused", m.Refused, m.Triggers)
		}
	})
}
