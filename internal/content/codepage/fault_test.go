package codepage

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		from, to, in string
		want         Fault
		out          string // output before the fault
		says         string
		replaced     string // with "?"
	}{
		{"UTF-8", "IBM-037", "a\nb\u20acc", Fault{Offset: 3, Line: 2, Bytes: []byte("\u20ac"), Char: 0x20ac, Page: "IBM-037", Reason: NotInPage}, "\x81\x15\x82",
			"character U+20AC '€' at offset 3 (line 2), bytes E282AC, is not in code page IBM-037; choose", "\x81\x15\x82\x6f\x83"},
		{"UTF-8", "ISO-8859-1", "ab\xe2\x82d", Fault{Offset: 2, Line: 1, Bytes: []byte("\xe2\x82"), Char: -1, Page: "UTF-8", Reason: NoCharacter}, "ab",
			"bytes E282 at offset 2 (line 1) are no character of code page UTF-8; correct the source", "ab?d"},
		{"UTF-8", "UTF-8", "abc\xff\xc0\x80", Fault{Offset: 3, Line: 1, Bytes: []byte("\xff"), Char: -1, Page: "UTF-8", Reason: NoCharacter}, "abc", "bytes FF", "abc???"},
		{"UTF-8", "UTF-8", "a\xed\xa0\x80", Fault{Offset: 1, Line: 1, Bytes: []byte("\xed"), Char: -1, Page: "UTF-8", Reason: NoCharacter}, "a", "bytes ED", "a???"},
		{"UTF-8", "UTF-16LE", "a\xf0\x9f\x98", Fault{Offset: 1, Line: 1, Bytes: []byte("\xf0\x9f\x98"), Char: -1, Page: "UTF-8", Reason: CutShort}, "a\x00",
			"the text ends within a character of code page UTF-8 at offset 1 (line 1), bytes F09F98", "a\x00?\x00"},
		{"US-ASCII", "UTF-8", "a\x80b", Fault{Offset: 1, Line: 1, Bytes: []byte("\x80"), Char: -1, Page: "US-ASCII", Reason: NoCharacter}, "a", "bytes 80", "a?b"},
		{"UTF-16BE", "UTF-8", "\x00a\xdc00b", Fault{Offset: 2, Line: 1, Bytes: []byte("\xdc0"), Char: -1, Page: "UTF-16BE", Reason: NoCharacter}, "a", "bytes DC30", "a?\u3062"},
		{"UTF-16BE", "UTF-8", "\xff\xfe\x00a", Fault{Offset: 0, Line: 1, Bytes: []byte("\xff\xfe"), Char: -1, Page: "UTF-16BE", Reason: OtherOrder}, "",
			"the byte-order mark FFFE at the beginning is that of the other byte order", ""},
		{"Shift_JIS", "UTF-8", "\x83\x41\r\n\x83\n", Fault{Offset: 4, Line: 2, Bytes: []byte("\x83"), Char: -1, Page: "Shift_JIS", Reason: NoCharacter}, "ア\n", "bytes 83", "ア\n?\n"},
		{"GB18030", "UTF-8", "a\x81\x30\x81a", Fault{Offset: 1, Line: 1, Bytes: []byte("\x81"), Char: -1, Page: "GB18030", Reason: NoCharacter}, "a", "bytes 81", "a?0乤"},
		{"IBM-930", "UTF-8", "\xc1\x0e\x4f\x58\x15\xc1", Fault{Offset: 4, Line: 1, Bytes: []byte("\x15"), Char: -1, Page: "IBM-930", Reason: LoneShift}, "A漢",
			"a shift-out (0E) has no shift-in (0F) before the text or its line ends at offset 4 (line 1); code page IBM-930 needs one", "A漢?\nA"},
		{"IBM-930", "UTF-8", "\xc1\x0e\x4f\x58", Fault{Offset: 4, Line: 1, Char: -1, Page: "IBM-930", Reason: LoneShift}, "A漢", "a shift-out", "A漢?"},
		{"IBM-930", "UTF-8", "\xc1\x0e\x4f", Fault{Offset: 2, Line: 1, Bytes: []byte("\x4f"), Char: -1, Page: "IBM-930", Reason: CutShort}, "A", "the text ends within", "A??"},
		{"IBM-930", "UTF-8", "\xc1\x0f", Fault{Offset: 1, Line: 1, Bytes: []byte("\x0f"), Char: -1, Page: "IBM-930", Reason: NoCharacter}, "A", "bytes 0F", "A?"},
		{"IBM-930", "UTF-8", "\x0e\xfe\xfe\x0f", Fault{Offset: 1, Line: 1, Bytes: []byte("\xfe\xfe"), Char: -1, Page: "IBM-930", Reason: NoCharacter}, "", "bytes FEFE", "?"},
		{"UTF-8", "IBM-930", "漢à\n", Fault{Offset: 3, Line: 1, Bytes: []byte("à"), Char: 'à', Page: "IBM-930", Reason: NotInPage}, "\x0e\x4f\x58", "U+00E0 'à'", "\x0e\x4f\x58\x0f\x6f\x15"},
		{"ISO-2022-JP", "UTF-8", "a\x1b$BF|\nb", Fault{Offset: 6, Line: 1, Bytes: []byte("\n"), Char: -1, Page: "ISO-2022-JP", Reason: LoneEscape}, "a日",
			"characters of two bytes are not ended by an escape sequence to ASCII (1B2842) before the text or its line ends at offset 6 (line 1); code page ISO-2022-JP needs one", "a日?\nb"},
		{"ISO-2022-JP", "UTF-8", "\x1b$BF|", Fault{Offset: 5, Line: 1, Char: -1, Page: "ISO-2022-JP", Reason: LoneEscape}, "日", "characters of two bytes", "日?"},
		{"ISO-2022-JP", "UTF-8", "\x1b$BF", Fault{Offset: 3, Line: 1, Bytes: []byte("F"), Char: -1, Page: "ISO-2022-JP", Reason: CutShort}, "", "the text ends within", "??"},
		{"ISO-2022-JP", "UTF-8", "ab\x1b$", Fault{Offset: 2, Line: 1, Bytes: []byte("\x1b$"), Char: -1, Page: "ISO-2022-JP", Reason: CutShort}, "ab", "the text ends within", "ab?"},
		{"ISO-2022-JP", "UTF-8", "a\n\x1b$A0", Fault{Offset: 2, Line: 2, Bytes: []byte("\x1b"), Char: -1, Page: "ISO-2022-JP", Reason: NoCharacter}, "a\n", "bytes 1B", "a\n?$A0"},
		{"ISO-2022-JP", "UTF-8", "a\x0e", Fault{Offset: 1, Line: 1, Bytes: []byte("\x0e"), Char: -1, Page: "ISO-2022-JP", Reason: NoCharacter}, "a", "bytes 0E", "a?"},
		{"ISO-2022-JP", "UTF-8", "\x1b$B~~F|\x1b(B", Fault{Offset: 3, Line: 1, Bytes: []byte("~~"), Char: -1, Page: "ISO-2022-JP", Reason: NoCharacter}, "", "bytes 7E7E", "?日"},
		{"ISO-2022-KR", "UTF-8", "\x1b$)C\x0eGQ\n", Fault{Offset: 7, Line: 1, Bytes: []byte("\n"), Char: -1, Page: "ISO-2022-KR", Reason: LoneShift}, "한", "a shift-out (0E) has no shift-in", "한?\n"},
		{"ISO-2022-KR", "UTF-8", "\x0eGQ\xb1", Fault{Offset: 3, Line: 1, Bytes: []byte("\xb1"), Char: -1, Page: "ISO-2022-KR", Reason: NoCharacter}, "한", "bytes B1", "한??"},
		{"UTF-8", "ISO-2022-KR", "a\x1b", Fault{Offset: 1, Line: 1, Bytes: []byte("\x1b"), Char: 0x1b, Page: "ISO-2022-KR", Reason: NotInPage}, "\x1b$)Ca", "U+001B", "\x1b$)Ca?"},
		{"UTF-32BE", "UTF-8", "\x00\x00\x00a\x00\x11\x00\x00", Fault{Offset: 4, Line: 1, Bytes: []byte("\x00\x11\x00\x00"), Char: -1, Page: "UTF-32BE", Reason: NoCharacter}, "a", "bytes 00110000", "a?"},
		{"UTF-32LE", "UTF-8", "\x00\xd8\x00\x00", Fault{Offset: 0, Line: 1, Bytes: []byte("\x00\xd8\x00\x00"), Char: -1, Page: "UTF-32LE", Reason: NoCharacter}, "", "bytes 00D80000", "?"},
		{"UTF-32BE", "UTF-8", "\x00\x00\x00a\x00\x00\x00", Fault{Offset: 4, Line: 1, Bytes: []byte("\x00\x00\x00"), Char: -1, Page: "UTF-32BE", Reason: CutShort}, "a", "the text ends within", "a?"},
		{"UTF-32BE", "UTF-8", "\xff\xfe\x00\x00", Fault{Offset: 0, Line: 1, Bytes: []byte("\xff\xfe\x00\x00"), Char: -1, Page: "UTF-32BE", Reason: OtherOrder}, "",
			"the byte-order mark FFFE0000 at the beginning is that of the other byte order", ""},
		{"EUC-TW", "UTF-8", "a\x8e\xa2\xa1", Fault{Offset: 1, Line: 1, Bytes: []byte("\x8e\xa2\xa1"), Char: -1, Page: "EUC-TW", Reason: CutShort}, "a", "bytes 8EA2A1", "a?"},
		{"EUC-TW", "UTF-8", "a\x8e\xa2\xa1\nb", Fault{Offset: 1, Line: 1, Bytes: []byte("\x8e"), Char: -1, Page: "EUC-TW", Reason: NoCharacter}, "a", "bytes 8E", "a?㊣\nb"},
		{"IBM-300", "UTF-8", "\x4f\x58\x15\x25\x4f\x58", Fault{Offset: 2, Line: 1, Bytes: []byte("\x15\x25"), Char: -1, Page: "IBM-300", Reason: NoCharacter}, "漢", "bytes 1525", "漢?漢"},
		{"IBM-300", "UTF-8", "\x4f\x58\x4f", Fault{Offset: 2, Line: 1, Bytes: []byte("\x4f"), Char: -1, Page: "IBM-300", Reason: CutShort}, "漢", "bytes 4F", "漢?"},
		{"Big5-HKSCS", "UTF-8", "\x88\x62\x88\n", Fault{Offset: 2, Line: 1, Bytes: []byte("\x88"), Char: -1, Page: "Big5-HKSCS", Reason: NoCharacter}, "Ê\u0304", "bytes 88", "Ê\u0304?\n"},
	} {
		o := Options{From: page(t, c.from), To: page(t, c.to)}
		// The same in one piece, and byte for byte.
		for _, size := range []int{len(c.in), 1} {
			out, err := inPieces(t, o, []byte(c.in), size)
			var f *Fault
			if !errors.As(err, &f) || f.Offset != c.want.Offset || f.Line != c.want.Line || hex.EncodeToString(f.Bytes) != hex.EncodeToString(c.want.Bytes) ||
				f.Char != c.want.Char || f.Page != c.want.Page || f.Reason != c.want.Reason {
				t.Errorf("%s to %s: %q gives %+v, want %+v", c.from, c.to, c.in, err, c.want)
				continue
			}
			if transfer.KindOf(err) != transfer.KindUnmappable || !strings.Contains(err.Error(), c.says) || string(out) != c.out {
				t.Errorf("%s to %s: %q gives %q and says %q of kind %s", c.from, c.to, c.in, out, err, transfer.KindOf(err))
			}
		}
		o.Replace = "?"
		if c.want.Reason == OtherOrder {
			continue // nothing is replaced: the whole text would be
		}
		for _, size := range []int{len(c.in), 1} {
			if got, err := inPieces(t, o, []byte(c.in), size); err != nil || string(got) != c.replaced {
				t.Errorf("%s to %s: %q is %q when replaced, want %q; %v", c.from, c.to, c.in, got, c.replaced, err)
			}
		}
	}
}

