package codepage

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// Every character that a page can encode converts back unchanged by way of UTF-8, one by one and in one text.
func TestEveryCharacterComesBack(t *testing.T) {
	utf8Page := page(t, "UTF-8")
	for _, p := range List() {
		var chars []rune
		last := rune(utf8.MaxRune)
		if p.form == formSingle || p.form == formShift {
			last = 0x2ffff // a table goes no further
		}
		for r := rune(0); r <= last; r++ {
			if 0xd800 <= r && r < 0xe000 || r == mark || !p.Has(r) {
				continue
			}
			chars = append(chars, r)
		}
		if len(chars) < 100 {
			t.Errorf("%s has %d characters", p, len(chars))
		}
		text := []byte(string(chars))
		if p.Has(' ') {
			text = append([]byte(" "), text...) // so that the first character is no byte-order mark
		}
		there := must(t, Options{From: utf8Page, To: p, FromEOL: Keep}, text)
		back := must(t, Options{From: p, To: utf8Page, FromEOL: Keep}, there)
		if !bytes.Equal(back, text) {
			t.Errorf("%s: %d characters do not come back as they were", p, len(chars))
		}
	}
}

// With a replacement, a character that the page lacks is written as its relative, and only then.
func TestNearRelatives(t *testing.T) {
	for _, c := range []struct{ page, in, back string }{
		{"IBM-930", "a～b", "a〜b"}, {"IBM-939", "－", "−"}, {"IBM-937", "～", "∼"}, {"IBM-1388", "・", "·"},
	} {
		o := Options{From: page(t, "UTF-8"), To: page(t, c.page)}
		if got, err := all(t, o, []byte(c.in)); transfer.KindOf(err) != transfer.KindUnmappable {
			t.Errorf("%s writes %q as %X, %v", c.page, c.in, got, err)
		}
		o.Replace = "?"
		if back := must(t, Options{From: o.To, To: o.From}, must(t, o, []byte(c.in))); string(back) != c.back {
			t.Errorf("%s: %q comes back as %q, want %q", c.page, c.in, back, c.back)
		}
	}
}

// A code for a near relative decodes to a character of the page.
func TestRelativesAreRead(t *testing.T) {
	for _, p := range List() {
		if p.table == nil {
			continue
		}
		tab := p.table()
		for r, code := range tab.near {
			if got := tab.decoded(code); got < 0 || got == r {
				t.Errorf("%s: %q is written as %X, which is %X", p, r, code, got)
			}
		}
	}
}

// Every byte sequence that a page reads is written again, or the preferred one for the same character is.
func TestEveryCodeIsWritten(t *testing.T) {
	for _, p := range List() {
		if p.table == nil {
			continue
		}
		tab := p.table()
		lost := 0
		tab.each(func(code uint32, r rune) {
			if r >= pairBase {
				if tab.codings[tab.pairs[r-pairBase]] != code {
					lost++
				}
				return
			}
			if back, ok := tab.code(r); !ok || tab.decoded(back) != r {
				lost++
			}
		})
		if lost != 0 {
			t.Errorf("%s: %d codes are read and not written", p, lost)
		}
	}
}

func TestControlsAreWhereThePackageTakesThem(t *testing.T) {
	for _, p := range List() {
		if p.form == formPair {
			if _, err := p.LineEnd(Default); p.Newline() != nil || string(p.Blank()) != "\x40\x40" || transfer.KindOf(err) != transfer.KindUsage {
				t.Errorf("%s: blank %X, newline %X, %v", p, p.Blank(), p.Newline(), err)
			}
			continue
		}
		blank, newline, cr := p.Blank(), p.Newline(), must(t, Options{From: page(t, "UTF-8"), To: p, FromEOL: Keep}, []byte("\r"))
		wantBlank, wantLine := " ", "\n"
		least, _ := p.Width()
		wide := least > 1
		if p.EBCDIC() {
			wantBlank, wantLine = "\x40", "\x15"
			if lf, err := p.LineEnd(LF); err != nil || string(lf) != "\x25" {
				t.Errorf("%s: LF is %X, %v", p, lf, err)
			}
		}
		if wide {
			zeros := strings.Repeat("\x00", least-1)
			wantBlank, wantLine = zeros+" ", zeros+"\n"
			if p.little() {
				wantBlank, wantLine = " "+zeros, "\n"+zeros
			}
		}
		if string(blank) != wantBlank || string(newline) != wantLine || !wide && !strings.HasSuffix(string(cr), "\r") {
			t.Errorf("%s: blank %X, newline %X, CR %X", p, blank, newline, cr)
		}
		if p.table != nil && !p.Shifts() {
			for _, c := range []byte{shiftOut, shiftIn} {
				if p.table().first[c] != rune(c) {
					t.Errorf("%s: byte %02X is no control", p, c)
				}
			}
		}
		if p.table != nil {
			for r := range p.table().opens {
				if !p.Has(r) || r < utf8.RuneSelf {
					t.Errorf("%s: %q begins a pair and cannot stand by itself", p, r)
				}
			}
		}
	}
}

// In pages of several bytes, each byte below the digits is a character by itself. Split cuts there, and no malformed
// sequence includes such a byte.
func TestLowBytesStandAlone(t *testing.T) {
	for _, p := range List() {
		if p.form != formMulti {
			continue
		}
		for i, row := range p.table().rows {
			for c := range '0' {
				if row[c] != int32(bad) {
					t.Errorf("%s: byte %02X follows another in row %d", p, c, i)
				}
			}
		}
		for c := range rune(0x30) {
			if r := p.table().first[c]; r < 0 || r >= 0x80 { // two pages turn controls round
				t.Errorf("%s: byte %02X is not a character of ASCII", p, c)
			}
		}
	}
}

