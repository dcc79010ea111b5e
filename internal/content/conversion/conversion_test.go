package conversion

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"ferry/internal/content/codepage"
	"ferry/internal/content/record"
	"ferry/internal/transfer"
)

// request returns a request with the given content, in text mode if it has pages.
func request(text bool, c transfer.Content) *transfer.Request {
	q := &transfer.Request{Dest: transfer.File("/x"), Options: transfer.Options{Content: c}}
	if text {
		q.Mode = transfer.ModeText
	}
	return q
}

func fb(lrecl int) transfer.Records { return transfer.Records{RECFM: "FB", LRECL: lrecl} }
func vb(lrecl int) transfer.Records { return transfer.Records{RECFM: "VB", LRECL: lrecl} }

// kinds has every kind of conversion, each with a source of its own.
var kinds = []struct {
	name    string
	text    bool
	content transfer.Content
	source  string // in UTF-8, or bytes as they are where from is empty
	from    string
}{
	{"bytes to fixed", false, transfer.Content{ToRecords: fb(80)}, strings.Repeat("0123456789", 33), ""},
	{"bytes to variable", false, transfer.Content{ToRecords: vb(84)}, strings.Repeat("0123456789", 33), ""},
	{"variable to bytes", false, transfer.Content{FromRecords: transfer.Records{RECFM: "V", LRECL: 20}}, "\x00\x07\x00\x00abc\x00\x04\x00\x00\x00\x06\x00\x00de", ""},
	{"variable to fixed", false, transfer.Content{FromRecords: transfer.Records{RECFM: "V", LRECL: 20}, ToRecords: fb(5)}, "\x00\x07\x00\x00abc\x00\x04\x00\x00\x00\x06\x00\x00de", ""},
	{"UTF-8 to EBCDIC", true, transfer.Content{ToEncoding: "IBM-1047"}, "Größe, naïve\r\nzweite\nletzte\r", "UTF-8"},
	{"EBCDIC to UTF-8", true, transfer.Content{FromEncoding: "IBM-1141"}, "Größe €\nzwei\n\nvier", "IBM-1141"},
	{"UTF-16 to UTF-8 with CR LF", true, transfer.Content{FromEncoding: "UTF-16LE", EOL: "crlf"}, "a\nb𝄞c\r\nd", "UTF-16LE"},
	{"double bytes to UTF-8", true, transfer.Content{FromEncoding: "IBM-939"}, "ｱ漢字とABC\n仮名\n", "IBM-939"},
	{"one page, LF", true, transfer.Content{EOL: "lf"}, "a\r\nb\rc\nd\r\r\ne\r", "UTF-8"},
	{"one page, CR LF", true, transfer.Content{EOL: "crlf"}, "a\r\nb\rc\nd\r\r\ne\n\nf", "UTF-8"},
	{"one EBCDIC page", true, transfer.Content{FromEncoding: "IBM-037", ToEncoding: "037"}, "a\r\nb\rc\nd\u0085e", "IBM-037"},
	{"text to fixed", true, transfer.Content{ToEncoding: "IBM-1047", ToRecords: fb(10)}, "one\ntwo\n\na line that is longer than ten\nlast", "UTF-8"},
	{"text to variable", true, transfer.Content{ToEncoding: "IBM-1047", ToRecords: vb(30)}, "one\r\ntwo\r\n\r\nthree", "UTF-8"},
	{"text to printer", true, transfer.Content{ToEncoding: "IBM-1047", ToRecords: transfer.Records{RECFM: "VBA", LRECL: 30}}, "one\n\ntwo\f\nthree\n", "UTF-8"},
	{"fixed to text", true, transfer.Content{FromEncoding: "IBM-1047", FromRecords: fb(5)}, "one  two  fiver", "IBM-1047"},
	{"fixed to fixed", true, transfer.Content{FromEncoding: "IBM-1047", FromRecords: fb(5), ToRecords: fb(3)}, "one  two  fiver", "IBM-1047"},
}

