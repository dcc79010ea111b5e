package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/automation/duty/dutytest"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func request() *transfer.Request {
	return &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Unix(1_700_000_000, 0)), Originator: transfer.Originator{User: "ann", Host: "box"},
		Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsAt(transfer.Match("out/${day}/*.csv"), transfer.File("fixed\xff")), Dest: transfer.File("in/${customer}/"), Job: "for ${customer}", Meta: map[string]string{"day": "${day}$${day}"}}
}

func made(t testing.TB) *Template {
	t.Helper()
	tm, err := New("daily", request(), []string{"day=today"})
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

// A template is filled in with the given values, and with its defaults.
func TestFill(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want string // source, destination, job and metadata
		kind transfer.Kind
	}{
		{map[string]string{"customer": "acme"}, "out/today/*.csv in/acme/ for acme today${day}", 0},
		{map[string]string{"customer": "a ${day}", "day": ""}, "out//*.csv in/a ${day}/ for a ${day} ${day}", 0},
		{map[string]string{"day": "1"}, "", transfer.KindUsage},
		{nil, "", transfer.KindUsage},
		{map[string]string{"customer": "acme", "Day": "1"}, "", transfer.KindUsage},
		{map[string]string{"customer": "\x00"}, "", transfer.KindUsage},
	} {
		q, err := made(t).Fill(c.set)
		if transfer.KindOf(err) != c.kind {
			t.Errorf("%v: %v", c.set, err)
		}
		if err != nil {
			continue
		}
		if got := fmt.Sprintf("%s %s %s %s", string(q.Items[0].Source.Path), string(q.Dest.Path), q.Job, q.Meta["day"]); got != c.want {
			t.Errorf("%v: %s, not %s", c.set, got, c.want)
		}
		if q.Items[1].Source != transfer.File("fixed\xff") || !q.ID.IsZero() || q.Originator.User != "" {
			t.Errorf("the request is %+v", q)
		}
	}
	_, err := made(t).Fill(nil)
	if err == nil || !strings.Contains(err.Error(), "template daily needs customer, which has no default; give --set customer=") {
		t.Errorf("nothing is given: %v", err)
	}
	_, err = made(t).Fill(map[string]string{"x": "1"})
	if err == nil || !strings.Contains(err.Error(), `template daily has no parameter "x"; it has day, customer`) {
		t.Errorf("something else is given: %v", err)
	}
}

// Arguments of programs have parameters, and variables of the transfer, which stay.
func TestArgumentsOfPrograms(t *testing.T) {
	q := request()
	q.Programs = &transfer.Programs{PostSource: &transfer.Program{Name: "load", Args: []string{"${who}${State}", "${Bytes}", "$${who}"}}}
	tm, err := New("daily", q, []string{"day=today"})
	if err != nil || tm.param("who") == nil || tm.param("State") != nil || tm.param("Bytes") != nil {
		t.Fatalf("%+v, %v", tm, err)
	}
	r, err := tm.Fill(map[string]string{"who": "$(id) ${day}$", "customer": "acme"})
	if want := []string{"$(id) $${day}${Dollar}${State}", "${Bytes}", "$${who}"}; err != nil || !slices.Equal(r.Programs.PostSource.Args, want) {
		t.Errorf("%q, %v", r.Programs.PostSource.Args, err)
	}
	q.Programs.PostSource.Args = []string{"${Files}"}
	if tm, err = New("daily", q, []string{"day=today", "Files"}); err != nil || tm.param("Files") == nil {
		t.Errorf("a parameter that is called as a variable of the transfer: %v", err)
	}
}

// An exported template is read as the same template, with any bytes in its paths.
func TestExport(t *testing.T) {
	one := made(t)
	one.Principal, one.Made, one.Schedule = "ann", time.Now(), &Later{At: "22:30", Every: "1d", Count: 3, Zone: "UTC"}
	text, err := one.Export()
	if err != nil {
		t.Fatal(err)
	}
	two, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if two.Schedule == nil || *two.Schedule != *one.Schedule {
		t.Errorf("the schedule is %+v", two.Schedule)
	}
	if two.Principal != "" || !two.Made.IsZero() || strings.Contains(string(text), "submitted") {
		t.Errorf("exported is %s", text)
	}
	again, err := two.Export()
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("exported again it is %s, %v", again, err)
	}
	q, err := two.Fill(map[string]string{"customer": "acme"})
	if err != nil || q.Items[1].Source != transfer.File("fixed\xff") || q.Dest != transfer.File("in/acme/") {
		t.Errorf("filled in it is %+v, %v", q, err)
	}
}