func TestLookup(t *testing.T) {
	for name, want := range map[string]string{
		"IBM-1047": "IBM-1047", "Cp1047": "IBM-1047", "ibm1047": "IBM-1047", "1047": "IBM-1047", "CCSID 01047": "IBM-1047", "IBM01047": "IBM-1047",
		"37": "IBM-037", "037": "IBM-037", "cp037": "IBM-037", "IBM-37": "IBM-037", "csIBM037": "IBM-037", "EBCDIC-CP-US": "IBM-037",
		"IBM01140": "IBM-1140", "CCSID01140": "IBM-1140", "x-IBM930": "IBM-930", "utf8": "UTF-8", "UTF_8": "UTF-8", "1208": "UTF-8", "65001": "UTF-8",
		"latin1": "ISO-8859-1", "ISO8859_1": "ISO-8859-1", "ISO-8859-15": "ISO-8859-15", "819": "ISO-8859-1", "windows-1252": "windows-1252", "Cp1252": "windows-1252",
		"SJIS": "Shift_JIS", "MS932": "Shift_JIS", "euc_kr": "EUC-KR", "gb18030": "GB18030", "UTF-16": "UTF-16", "UTF-16LE": "UTF-16LE", "ascii": "US-ASCII", "1200": "UTF-16BE",
		"IBM-942": "IBM-942", "Cp942": "IBM-942", "x-IBM942": "IBM-942", "942": "IBM-942", "Cp942C": "IBM-942C", "ibm-942_P12A-1999": "IBM-942C", "ibm-942_P120-1999": "IBM-942",
		"x-IBM943C": "IBM-943C", "ibm-943_P130-1999": "IBM-943", "ibm-1383_P110-1999": "IBM-1383", "ibm-37_P100-1995": "IBM-037", "IBM-Thai": "IBM-838", "Cp838": "IBM-838", "300": "IBM-300",
		"x-IBM949": "IBM-949", "windows-949": "EUC-KR", "874": "IBM-874", "x-windows-874": "windows-874", "ibm-33722_vascii_vpua": "IBM-33722",
		"UTF-32": "UTF-32", "X-UTF-32LE-BOM": "UTF-32LE-BOM", "UTF_32BE": "UTF-32BE", "1232": "UTF-32BE", "x-EUC-TW": "EUC-TW", "cns11643": "EUC-TW", "big5hk": "Big5-HKSCS",
		"x-Johab": "Johab", "ksc5601_1992": "Johab", "tis620": "TIS-620", "euc-cn": "GB2312", "iso2022kr": "ISO-2022-KR", "csISO2022JP": "ISO-2022-JP", "jis": "ISO-2022-JP",
		"x-MacRoman": "macintosh", "x-MacCyrillic": "x-mac-cyrillic", "x-MacUkraine": "MacUkraine", "x-MacCentralEurope": "MacCentralEurope", "MacDingbat": "MacDingbat",
	} {
		if p, err := Lookup(name); err != nil || p.Name() != want {
			t.Errorf("%s is %v, %v; want %s", name, p, err, want)
		}
	}
	for name, says := range map[string]string{
		"IBM-1074": "IBM-1047", "ISO-8859-12": "ISO-8859-1", "UTF-9": "UTF-8", "windows1525": "windows-1252", "shift-jsi": "Shift_JIS", "1o47": "IBM-1047",
		"ibm-33722_P12A-1999": "lists all", "ibm-942_P12A": "lists them", "klingon": "`ferry codepages` lists them", "": "`ferry codepages` lists", "IBM-1047!": "IBM-1047", strings.Repeat("x", 5000): "lists them",
	} {
		_, err := Lookup(name)
		if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), says) || len(err.Error()) > 300 {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

func TestEveryNameFindsItsPage(t *testing.T) {
	names := map[string]bool{}
	for _, p := range List() {
		if names[p.Name()] {
			t.Errorf("%s is listed twice", p)
		}
		names[p.Name()] = true
		for _, name := range append(p.Aliases(), p.Name(), strings.ToLower(p.Name()), strings.ToUpper(p.Name())) {
			if found, err := Lookup(name); err != nil || found != p {
				t.Errorf("%s, a name of %s, is %v, %v", name, p, found, err)
			}
		}
		if p.About() == "" {
			t.Errorf("%s says nothing about itself", p)
		}
		if least, most := p.Width(); least < 1 || most < least || most > 4 {
			t.Errorf("%s: a character has %d to %d bytes", p, least, most)
		}
	}
	for _, n := range strings.Fields("273 277 278 280 284 285 290 297 420 424 500 870 871 875 880 905 918 1025 1026 1112 1122 1123 1141 1142 1143 1144 1145 1146 1147 1148 1149 930 933 935 937 939 1364 1371 1388 1390 1399 037 1047 1140") {
		if !names["IBM-"+n] {
			t.Errorf("IBM-%s is missing", n)
		}
	}
}

func TestEOLNames(t *testing.T) {
	for _, e := range []EOL{LF, CRLF, NL} {
		for _, s := range []string{e.String(), strings.ToUpper(e.String())} {
			if got, err := ParseEOL(s); err != nil || got != e {
				t.Errorf("%s is %s, %v", s, got, err)
			}
		}
	}
	if e, err := ParseEOL(""); err != nil || e != Default {
		t.Errorf("nothing is %s, %v", e, err)
	}
	for _, s := range []string{"cr", "keep", "default", "\n"} {
		if _, err := ParseEOL(s); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%q: %v", s, err)
		}
	}
	if s := fmt.Sprint(EOL(99)); s != "eol-99" {
		t.Error(s)
	}
}