func source(t testing.TB, text, page string) []byte {
	t.Helper()
	if page == "" {
		return []byte(text)
	}
	p, err := codepage.Lookup(page)
	if err != nil {
		t.Fatal(err)
	}
	utf8, _ := codepage.Lookup("UTF-8")
	c, err := codepage.New(codepage.Options{From: utf8, To: p, FromEOL: codepage.Keep, ToEOL: codepage.Keep})
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Convert(nil, []byte(text))
	if err == nil {
		b, err = c.Finish(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func plan(t testing.TB, q *transfer.Request) *Plan {
	t.Helper()
	if err := Check(q); err != nil {
		t.Fatal(err)
	}
	d := &Defaults{EOL: "lf"}
	p, err := d.Plan(&q.Options, d.Form(nil, false), Target{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run converts a source in pieces that end at the given places. If resume is set, each piece is resumed from the state
// after the one before.
func run(t testing.TB, p *Plan, src []byte, resume bool, cuts ...int) (out []byte, err error) {
	t.Helper()
	l, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	next := func(b []byte) error { out = append(out, b...); return nil }
	at := 0
	for _, c := range append(cuts, len(src)) {
		if err := l.Write(src[at:c], next); err != nil {
			return out, err
		}
		if at = c; resume {
			state, err := l.State()
			if err != nil {
				t.Fatal(err)
			}
			if len(state) > MaxState {
				t.Fatalf("a state of %d bytes", len(state))
			}
			if l, err = p.Resume(state); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out, l.Finish(next)
}

func TestCutAndResumedAnywhereGivesTheSame(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			src, p := source(t, k.source, k.from), plan(t, request(k.text, k.content))
			want, err := run(t, p, src, false)
			if err != nil || len(want) == 0 {
				t.Fatal(want, err)
			}
			for cut := range len(src) + 1 {
				for _, resume := range []bool{false, true} {
					if got, err := run(t, p, src, resume, cut); err != nil || !bytes.Equal(got, want) {
						t.Fatalf("cut at %d (resumed: %v) it becomes\n%q, %v, not\n%q", cut, resume, got, err, want)
					}
				}
			}
			every := make([]int, len(src))
			for i := range every {
				every[i] = i
			}
			if got, err := run(t, p, src, true, every...); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("byte by byte it becomes %q, %v, not %q", got, err, want)
			}
		})
	}
}

// Files that are converted one after another and at the same time reuse each other's memory, and see none of its old
// contents.
func TestMemoryIsUsedAgain(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		src, p := source(t, k.source, k.from), plan(t, request(k.text, k.content))
		if strings.HasPrefix(k.name, "variable") || strings.HasPrefix(k.name, "fixed") {
			src = bytes.Repeat(src, 2*piece/len(src)/20*20) // whole records
		} else {
			src = bytes.Repeat(src, 2*piece/len(src))
		}
		want, err := run(t, p, src, false)
		if err != nil {
			t.Fatal(k.name, err)
		}
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() {
				l, err := p.Start()
				if err != nil {
					t.Error(err)
					return
				}
				defer l.Release()
				var got []byte
				next := func(b []byte) error { got = append(got, b...); return nil }
				if n%2 == 1 { // it ends in the middle, and everything of it is given back
					if err := l.Write(src[:len(src)/2], next); err != nil {
						t.Error(err)
					}
					return
				}
				if err = l.Write(src, next); err == nil {
					err = l.Finish(next)
				}
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: beside others it becomes %d bytes, %v, not the %d that it should", k.name, len(got), err, len(want))
				}
			})
		}
		all.Wait()
	}
}

func TestWhatBecomesOfText(t *testing.T) {
	for name, want := range map[string]string{
		"bytes to fixed":             strings.Repeat("0123456789", 33),
		"variable to bytes":          "abcde",
		"variable to fixed":          "abc\x00\x00\x00\x00\x00\x00\x00de\x00\x00\x00",
		"EBCDIC to UTF-8":            "Größe €\nzwei\n\nvier",
		"UTF-16 to UTF-8 with CR LF": "a\r\nb𝄞c\r\nd",
		"double bytes to UTF-8":      "ｱ漢字とABC\n仮名\n",
		"one page, LF":               "a\nb\rc\nd\r\ne\r",
		"one page, CR LF":            "a\r\nb\rc\r\nd\r\r\ne\r\n\r\nf",
		"one EBCDIC page":            string(source(t, "a\u0085b\rc\u0085d\u0085e", "IBM-037")),
		"text to fixed":              string(source(t, "one       "+"two       "+"          "+"a line tha"+"t is longe"+"r than ten"+"last      ", "IBM-1047")),
		"fixed to text":              "one\ntwo\nfiver\n",
		"fixed to fixed":             "onetwofiver ",
	} {
		for _, k := range kinds {
			if k.name != name {
				continue
			}
			got, err := run(t, plan(t, request(k.text, k.content)), source(t, k.source, k.from), false)
			if err != nil || string(got) != want {
				t.Errorf("%s: %q, %v; want %q", name, got, err, want)
			}
		}
	}
}