func TestRefused(t *testing.T) {
	for what, c := range map[string]struct {
		name   string
		params []string
		change func(q *transfer.Request)
	}{
		"a name":                    {name: "a/b"},
		"no name":                   {name: ""},
		"a parameter's name":        {name: "a", params: []string{"a b=1"}},
		"twice":                     {name: "a", params: []string{"day=1", "day"}},
		"unused":                    {name: "a", params: []string{"nothing=1"}},
		"a default with a NUL":      {name: "a", params: []string{"day=\x00"}},
		"a default that is no text": {name: "a", params: []string{"day=\xff"}},
		"a long default":            {name: "a", params: []string{"day=" + strings.Repeat("x", maxDefault+1)}},
		"a variable without an end": {name: "a", change: func(q *transfer.Request) { q.Dest = transfer.File("in/${customer") }},
		"a form":                    {name: "a", change: func(q *transfer.Request) { q.Dest = transfer.File("in/${customer{toUpper}}") }},
		"no source":                 {name: "a", change: func(q *transfer.Request) { q.Items = nil }},
		"a retry":                   {name: "a", change: func(q *transfer.Request) { q.Retry = &transfer.Retry{} }},
	} {
		q := request()
		if c.change != nil {
			c.change(q)
		}
		if _, err := New(c.name, q, c.params); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%s: %v", what, err)
		}
	}
	many := request()
	for n := range maxParams + 1 {
		many.Items = append(many.Items, transfer.RequestItem{Source: transfer.File(transfer.Path(fmt.Sprintf("${p%d}", n)))})
	}
	if _, err := New("a", many, nil); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("many parameters: %v", err)
	}
	if _, err := Parse(bytes.Repeat([]byte(" "), MaxSize+1)); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("a large template: %v", err)
	}
	for _, set := range [][]string{{"a"}, {"=1"}, {"a=1", "a=2"}} {
		if _, err := ParseSet(set); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("--set %q: %v", set, err)
		}
	}
}

