package codepage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// page returns a page that must exist.
func page(t testing.TB, name string) *Page {
	t.Helper()
	p, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// converter returns a converter that must be possible.
func converter(t testing.TB, o Options) *Converter {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// all converts a text in one piece.
func all(t testing.TB, o Options, src []byte) ([]byte, error) {
	t.Helper()
	c := converter(t, o)
	dst, err := c.Convert(nil, src)
	if err == nil {
		dst, err = c.Finish(dst)
	}
	return dst, err
}

// must is all for a text without faults.
func must(t testing.TB, o Options, src []byte) []byte {
	t.Helper()
	dst, err := all(t, o, src)
	if err != nil {
		t.Fatalf("%s: %v", o.describe(), err)
	}
	return dst
}

func TestLineEnds(t *testing.T) {
	for _, c := range []struct {
		from, to  string
		fromEOL   EOL
		toEOL     EOL
		in, want  string
		line      int64
		wantError transfer.Kind
	}{
		{from: "UTF-8", to: "ISO-8859-1", in: "a\nb\r\nc", want: "a\nb\nc", line: 2},
		{from: "UTF-8", to: "UTF-8", toEOL: CRLF, in: "a\nb\r\nc\n", want: "a\r\nb\r\nc\r\n", line: 3},
		{from: "UTF-8", to: "UTF-8", in: "a\r\n\r\nb", want: "a\n\nb", line: 2},
		{from: "UTF-8", to: "UTF-8", in: "a\rb\r\r\nc\r", want: "a\rb\r\nc\r", line: 1},
		{from: "UTF-8", to: "UTF-8", toEOL: NL, in: "a\n", want: "a\u0085", line: 1},
		{from: "UTF-8", to: "UTF-8", in: "a\u0085b\n", want: "a\u0085b\n", line: 1},
		{from: "UTF-8", to: "UTF-8", fromEOL: NL, in: "a\u0085b\r\u0085", want: "a\nb\n", line: 2},
		{from: "UTF-8", to: "UTF-8", fromEOL: Keep, in: "a\r\nb\n\r", want: "a\r\nb\n\r", line: 0},
		{from: "UTF-8", to: "US-ASCII", fromEOL: Keep, in: "a\r\nb\n\r", want: "a\r\nb\n\r", line: 2},
		{from: "UTF-8", to: "IBM-1047", in: "a\nb\r\n", want: "\x81\x15\x82\x15", line: 2},
		{from: "UTF-8", to: "IBM-1047", in: "a\nb", want: "\x81\x15\x82", line: 1},
		{from: "UTF-8", to: "IBM-1047", toEOL: LF, in: "a\n", want: "\x81\x25", line: 1},
		{from: "UTF-8", to: "IBM-1047", toEOL: CRLF, in: "a\n", want: "\x81\x0d\x25", line: 1},
		{from: "UTF-8", to: "IBM-1047", in: "a\rb", want: "\x81\x0d\x82", line: 0},
		{from: "IBM-1047", to: "UTF-8", in: "\x81\x15\x82\x25\x83", want: "a\nb\nc", line: 2},
		{from: "IBM-1047", to: "UTF-8", in: "\x81\x0d\x15\x82\x0d\x25\x0d\x83\x0d", want: "a\nb\n\rc\r", line: 2},
		{from: "IBM-1047", to: "UTF-8", toEOL: CRLF, in: "\x81\x15\x82\x25", want: "a\r\nb\r\n", line: 2},
		{from: "IBM-1047", to: "UTF-8", fromEOL: Keep, in: "\x15\x25\x0d", want: "\u0085\n\r", line: 2},
		{from: "IBM-1047", to: "IBM-037", in: "\x81\x25\xad", want: "\x81\x15\xba", line: 1},
		{from: "IBM-1047", to: "IBM-1047", in: "\x81\x25\x82\x15", want: "\x81\x15\x82\x15", line: 2},
		{from: "IBM-1047", to: "UTF-16LE", toEOL: CRLF, in: "\x81\x15", want: "a\x00\r\x00\n\x00", line: 1},
		{from: "UTF-16BE", to: "UTF-8", in: "\x00a\x00\r\x00\n\x00\r", want: "a\n\r", line: 1},
		{from: "UTF-8", to: "IBM-930", in: "\u6f22\n\u6f22", want: "\x0e\x4f\x58\x0f\x15\x0e\x4f\x58\x0f", line: 1},
		{from: "UTF-8", to: "Big5", in: "ê\nê\u0304ê", want: "\x88\xa7\n\x88\xa3\x88\xa7", line: 1},
		{from: "UTF-8", to: "ISO-2022-JP", in: "日\nab¥\nｱ日", want: "\x1b$BF|\x1b(B\nab\x1b(J\\\x1b(B\n\x1b(I1\x1b$BF|\x1b(B", line: 2},
		{from: "UTF-8", to: "ISO-2022-JP", toEOL: CRLF, in: "日\n", want: "\x1b$BF|\x1b(B\r\n", line: 1},
		{from: "ISO-2022-JP", to: "UTF-8", in: "\x1b$@F|\x1b(J\\\n\\", want: "日¥\n¥", line: 1},
		{from: "UTF-8", to: "ISO-2022-KR", in: "a한\n글", want: "\x1b$)Ca\x0eGQ\x0f\n\x0e1[\x0f", line: 1},
		{from: "UTF-8", to: "ISO-2022-KR", in: "", want: ""},
		{from: "ISO-2022-KR", to: "UTF-8", in: "\x1b$)Ca\x0eGQ\x0f\x0f\n", want: "a한\n", line: 1},
		{from: "IBM-300", to: "UTF-8", in: "\x45\x45\x40\x40", want: "五\u3000"},
		{from: "UTF-8", to: "IBM-300", fromEOL: Keep, in: "漢", want: "\x4f\x58"},
		{from: "UTF-8", to: "IBM-300", wantError: transfer.KindUsage},
		{from: "UTF-8", to: "windows-1252", toEOL: NL, wantError: transfer.KindUsage},
		{from: "UTF-8", to: "UTF-8", toEOL: Keep, wantError: transfer.KindUsage},
		{from: "UTF-8", to: "UTF-8", fromEOL: Keep, toEOL: LF, wantError: transfer.KindUsage},
	} {
		o := Options{From: page(t, c.from), To: page(t, c.to), FromEOL: c.fromEOL, ToEOL: c.toEOL}
		conv, err := New(o)
		if c.wantError != transfer.KindNone {
			if transfer.KindOf(err) != c.wantError {
				t.Errorf("%s: %v", o.describe(), err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := conv.Convert(nil, []byte(c.in))
		if err == nil {
			got, err = conv.Finish(got)
		}
		if s := conv.State(); err != nil || string(got) != c.want || s.Line != c.line || s.In != int64(len(c.in)) || s.Out != int64(len(got)) {
			t.Errorf("%s: %q gives %q, want %q; state %+v, want line %d; %v", o.describe(), c.in, got, c.want, s, c.line, err)
		}
	}
}

func TestByteOrderMarks(t *testing.T) {
	const mark = "\ufeff"
	for _, c := range []struct{ from, to, in, want string }{
		{"UTF-8", "UTF-8", mark + "a" + mark, mark + "a" + mark},
		{"UTF-8", "ISO-8859-1", mark + "a", "a"},
		{"UTF-8", "UTF-8-BOM", "a", mark + "a"},
		{"UTF-8", "UTF-8-BOM", mark + "a", mark + "a"},
		{"UTF-8-BOM", "UTF-8-BOM", mark + "a", mark + "a"},
		{"UTF-8-BOM", "UTF-8", mark + "a", "a"},
		{"UTF-8", "UTF-8-BOM", "", ""},
		{"UTF-8", "UTF-8-BOM", "\n", mark + "\n"},
		{"UTF-8", "UTF-16", "a", "\xfe\xff\x00a"},
		{"UTF-8", "UTF-16LE-BOM", "a", "\xff\xfea\x00"},
		{"UTF-8", "UTF-16LE", "a\U0001f600", "a\x00\x3d\xd8\x00\xde"},
		{"UTF-8", "UTF-16BE", mark + "a", "\x00a"},
		{"UTF-16", "UTF-8", "\xff\xfea\x00\r\x00\n\x00", "a\n"},
		{"UTF-16", "UTF-8", "\xfe\xff\x00a", "a"},
		{"UTF-16", "UTF-8", "\x00a", "a"},
		{"UTF-16", "UTF-16", "\xff\xfea\x00", "\xfe\xff\x00a"},
		{"UTF-16LE", "UTF-8", "\xff\xfea\x00\xff\xfe", "a" + mark},
		{"UTF-16LE", "UTF-16LE", "\xff\xfea\x00", "\xff\xfea\x00"},
		{"UTF-8", "UTF-32", "a", "\x00\x00\x00a"},
		{"UTF-8", "UTF-32BE-BOM", "a", "\x00\x00\xfe\xff\x00\x00\x00a"},
		{"UTF-8", "UTF-32LE-BOM", "\U0001f600", "\xff\xfe\x00\x00\x00\xf6\x01\x00"},
		{"UTF-32", "UTF-8", "\xff\xfe\x00\x00a\x00\x00\x00", "a"},
		{"UTF-32", "UTF-8", "\x00\x00\xfe\xff\x00\x00\x00a", "a"},
		{"UTF-32", "UTF-8", "\x00\x00\x00a", "a"},
		{"UTF-32LE", "UTF-8", "\xff\xfe\x00\x00a\x00\x00\x00", "a"},
	} {
		o := Options{From: page(t, c.from), To: page(t, c.to)}
		if got := must(t, o, []byte(c.in)); string(got) != c.want {
			t.Errorf("%s to %s: %q gives %q, want %q", c.from, c.to, c.in, got, c.want)
		}
	}
}

// A sample is a text for a page, in Unicode.
var samples = map[string]string{
	"latin":    "Grüße aus Århus, façade, señor\r\nline two\nno end\r",
	"japanese": "日本語のテキスト abc ﾃｷｽﾄ 表示\r\n漢字かなカナ\n最後",
	"korean":   "한국어 텍스트 abc\n대한민국\r\n끝",
	"china":    "简体中文 abc\n中华人民共和国\r\n完",
	"taiwan":   "繁體中文 abc\n中華民國\r\n完",
	"emoji":    "plain ascii text, then 😀 and €\r\nżółw\n\u0085\nend",
	"accents":  "Ê\u0304abcÊabc\nê\u030cê\r\nÊ中Ê\u0304",
	"wide":     "日本国憲法　第一条　天皇は～日本国の象徴であり",
	"fonts":    "日本語 ｶﾅ ¥100 ‾ 表示\r\nｱｲｳ\n¥\\~ 漢字ｶﾅ漢字\n最後は漢字",
	"planes":   "繁體中文 abc 㐀𠀀乂\n中華民國\r\n完乂",
	"marks":    "か\u309aき\u309aか\nトト\u309a\r\nセ\u309aabc\u0300か",
}

// journeys are the conversions for the tests of stopping and cutting: every form as a source and as a destination.
var journeys = []struct {
	from, to, sample string
	eol              EOL
}{
	{"UTF-8", "IBM-1047", "latin", Default}, {"IBM-1047", "UTF-8", "latin", CRLF}, {"IBM-273", "IBM-037", "latin", Default},
	{"ISO-8859-1", "IBM-500", "latin", CRLF}, {"windows-1252", "UTF-8", "latin", Default}, {"UTF-8", "windows-1252", "latin", CRLF},
	{"UTF-8", "UTF-8", "emoji", LF}, {"UTF-8", "UTF-8", "emoji", CRLF}, {"UTF-8", "UTF-8-BOM", "emoji", NL},
	{"UTF-8", "UTF-16", "emoji", Default}, {"UTF-16", "UTF-8", "emoji", Default}, {"UTF-16LE", "UTF-16BE", "emoji", CRLF},
	{"UTF-16LE-BOM", "UTF-16LE-BOM", "emoji", LF}, {"UTF-16BE", "GB18030", "emoji", Default}, {"GB18030", "UTF-8", "emoji", CRLF},
	{"Shift_JIS", "UTF-8", "japanese", Default}, {"UTF-8", "Shift_JIS", "japanese", CRLF}, {"EUC-JP", "Shift_JIS", "japanese", Default},
	{"UTF-8", "EUC-JP", "japanese", Default}, {"EUC-JP", "UTF-16LE", "japanese", Default}, {"EUC-KR", "UTF-8", "korean", CRLF},
	{"UTF-8", "EUC-KR", "korean", Default}, {"GBK", "UTF-8", "china", Default}, {"UTF-8", "GBK", "china", CRLF},
	{"Big5", "UTF-8", "taiwan", Default}, {"UTF-8", "Big5", "taiwan", Default},
	{"UTF-8", "IBM-930", "japanese", Default}, {"IBM-930", "UTF-8", "japanese", CRLF}, {"IBM-939", "Shift_JIS", "japanese", Default},
	{"Shift_JIS", "IBM-1399", "japanese", CRLF}, {"IBM-933", "EUC-KR", "korean", Default}, {"UTF-8", "IBM-1364", "korean", Default},
	{"IBM-935", "GBK", "china", Default}, {"UTF-8", "IBM-1388", "china", CRLF}, {"IBM-937", "UTF-8", "taiwan", Default},
	{"UTF-8", "IBM-1371", "taiwan", Default}, {"UTF-8", "IBM-1390", "marks", Default}, {"IBM-1399", "UTF-8", "marks", Default},
	{"UTF-8", "Big5", "accents", Default}, {"Big5", "UTF-8", "accents", CRLF},
	{"UTF-8", "Big5-HKSCS", "accents", Default}, {"Big5-HKSCS", "UTF-8", "accents", CRLF}, {"Big5-HKSCS", "EUC-TW", "planes", Default},
	{"UTF-8", "UTF-32", "emoji", Default}, {"UTF-32", "UTF-8", "emoji", CRLF}, {"UTF-32LE-BOM", "UTF-32BE", "emoji", Default},
	{"UTF-32LE", "UTF-16LE", "emoji", Default}, {"UTF-32BE", "IBM-1047", "latin", Default}, {"UTF-32BE-BOM", "UTF-32BE-BOM", "emoji", LF},
	{"UTF-8", "ISO-2022-JP", "fonts", Default}, {"ISO-2022-JP", "UTF-8", "fonts", CRLF}, {"ISO-2022-JP", "IBM-939", "fonts", Default},
	{"ISO-2022-JP", "ISO-2022-JP", "fonts", CRLF}, {"UTF-8", "ISO-2022-KR", "korean", Default}, {"ISO-2022-KR", "UTF-8", "korean", CRLF},
	{"ISO-2022-KR", "ISO-2022-KR", "korean", CRLF}, {"IBM-933", "ISO-2022-KR", "korean", Default}, {"Johab", "IBM-949C", "korean", Default},
	{"UTF-8", "Johab", "korean", CRLF}, {"UTF-8", "EUC-TW", "planes", CRLF}, {"EUC-TW", "UTF-8", "planes", Default}, {"EUC-TW", "IBM-964", "taiwan", Default},
	{"IBM-964", "UTF-16BE", "taiwan", CRLF}, {"UTF-8", "IBM-964", "taiwan", Default}, {"IBM-33722", "IBM-943", "fonts", Default}, {"UTF-8", "IBM-33722", "fonts", CRLF},
	{"IBM-942", "UTF-8", "fonts", Default}, {"UTF-8", "IBM-943C", "japanese", Default}, {"IBM-943C", "IBM-942C", "japanese", Default},
	{"IBM-1383", "IBM-1381", "china", Default}, {"GB2312", "UTF-8", "china", CRLF}, {"UTF-8", "IBM-1383", "china", Default},
	{"IBM-300", "UTF-8", "wide", Default}, {"IBM-300", "IBM-939", "wide", Default}, {"MacRoman", "MacIceland", "latin", Default}, {"IBM-833", "UTF-8", "latin", Default},
}

// text returns a sample in a page's bytes, with unchanged line ends. A character that the page lacks becomes a question
// mark.
func text(t testing.TB, p *Page, sample string) []byte {
	t.Helper()
	return must(t, Options{From: page(t, "UTF-8"), To: p, FromEOL: Keep, Replace: question(p)}, []byte(samples[sample]))
}

// question returns a question mark, a wide one if a page has no other.
func question(p *Page) string {
	if p.Has('?') {
		return "?"
	}
	return "？"
}

func TestStoppedAnywhereGoesOnTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, j := range journeys {
		o := Options{From: page(t, j.from), To: page(t, j.to), ToEOL: j.eol, Replace: "?"}
		src := text(t, o.From, j.sample)
		want := must(t, o, src)
		for cut := range len(src) + 1 {
			stopped(t, o, src, want, []int{cut})
		}
		for range 40 {
			var cuts []int
			for at := 0; ; {
				if at += 1 + random.IntN(7); at >= len(src) {
					break
				}
				cuts = append(cuts, at)
			}
			stopped(t, o, src, want, cuts)
		}
	}
}

// stopped converts a text with a stop at each cut. After each stop a new converter continues from the marshalled state.
func stopped(t *testing.T, o Options, src, want []byte, cuts []int) {
	t.Helper()
	c := converter(t, o)
	var dst []byte
	from := 0
	for _, cut := range append(cuts, len(src)) {
		var err error
		if dst, err = c.Convert(dst, src[from:cut]); err != nil {
			t.Fatalf("%s, cut at %v: %v", o.describe(), cuts, err)
		}
		from = cut
		c = resumed(t, o, c)
		if s := c.State(); s.In != int64(cut) || s.Out != int64(len(dst)) {
			t.Fatalf("%s, cut at %v: state %+v at %d with %d bytes out", o.describe(), cuts, s, cut, len(dst))
		}
	}
	dst, err := c.Finish(dst)
	if err != nil || !bytes.Equal(dst, want) {
		t.Fatalf("%s, cut at %v: %q gives %q, want %q; %v", o.describe(), cuts, src, dst, want, err)
	}
}

// resumed marshals a converter's state and resumes from it.
func resumed(t testing.TB, o Options, c *Converter) *Converter {
	t.Helper()
	b, err := c.State().MarshalBinary()
	if err != nil || len(b) > MaxState {
		t.Fatalf("%d bytes of state, %v", len(b), err)
	}
	var s State
	if err := s.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	if s != c.State() {
		t.Fatalf("the state %+v is read as %+v", c.State(), s)
	}
	var kept struct{ Text *State }
	kept.Text = &s
	if b, err = json.Marshal(kept); err != nil {
		t.Fatal(err)
	}
	kept.Text = nil
	if err := json.Unmarshal(b, &kept); err != nil || *kept.Text != c.State() {
		t.Fatalf("%s is not the state %+v: %v", b, s, err)
	}
	next, err := Resume(o, *kept.Text)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// noise returns bytes that look like text of a page with mistakes in it: pieces of a sample, line ends of all kinds and
// a few meaningless bytes.
func noise(random *rand.Rand, sample []byte, n int) []byte {
	var b []byte
	for len(b) < n {
		switch random.IntN(12) {
		case 0:
			b = append(b, '\r')
		case 1:
			b = append(b, '\n')
		case 2:
			b = append(b, 0x15, 0x25)
		case 3:
			b = append(b, byte(random.UintN(256)), byte(random.UintN(256)))
		case 4:
			b = append(b, 0x0d, 0x25, 0x0d, 0x15)
		case 5:
			b = append(b, bytes.Repeat([]byte("plain text "), random.IntN(9))...)
		default:
			at := random.IntN(len(sample))
			b = append(b, sample[at:]...)
		}
	}
	return b[:n]
}

// The fast loops, the parallel form and any pieces give the result of single steps, including faults in the text.
func TestFastIsTheSameAsSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, j := range journeys {
		for _, replace := range []string{"?", ""} {
			for range 40 {
				o := Options{From: page(t, j.from), To: page(t, j.to), ToEOL: j.eol, Replace: replace}
				src := noise(random, text(t, o.From, j.sample), 1+random.IntN(300))
				if replace == "" {
					src = bytes.Repeat(text(t, o.From, j.sample), 3)
					at := random.IntN(len(src))
					src = append(src[:at:at], noise(random, src, 40)...)
				}
				compareWithSteps(t, o, src)
			}
		}
	}
}

func compareWithSteps(t testing.TB, o Options, src []byte) {
	t.Helper()
	slow := converter(t, o)
	slow.fast = nil
	want, wantErr := slow.Convert(nil, src)
	wantState := slow.State()
	if wantErr == nil {
		want, wantErr = slow.Finish(want)
	}
	quick := converter(t, o)
	got, err := quick.Convert(nil, src)
	if err == nil && quick.State() != wantState {
		t.Fatalf("%s: %q leaves %+v, by steps %+v", o.describe(), src, quick.State(), wantState)
	}
	if err == nil {
		got, err = quick.Finish(got)
	}
	if !bytes.Equal(got, want) || !sameFault(err, wantErr) {
		t.Fatalf("%s: %q gives %q, %v; by steps %q, %v", o.describe(), src, got, err, want, wantErr)
	}

	pieces := converter(t, o)
	got, err = nil, nil
	for rest := src; len(rest) > 0 && err == nil; {
		n := 1 + len(rest)/3
		got, err = pieces.Convert(got, rest[:n])
		rest = rest[n:]
	}
	if err == nil {
		got, err = pieces.Finish(got)
	}
	if !bytes.Equal(got, want) || !sameFault(err, wantErr) {
		t.Fatalf("%s: %q in pieces gives %q, %v; by steps %q, %v", o.describe(), src, got, err, want, wantErr)
	}
}

func sameFault(a, b error) bool {
	var x, y *Fault
	if errors.As(a, &x) != errors.As(b, &y) {
		return false
	}
	return x == nil || fmt.Sprintf("%+v", *x) == fmt.Sprintf("%+v", *y)
}

func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		from, to string
		fromEOL  EOL
		toEOL    EOL
		want     bool
	}{
		{"UTF-8", "UTF-8", LF, Default, true}, {"UTF-8", "utf8", LF, LF, true}, {"IBM-1047", "IBM-1047", NL, Default, true},
		{"UTF-8", "UTF-8", Default, LF, false}, {"UTF-8", "UTF-8", LF, CRLF, false}, {"IBM-1047", "IBM-037", NL, NL, false},
		{"IBM-930", "IBM-930", Keep, Keep, true}, {"UTF-8", "UTF-8-BOM", LF, LF, false},
	} {
		o := Options{From: page(t, c.from), To: page(t, c.to), FromEOL: c.fromEOL, ToEOL: c.toEOL}
		conv := converter(t, o)
		if conv.Identity() != c.want {
			t.Errorf("%s: identity is %v", o.describe(), !c.want)
		}
		if !c.want {
			continue
		}
		in := []byte("any\r\nbytes\xff\x00\x0e")
		got, err := conv.Convert(nil, in)
		if err == nil {
			got, err = conv.Finish(got)
		}
		if err != nil || !bytes.Equal(got, in) || conv.State().Out != int64(len(in)) {
			t.Errorf("%s: %q, %v", o.describe(), got, err)
		}
	}
}

// A line as long as the text needs no more memory than a block.
func TestOneLongLine(t *testing.T) {
	block := []byte(strings.Repeat("a line that never ends ", 713))[:16<<10]
	for _, j := range journeys {
		o := Options{From: page(t, j.from), To: page(t, j.to), ToEOL: j.eol, Replace: "?"}
		c := converter(t, o)
		src := must(t, Options{From: page(t, "UTF-8"), To: o.From, FromEOL: Keep, Replace: question(o.From)}, block)
		var dst []byte
		step := func() {
			var err error
			if dst, err = c.Convert(dst[:0], src); err != nil {
				t.Fatal(err)
			}
		}
		step()
		step()
		if n := testing.AllocsPerRun(8, step); n > 0 {
			t.Errorf("%s: %v allocations a block", o.describe(), n)
		}
		if cap(dst) > 6*len(src) {
			t.Errorf("%s: %d bytes held for a block of %d", o.describe(), cap(dst), len(src))
		}
	}
}