// A line of characters of two bytes is wrapped into records of a page that shifts. Each of the records begins and ends
// shifted in.
func TestEachRecordIsShiftedIn(t *testing.T) {
	const lrecl, text = 10, "日本語の長い行は切られる\nab日本cd\n"
	got, err := run(t, plan(t, request(true, transfer.Content{ToEncoding: "IBM-939", ToRecords: fb(lrecl)})), []byte(text), false)
	if err != nil || len(got) == 0 || len(got)%lrecl != 0 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for n := 0; n < len(got); n += lrecl {
		rec := got[n : n+lrecl]
		if out, in := bytes.Count(rec, []byte{0x0e}), bytes.Count(rec, []byte{0x0f}); out == 0 || out != in || bytes.LastIndexByte(rec, 0x0f) < bytes.LastIndexByte(rec, 0x0e) {
			t.Errorf("record %d is % x", n/lrecl+1, rec)
		}
	}
	back, err := run(t, plan(t, request(true, transfer.Content{FromEncoding: "IBM-939", FromRecords: fb(lrecl)})), got, false)
	if want := strings.ReplaceAll(text, "\n", ""); err != nil || strings.ReplaceAll(string(back), "\n", "") != want {
		t.Errorf("it is read as %q, %v", back, err)
	}
}

// The step for line ends works on bytes; the converter, which knows characters, must agree.
func TestLineEndsAreThoseOfTheConverter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"UTF-8", "ISO-8859-1", "Shift_JIS", "GB18030", "IBM-1047", "IBM-939"} {
		p, err := codepage.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, eol := range []codepage.EOL{codepage.Default, codepage.LF, codepage.CRLF, codepage.NL} {
			o := codepage.Options{From: p, To: p, ToEOL: eol}
			s := lineEnds(&o)
			if s == nil {
				continue
			}
			for range 300 {
				src := source(t, someText(r), name)
				c, err := codepage.New(o)
				if err != nil {
					t.Fatal(err)
				}
				want, err := c.Convert(nil, src)
				if err == nil {
					want, err = c.Finish(want)
				}
				if err != nil {
					t.Fatal(err)
				}
				var got []byte
				next := func(b []byte) error { got = append(got, b...); return nil }
				s := lineEnds(&o)
				cut := r.IntN(len(src) + 1)
				if s.unchanged(src) && len(src) > 0 && !bytes.Equal(want, src) {
					t.Fatalf("%s %s: %q is said to pass as it is", name, eol, src)
				}
				if err := errors.Join(s.write(src[:cut], next), s.write(src[cut:], next), s.finish(next)); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%s %s: %q becomes %q, %v, not %q", name, eol, src, got, err, want)
				}
			}
		}
	}
}

func someText(r *rand.Rand) string {
	var s strings.Builder
	for range r.IntN(30) {
		s.WriteString([]string{"a", "B", " ", "\r", "\n", "\r\n", "\r\r\n", "x"}[r.IntN(8)])
	}
	return s.String()
}

// Clean text is not converted. Text after the first change is.
func TestCleanUntilTheFirstChange(t *testing.T) {
	p := plan(t, request(true, transfer.Content{EOL: "lf"}))
	l, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	if !l.Clean([]byte("a\nb"), false) || !l.Clean([]byte("\nc"), false) {
		t.Error("text without a CR is said to change")
	}
	if l.Clean([]byte("d\r"), false) {
		t.Error("text with a CR is said not to change")
	}
	if l.Clean([]byte("e"), false) {
		t.Error("what follows the first change is said not to change")
	}
	to1047 := plan(t, request(true, transfer.Content{ToEncoding: "IBM-1047"}))
	if l, _ := to1047.Start(); l.Clean([]byte("a"), false) {
		t.Error("another code page is said to change nothing")
	}
}

