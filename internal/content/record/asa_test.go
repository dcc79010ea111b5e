package record

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

func asaFormats(t testing.TB) []Attributes {
	var all []Attributes
	for _, text := range []string{"RECFM(FA),LRECL(6)", "RECFM(FBA),LRECL(6),BLKSIZE(12)", "RECFM(VA),LRECL(10)", "RECFM(VBA),LRECL(10),BLKSIZE(33)", "RECFM(VBA),LRECL(10),BLKSIZE(14)", "RECFM(UA),BLKSIZE(6)"} {
		all = append(all, attrs(t, text))
	}
	return all
}

func TestControlCharacters(t *testing.T) {
	a := attrs(t, "RECFM(VBA),LRECL(20)")
	for _, c := range []struct {
		text    string
		records []string
		back    string // where it is not the text
	}{
		{"", nil, ""},
		{"abc\n", []string{" abc"}, ""},
		{"abc", []string{" abc"}, "abc\n"},
		{"\n", []string{" "}, ""},
		{"\n\n", []string{"0"}, ""},
		{"\n\n\n", []string{"-"}, ""},
		{"\n\n\n\n", []string{"-", " "}, ""},
		{"\nabc\n", []string{"0abc"}, ""},
		{"\n\nabc\n", []string{"-abc"}, ""},
		{"\n\n\nabc\n", []string{"-", " abc"}, ""},
		{"abc\ndef\n", []string{" abc", " def"}, ""},
		{"abc\n\ndef\n", []string{" abc", "0def"}, ""},
		{"abc\n\n\ndef\n", []string{" abc", "-def"}, ""},
		{"abc\n\n\n\ndef\n", []string{" abc", "-", " def"}, ""},
		{"abc\n\n\n\n\n\n\n\ndef\n", []string{" abc", "-", "-", "0def"}, ""},
		{"abc\n\n", []string{" abc", " "}, ""},
		{"abc\n\n\n", []string{" abc", "0"}, ""},
		{"abc\n\n\n\n", []string{" abc", "-"}, ""},
		{"abc\n\n\n\n\n", []string{" abc", "-", " "}, ""},
		{"\fabc\n", []string{"1abc"}, ""},
		{"\rabc\n", []string{"+abc"}, ""},
		{"\n\fabc\n", []string{"0", "1abc"}, ""},
		{"abc\fdef\n", []string{" abc", "1def"}, ""},
		{"abc\n\fdef\n", []string{" abc", " ", "1def"}, ""},
		{"abc\f\f\ndef\n", []string{" abc", "1", "1", " def"}, ""},
		{"abc\f", []string{" abc", "1"}, "abc\f\n"},
		{"abc\rdef\n", []string{" abc", "+def"}, ""},
		{"abc\r\ndef\n", []string{" abc", "+", " def"}, ""},
		// The example of the C library's manual, except for the first record: its two line ends are two empty lines
		// here.
		{"\n\nabcdef\f\r345\n\n\n\n9034\n", []string{"-abcdef", "1", "+345", "-", " 9034"}, ""},
		{" abc\n1\n0x\n", []string{"  abc", " 1", " 0x"}, ""},
	} {
		for _, p := range []struct {
			Page
			from, to *strings.Replacer
		}{{ASCII(), strings.NewReplacer(), strings.NewReplacer()},
			{EBCDIC(), strings.NewReplacer("\n", "\x15", "\f", "\x0c", "\r", "\x0d", " ", "\x40"), strings.NewReplacer("\x40", " ", "\xF0", "0", "\xF1", "1", "\x4E", "+", "\x60", "-")}} {
			text := p.from.Replace(c.text)
			file, err := convert(t, func() (*Converter, error) { return FromText(a, p.Page, Options{}) }, []byte(text))
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			var got []string
			for _, r := range modelRecords(a, file) {
				got = append(got, p.to.Replace(string(r[:1]))+strings.NewReplacer("\x40", " ").Replace(string(r[1:])))
			}
			if !slices.Equal(got, c.records) {
				t.Errorf("%q becomes %q, want %q", text, got, c.records)
			}
			want := c.text
			if c.back != "" {
				want = c.back
			}
			back, err := convert(t, func() (*Converter, error) { return ToText(a, p.Page, Options{}) }, file)
			if err != nil || string(back) != p.from.Replace(want) {
				t.Errorf("%q comes back as %q, %v", c.text, back, err)
			}
		}
	}
}