func inPieces(t *testing.T, o Options, src []byte, size int) ([]byte, error) {
	t.Helper()
	c := converter(t, o)
	var dst []byte
	for len(src) > 0 {
		n := min(size, len(src))
		var err error
		if dst, err = c.Convert(dst, src[:n]); err != nil {
			again, same := c.Convert(dst, src[n:])
			if same != err || len(again) != len(dst) {
				t.Errorf("after %v, Convert gives %v", err, same)
			}
			return dst, err
		}
		src = src[n:]
	}
	return c.Finish(dst)
}

func TestReplacementsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ to, replace, says string }{
		{"IBM-037", "\u20ac", "which is not in code page IBM-037"},
		{"UTF-8", "\n", "not a piece of one line"},
		{"UTF-8", "\xff", "not a piece of one line in UTF-8"},
		{"UTF-8", strings.Repeat("x", 17), "has 17 characters; it may have 16"},
	} {
		_, err := New(Options{From: page(t, "UTF-8"), To: page(t, c.to), Replace: c.replace})
		if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), c.says) {
			t.Errorf("replacement %q: %v", c.replace, err)
		}
	}
	o := Options{From: page(t, "UTF-8"), To: page(t, "IBM-930"), Replace: "<漢>"}
	if got := must(t, o, []byte("a\u0e01b")); string(got) != "\x62\x4c\x0e\x4f\x58\x0f\x6e\x63" && string(got) != string(must(t, Options{From: o.From, To: o.To}, []byte("a<漢>b"))) {
		t.Errorf("a replacement of several widths gives %X", got)
	}
}