// Text without the suspects is clean, and needs no further check. After a change there are no suspects.
func TestSuspects(t *testing.T) {
	for eol, want := range map[string]Pair{"lf": {'\r', '\r'}, "crlf": {'\r', '\n'}} {
		l, err := plan(t, request(true, transfer.Content{EOL: eol})).Start()
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := l.Suspects(); !ok || p != want {
			t.Errorf("%s: the suspects are %q, %v; want %q", eol, p, ok, want)
		}
		if text := []byte("no line ends"); want.In(text) || !l.Clean(text, true) {
			t.Errorf("%s: %q is said to change", eol, text)
		}
		if text := []byte("a\r\nb\nc"); !want.In(text) || l.Clean(text, false) {
			t.Errorf("%s: %q is said not to change", eol, text)
		}
		if p, ok := l.Suspects(); ok {
			t.Errorf("%s: after the first change there are suspects, %q", eol, p)
		}
	}
	l, _ := plan(t, request(true, transfer.Content{ToEncoding: "IBM-1047"})).Start()
	if p, ok := l.Suspects(); ok {
		t.Errorf("another code page has suspects, %q", p)
	}
}

// A few bytes can become very many, and these must not all be in memory.
func TestMemoryIsBounded(t *testing.T) {
	p := plan(t, request(true, transfer.Content{ToEncoding: "IBM-1047", ToRecords: fb(32760)}))
	l, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	var given int64
	most := 0
	next := func(b []byte) error { given += int64(len(b)); most = max(most, len(b)); return nil }
	if err := errors.Join(l.Write(bytes.Repeat([]byte("\n"), 3_000), next), l.Finish(next)); err != nil {
		t.Fatal(err)
	}
	if given != 3_000*32760 || most > 1<<20 {
		t.Errorf("%d bytes, up to %d at once", given, most)
	}
	if n := l.Stats().Records; n != 3_000 {
		t.Errorf("%d records", n)
	}
}

func TestStatesOfOthersAreRefused(t *testing.T) {
	var states [][]byte
	var plans []*Plan
	for _, k := range kinds {
		p := plan(t, request(k.text, k.content))
		l, err := p.Start()
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.State()
		if err != nil {
			t.Fatal(err)
		}
		states, plans = append(states, s), append(plans, p)
	}
	for i, p := range plans {
		for _, s := range [][]byte{nil, {1}, {9, 1, 0}, states[i][:len(states[i])-1], append(bytes.Clone(states[i]), 0)} {
			if _, err := p.Resume(s); err == nil {
				t.Errorf("%s takes the state %x", kinds[i].name, s)
			}
		}
		for j := range plans {
			if i != j && plans[i].String() == plans[j].String() {
				t.Errorf("%s and %s have one name", kinds[i].name, kinds[j].name)
			}
		}
	}
}

func FuzzResume(f *testing.F) {
	for i := range kinds {
		p := plan(f, request(kinds[i].text, kinds[i].content))
		l, err := p.Start()
		if err != nil {
			f.Fatal(err)
		}
		s, _ := l.State()
		f.Add(uint8(i), s, []byte("some text\n"))
	}
	f.Fuzz(func(t *testing.T, k uint8, state, src []byte) {
		kind := kinds[int(k)%len(kinds)]
		l, err := plan(t, request(kind.text, kind.content)).Resume(state)
		if err != nil {
			return
		}
		n := 0
		next := func(b []byte) error { n += len(b); return nil }
		if l.Write(src, next) == nil {
			l.Finish(next)
		}
		if n > (len(src)+2)*3*record.MaxLRECL {
			t.Errorf("%d bytes become %d", len(src), n)
		}
	})
}