func TestControlCharactersAreKeptInWrappedLines(t *testing.T) {
	for _, c := range []struct {
		recfm, long, want string
	}{
		{"FA", "wrap", " abcde fghij k    0lm   "},
		{"FA", "truncate", " abcde0lm   "},
		{"VA", "wrap", "\x00\x0a\x00\x00 abcde\x00\x0a\x00\x00 fghij\x00\x06\x00\x00 k\x00\x07\x00\x000lm"},
	} {
		lrecl := map[string]int{"FA": 6, "VA": 10}[c.recfm]
		a := attrs(t, fmt.Sprintf("RECFM(%s),LRECL(%d)", c.recfm, lrecl))
		long, err := ParseLongLines(c.long)
		if err != nil {
			t.Fatal(err)
		}
		got, err := convert(t, func() (*Converter, error) { return FromText(a, ASCII(), Options{Long: long}) }, []byte("abcdefghijk\n\nlm\n"))
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %s: %q, %v; want %q", c.recfm, c.long, got, err, c.want)
		}
	}
}

func TestWrongControlCharacterIsNamed(t *testing.T) {
	a := attrs(t, "RECFM(FBA),LRECL(4)")
	for file, want := range map[string]string{
		" abc2abc":         "record 2, at byte 4, begins with 32, which is no ASA control character",
		"\x00abc":          "record 1, at byte 0, begins with 00",
		" abc abc\xF1abc ": "record 3, at byte 8, begins with F1",
	} {
		_, err := convert(t, func() (*Converter, error) { return ToText(a, ASCII(), Options{}) }, []byte(file))
		if err == nil || !strings.Contains(err.Error(), want) || transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("%q: %v; want %q", file, err, want)
		}
	}
	// A record without bytes has no control character: it is an empty line.
	v := attrs(t, "RECFM(VA),LRECL(10)")
	got, err := convert(t, func() (*Converter, error) { return ToText(v, ASCII(), Options{}) }, []byte("\x00\x04\x00\x00\x00\x06\x00\x000a\x00\x04\x00\x00"))
	if err != nil || string(got) != "\n\na\n\n" {
		t.Errorf("records without a byte become %q, %v", got, err)
	}
}

// randomPrint returns text as printers get it.
func randomPrint(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = "\n\n\n\f\rab \x00c"[rng.IntN(10)]
	}
	return b
}

// fitting breaks lines that are longer than a record.
func fitting(text []byte, most int) []byte {
	n := 0
	for i, b := range text {
		if n++; bytes.IndexByte([]byte("\n\f\r"), b) >= 0 {
			n = 0
		} else if n > most {
			text[i], n = '\n', 0
		}
	}
	return text
}

// asText returns the text after a conversion to records and back: without the trailing blanks of fixed records, and
// with a line end at the end.
func asText(a Attributes, text []byte) []byte {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	if a.Format.fixed() {
		for _, end := range []string{"\n", "\f", "\r"} {
			parts := strings.Split(string(text), end)
			for i := range parts {
				parts[i] = strings.TrimRight(parts[i], " ")
			}
			text = []byte(strings.Join(parts, end))
		}
	}
	return text
}

func TestPrintFilesComeBackAndRestartAtEveryByte(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	for _, a := range asaFormats(t) {
		from := func() (*Converter, error) { return FromText(a, ASCII(), Options{}) }
		to := func() (*Converter, error) { return ToText(a, ASCII(), Options{}) }
		for i := range 300 {
			text := randomPrint(rng, rng.IntN(40))
			text = fitting(text, a.MaxData()-1)
			file, err := convert(t, from, text)
			if err != nil {
				t.Fatal(err)
			}
			back, err := convert(t, to, file)
			if err != nil || !bytes.Equal(back, asText(a, bytes.Clone(text))) {
				t.Fatalf("%s: %q becomes %q and comes back as %q, %v; want %q", a, text, modelRecords(a, file), back, err, asText(a, text))
			}
			if i%10 != 0 {
				continue
			}
			everywhere := feed{pieces(1), pieces(1), func() bool { return true }, nil}
			if got, err := drive(t, from, text, everywhere); err != nil || !bytes.Equal(got, file) {
				t.Fatalf("%s: %q, begun anew at every byte, becomes\n%q, %v; want\n%q", a, text, got, err, file)
			}
			if got, err := drive(t, to, file, everywhere); err != nil || !bytes.Equal(got, back) {
				t.Fatalf("%s: %q, begun anew at every byte, becomes\n%q, %v; want\n%q", a, file, got, err, back)
			}
		}
	}
}