func TestStatesThatAreRefused(t *testing.T) {
	o := Options{From: page(t, "UTF-8"), To: page(t, "IBM-1047")}
	s := converter(t, o).State()
	for _, other := range []Options{
		{From: o.To, To: o.From}, {From: o.From, To: page(t, "IBM-037")}, {From: o.From, To: o.To, ToEOL: LF},
		{From: o.From, To: o.To, Replace: "?"}, {From: o.From, To: o.To, FromEOL: CRLF},
	} {
		if _, err := Resume(other, s); transfer.KindOf(err) != transfer.KindVersion {
			t.Errorf("a state of %s resumes %s: %v", o.describe(), other.describe(), err)
		}
	}
	beyond := s
	for _, damage := range []func(*State){func(s *State) { s.set = 1 }, func(s *State) { s.out = 4 }} {
		beyond = s
		damage(&beyond)
		if _, err := Resume(o, beyond); !errors.Is(err, errState) {
			t.Errorf("a state in a set that the page lacks: %v", err)
		}
	}
	good, _ := s.MarshalBinary()
	var read State
	for n := range good {
		if read.UnmarshalBinary(good[:n]) == nil {
			t.Errorf("%d of %d bytes are a state", n, len(good))
		}
	}
	if err := read.UnmarshalBinary(append(good, 0)); err == nil {
		t.Error("a state with a byte too many is read")
	}
	if err := read.UnmarshalBinary(append([]byte{9}, good[1:]...)); transfer.KindOf(err) != transfer.KindVersion {
		t.Errorf("version 9: %v", err)
	}
}