// The request overrides known properties, and those override the defaults.
func TestWhatWeighsMore(t *testing.T) {
	side := &transfer.Form{Records: transfer.Records{RECFM: "FB", LRECL: 80, BLKSIZE: 800}, Encoding: "IBM-273"}
	for _, c := range []struct {
		name   string
		q      *transfer.Request
		beside *transfer.Form
		source bool // a data set
		target Target
		want   string
	}{
		{"the agents' defaults", request(true, transfer.Content{}), nil, false, Target{}, `text UTF-8 ISO-8859-15 lf "" [] [] wrap`},
		{"what is beside the source", request(true, transfer.Content{}), side, false, Target{}, `text IBM-273 ISO-8859-15 lf "" [RECFM(FB),LRECL(80),BLKSIZE(800)] [] wrap`},
		{"what is said of the source", request(true, transfer.Content{FromEncoding: "37", FromRecords: fb(10)}), side, false, Target{},
			`text IBM-037 ISO-8859-15 lf "" [RECFM(FB),LRECL(10),BLKSIZE(27990)] [] wrap`},
		{"a data set of which nothing is known", request(true, transfer.Content{ToRecords: fb(10)}), nil, true, Target{Dataset: true},
			`text IBM-1047 IBM-1047 default "" [] [RECFM(FB),LRECL(10),BLKSIZE(27990)] wrap`},
		{"the data set that is there", request(true, transfer.Content{}), nil, false, Target{Dataset: true, Known: side},
			`text UTF-8 IBM-273 default "" [] [RECFM(FB),LRECL(80),BLKSIZE(800)] wrap`},
		{"what is said of the data set", request(true, transfer.Content{ToEncoding: "500", ToRecords: vb(84), LongLines: "fail", KeepBlanks: true}), nil, false,
			Target{Dataset: true, Known: side}, `text UTF-8 IBM-500 default "" [] [RECFM(VB),LRECL(84),BLKSIZE(27998)] fail kept`},
		{"the source's records", request(false, transfer.Content{}), side, true, Target{Dataset: true},
			`binary [RECFM(FB),LRECL(80),BLKSIZE(800)] [RECFM(FB),LRECL(80),BLKSIZE(800)] wrap`},
		{"EBCDIC bytes", request(true, transfer.Content{ToEncoding: "1047"}), nil, false, Target{}, `text UTF-8 IBM-1047 default "" [] [] wrap`},
		{"a line end", request(true, transfer.Content{ToEncoding: "1047", EOL: "lf"}), nil, false, Target{}, `text UTF-8 IBM-1047 lf "" [] [] wrap`},
	} {
		from, to := &Defaults{EOL: "lf"}, &Defaults{Encoding: "ISO-8859-15", EOL: "lf"}
		p, err := to.Plan(&c.q.Options, from.Form(c.beside, c.source), c.target)
		if err != nil || p.String() != c.want {
			t.Errorf("%s:\n%s, %v; want\n%s", c.name, p, err, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		q    *transfer.Request
		want string
	}{
		{request(true, transfer.Content{ToEncoding: "IBM-1074"}), "IBM-1047"},
		{request(true, transfer.Content{FromEncoding: "UTF-9"}), "UTF-8"},
		{request(true, transfer.Content{ToEncoding: "UTF-16", ToRecords: fb(80)}), "records cannot be kept in code page UTF-16"},
		{request(true, transfer.Content{ToEncoding: "ISO-2022-JP", ToRecords: fb(80)}), "records cannot be written in code page"},
		{request(true, transfer.Content{EOL: "cr"}), "cr"},
		{request(true, transfer.Content{EOL: "lf", ToRecords: fb(80)}), "--eol"},
		{request(true, transfer.Content{ToEncoding: "IBM-1047", Replace: "€"}), "€"},
		{request(false, transfer.Content{ToRecords: transfer.Records{LRECL: 80}}), "--recfm"},
		{request(false, transfer.Content{ToRecords: fb(32761)}), "32,760"},
		{request(false, transfer.Content{ToRecords: transfer.Records{RECFM: "FB", LRECL: 80, BLKSIZE: 100}}), "BLKSIZE"},
		{request(false, transfer.Content{FromRecords: transfer.Records{RECFM: "VS", LRECL: 80}}), "VS"},
		{request(false, transfer.Content{LongLines: "fail"}), "--long-lines"},
	} {
		err := Check(c.q)
		if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%+v: %v; want %s in it", c.q.Content, err, c.want)
		}
	}
	d := &Defaults{}
	for _, err := range []error{(&Defaults{Encoding: "x"}).Check(), (&Defaults{EOL: "x"}).Check()} {
		if transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("an agent's defaults: %v", err)
		}
	}
	if _, err := d.Plan(&request(false, transfer.Content{}).Options, transfer.Form{}, Target{Dataset: true}); transfer.KindOf(err) != transfer.KindMalformed {
		t.Errorf("a data set without attributes: %v", err)
	}
	if _, err := d.Plan(&request(true, transfer.Content{}).Options, transfer.Form{Encoding: "no page"}, Target{}); err == nil {
		t.Error("a form from the wire with an unknown page is taken")
	}
	if _, err := d.Plan(&request(true, transfer.Content{}).Options, transfer.Form{Encoding: "UTF-8", Records: transfer.Records{RECFM: "FB", LRECL: -5}}, Target{}); err == nil {
		t.Error("a form from the wire with impossible records is taken")
	}
}