// A template that Parse accepts can be exported, read again, and is refused or filled in.
func FuzzParse(f *testing.F) {
	text, err := made(f).Export()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, "acme")
	f.Add([]byte(`{"v":2,"name":"a","params":[{"name":"x"}],"request":{"v":3,"source":"ALPHA","destination":"BETA","items":[{"source":"${x}"}],"dest":"b"}}`), "")
	f.Add([]byte(`{"v":2,"name":"a","request":{"v":3,"source":"ALPHA","destination":"BETA","items":[{"source":"${"}],"dest":"b"}} `), "x")
	f.Add([]byte(`{"v":2}{`), "x")
	f.Fuzz(func(t *testing.T, data []byte, value string) {
		one, err := Parse(data)
		if err != nil {
			if transfer.KindOf(err) == transfer.KindInternal {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		text, err := one.Export()
		if err != nil {
			t.Fatal(err)
		}
		two, err := Parse(text)
		if err != nil {
			if transfer.KindOf(err) == transfer.KindTooLarge {
				return // it was written closer than Export does
			}
			t.Fatalf("%s, exported as %s: %v", data, text, err)
		}
		set := map[string]string{}
		for _, p := range two.Params {
			set[p.Name] = value
		}
		if q, err := two.Fill(set); err != nil {
			if k := transfer.KindOf(err); k != transfer.KindUsage && k != transfer.KindTooLarge {
				t.Errorf("%s: %v", text, err)
			}
		} else if len(q.Items) != len(one.Request.Items) {
			t.Errorf("%s: filled in it is %+v", text, q)
		}
	})
}

// A world is an agent with the duty of templates.
type world struct {
	*dutytest.Agent
	templates duty.Duty
}

func newWorld(t *testing.T) *world {
	w := &world{Agent: dutytest.New(t, time.Now())}
	w.start()
	return w
}

func (w *world) start() {
	var err error
	w.templates, err = NewDuty(w.Start())
	w.Must(err)
}

func (w *world) command(who string, kind wire.Kind, body any) error {
	_, err := w.Do(w.templates, who, time.Time{}, kind, body)
	return err
}

func (w *world) put(who string, t *Template, redefine bool) error {
	text, err := t.Export()
	w.Must(err)
	return w.command(who, CommandPut, Put{Template: text, Redefine: redefine})
}

func ask[T any](w *world, kind wire.Kind, body any) (v T, err error) {
	answer, err := w.templates.Questions()[kind].Answer(duty.Caller{Origin: word.Origin{Principal: "bob"}}, wire.Marshal(body))
	if err == nil {
		err = json.Unmarshal(wire.Marshal(answer), &v)
	}
	return v, err
}

// Templates survive a crash, each under one name. All principals see them, and their owners change them.
func TestTemplatesAreKept(t *testing.T) {
	w := newWorld(t)
	w.Denied["bob"] = "operate"
	refused := func(what string, err error, kind transfer.Kind) {
		t.Helper()
		if transfer.KindOf(err) != kind {
			t.Errorf("%s: %v, not %s", what, err, kind)
		}
	}
	refused("made", w.put("ann", made(t), false), transfer.KindNone)
	refused("made again", w.put("ann", made(t), false), transfer.KindConflict)
	w.start()
	got, err := ask[Template](w, AskGet, Named{Name: "daily"})
	refused("asked for", err, transfer.KindNone)
	if got.Principal != "ann" || got.Made.IsZero() || len(got.Params) != 2 || got.Request.Items[1].Source != transfer.File("fixed\xff") {
		t.Errorf("kept is %+v", got)
	}
	refused("bob makes it anew", w.put("bob", made(t), true), transfer.KindDenied)
	refused("bob removes it", w.command("bob", CommandRemove, Named{Name: "daily"}), transfer.KindDenied)
	refused("ann makes it anew", w.put("ann", made(t), true), transfer.KindNone)
	refused("an operator makes it anew", w.put("carol", made(t), true), transfer.KindNone)
	other := made(t)
	other.Request.Source = "GAMMA"
	refused("another agent's", w.put("ann", other, false), transfer.KindUsage)
	refused("no template", w.command("ann", CommandPut, Put{Template: json.RawMessage(`{"v":2}`)}), transfer.KindUsage)
	_, err = ask[Template](w, AskGet, Named{Name: "none"})
	refused("none", err, transfer.KindNotFound)
	refused("an operator removes it", w.command("ann", CommandRemove, Named{Name: "daily"}), transfer.KindNone)
	refused("it is gone", w.command("ann", CommandRemove, Named{Name: "daily"}), transfer.KindNotFound)
	if len(w.Notes) != 4 {
		t.Errorf("the audit has %d records, not 4", len(w.Notes))
	}
}

// A list comes in pages that a message has room for, and there is a limit.
func TestMany(t *testing.T) {
	w := newWorld(t)
	q := request()
	for n := range maxParams - 2 {
		q.Items = append(q.Items, transfer.RequestItem{Source: transfer.File(transfer.Path(fmt.Sprintf("${%064d}", n)))})
	}
	one, err := New("n", q, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range one.Params {
		long := strings.Repeat("\x01", 100)
		one.Params[n].Default = &long
	}
	for n := range MaxTemplates {
		one.Name = fmt.Sprintf("n%04d", n)
		if err := w.Ledger.Update(func(tx *ledger.Tx) error { return drawerOf(tx).Put(one.Name, wire.Marshal(one)) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.put("ann", made(t), false); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("one too many: %v", err)
	}
	listed := 0
	for page := (Page{}); ; {
		l, err := ask[Listed](w, AskList, page)
		if err != nil {
			t.Fatal(err)
		}
		if size := len(wire.Marshal(l)); size > wire.MaxControl*3/4 {
			t.Fatalf("a page has %d bytes", size)
		}
		listed += len(l.Templates)
		if !l.More {
			break
		}
		page.After = l.Templates[len(l.Templates)-1].Name
	}
	if listed != MaxTemplates {
		t.Errorf("%d are listed", listed)
	}
}