func BenchmarkLineEnds(b *testing.B) {
	src := bytes.Repeat([]byte("a line of text such as there are many of, with some eighty characters in all\n"), 3000)
	utf8, _ := codepage.Lookup("UTF-8")
	s := lineEnds(&codepage.Options{From: utf8, To: utf8, ToEOL: codepage.CRLF})
	for b.Loop() {
		if err := s.write(src, func([]byte) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(src)))
}

func dataset(name transfer.Path, r transfer.Records) transfer.Location {
	return transfer.Location{Place: transfer.Datasets, Path: name, Records: r}
}

// The attributes in a location of a data set apply to requests of every origin, and may be given only once.
func TestAttributesOfLocations(t *testing.T) {
	q := &transfer.Request{Dest: dataset("HLQ.NEW", fb(80)), Items: transfer.ItemsAt(dataset("HLQ.OLD", vb(84)), dataset("HLQ.OTHER", transfer.Records{}))}
	for range 2 { // a request that comes again has them already
		if err := TakeAttributes(q); err != nil || q.ToRecords != fb(80) || q.FromRecords != vb(84) {
			t.Fatalf("%+v, %+v, %v", q.FromRecords, q.ToRecords, err)
		}
	}
	q.ToRecords = fb(100)
	if err := TakeAttributes(q); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("attributes that contradict the flags: %v", err)
	}
	if err := TakeAttributes(&transfer.Request{Dest: dataset("NO GOOD", fb(80))}); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("a name that is none: %v", err)
	}
}

// A piece does not change while the pipeline makes the next one.
func TestPieceStaysUntilTheNextIsTaken(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			one := source(t, k.source, k.from)
			src := bytes.Repeat(one, 3<<20/len(one))
			l, err := plan(t, request(k.text, k.content)).Start()
			if err != nil {
				t.Fatal(err)
			}
			var last, was []byte
			pieces := 0
			next := func(b []byte) error {
				if !bytes.Equal(last, was) {
					t.Fatalf("piece %d was changed while piece %d was made", pieces, pieces+1)
				}
				last, was = b, bytes.Clone(b)
				pieces++
				return nil
			}
			for len(src) > 0 {
				n := min(len(src), 1<<20)
				if err := l.Write(src[:n], next); err != nil {
					t.Fatal(err)
				}
				last, was, src = nil, nil, src[n:]
			}
			if err := l.Finish(next); err != nil {
				t.Fatal(err)
			}
			if pieces < 3 {
				t.Errorf("%d pieces", pieces)
			}
		})
	}
}

// BenchmarkFiles converts files of 10 KiB and of 1 MiB, each from its beginning to
// its end, as the receiver does.
func BenchmarkFiles(b *testing.B) {
	c := transfer.Content{FromEncoding: "UTF-8", ToEncoding: "IBM-1047"}
	d := Defaults{}
	for _, size := range []int{10 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size>>10, " KiB"), func(b *testing.B) {
			data := bytes.Repeat([]byte("a line of text as there are many, 0123456789\n"), size/45)
			q := request(true, c)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				p, err := d.Plan(&q.Options, transfer.Form{}, Target{})
				if err != nil {
					b.Fatal(err)
				}
				l, err := p.Start()
				if err != nil {
					b.Fatal(err)
				}
				next := func([]byte) error { return nil }
				for at := 0; at < len(data); at += piece {
					if err := l.Write(data[at:min(at+piece, len(data))], next); err != nil {
						b.Fatal(err)
					}
				}
				if err := l.Finish(next); err != nil {
					b.Fatal(err)
				}
				l.Release()
			}
		})
	}
}
