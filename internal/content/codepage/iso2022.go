package codepage

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/korean"
)

// A charset is one of the sets of characters that a page of ISO 2022 switches between. The highest of the four bytes of
// a code in the table is the index of its set.
type charset struct {
	row    *[256]int32 // of the first byte
	double bool        // a character has two bytes, 21 to 7E; a line must not end in the set
	call   string      // the bytes that select the set
}

// A setSelection is a sequence of bytes that selects a set.
type setSelection struct {
	bytes string
	set   uint8
}

// sameSet stands for a call that selects no set, such as the announcement at the beginning of ISO-2022-KR.
const sameSet = 0xff

const (
	escape    = 0x1b
	koreanKSX = "\x1b$)C" // RFC 1557: once, at the beginning of a line, before the first shift-out
)

// iso2022 makes a table of ASCII and further sets. ESC, SO and SI are no characters. A text may have the calls of the
// sets and the other calls.
func iso2022(ascii string, others ...setSelection) *table {
	t := &table{width: 2, first: *emptyRow(), near: map[rune]uint32{}, calls: others}
	t.asciiSet(ascii, &t.first)
	for i := range t.first[:utf8.RuneSelf] {
		if r := t.first[i]; r >= 0 {
			t.setCode(r, uint32(i))
		}
	}
	return t
}

// asciiSet adds a set of one byte a character that begins as ASCII.
func (t *table) asciiSet(call string, row *[256]int32) {
	for i := range rune(utf8.RuneSelf) {
		if i != escape && i != shiftOut && i != shiftIn {
			row[i] = i
		}
	}
	t.addSet(charset{row: row, call: call})
}

// addSet adds a set and its call, and returns the mark of its codes.
func (t *table) addSet(s charset) uint32 {
	t.calls = append(t.calls, setSelection{s.call, uint8(len(t.sets))})
	t.sets = append(t.sets, s)
	return uint32(len(t.sets)-1) << 24
}

// iso2022JPTable returns the table of RFC 1468, with the half-width katakana that Java and Windows write in a set of
// their own. JIS X 0208 of 1978 is read as that of 1983.
func iso2022JPTable() *table {
	t := iso2022("\x1b(B", setSelection{"\x1b$@", 2})
	roman := emptyRow()
	t.asciiSet("\x1b(J", roman)
	for i, r := range map[byte]rune{'\\': '¥', '~': '‾'} {
		roman[i] = r
		t.setCode(r, 1<<24|uint32(i))
	}

	wide := emptyRow()
	mark := t.addSet(charset{row: wide, double: true, call: "\x1b$B"})
	for _, d := range published()["JIS-X-0208"].decode {
		t.set(wide, appendCode(nil, d[0]), rune(d[1]))
		t.setCode(rune(d[1]), mark|d[0])
	}

	kana := emptyRow()
	t.asciiSet("\x1b(I", kana)
	for i := 0x21; i < utf8.RuneSelf; i++ {
		kana[i] = int32(bad)
		if i < 0x60 {
			kana[i] = 0xff61 + int32(i-0x21)
			t.setCode(kana[i], 3<<24|uint32(i))
		}
	}
	return t.relate()
}

// iso2022KRTable returns the table of RFC 1557. KS X 1001 is EUC-KR without the highest bits.
func iso2022KRTable() *table {
	t := iso2022("\x0f", setSelection{koreanKSX, sameSet})
	wide := emptyRow()
	mark := t.addSet(charset{row: wide, double: true, call: "\x0e"})
	multiTable(korean.EUCKR, -1, 0).each(func(code uint32, r rune) {
		if code&0x8080 == 0x8080 && code>>8 > 0xa0 && code&0xff > 0xa0 {
			t.set(wide, appendCode(nil, code&0x7f7f), r)
			t.setCode(r, mark|code&0x7f7f)
		}
	})
	return t.relate()
}

// nextEscape reads a page of ISO 2022. A byte that is no part of a character of
// two bytes ends their set, as a line end does.
func (d *decoder) nextEscape(b []byte) (rune, int) {
	c := b[0]
	if c == escape || c == shiftOut || c == shiftIn {
		return d.nextSelection(b)
	}

	s := &d.table.sets[d.set]
	switch {
	case !s.double:
		return rune(s.row[c]), 1
	case c <= ' ' || c == 0x7f:
		d.set = 0
		return alone, 0
	case c > 0x7f:
		return bad, 1
	case len(b) < 2:
		return 0, 0
	case b[1] <= ' ' || b[1] >= 0x7f:
		return bad, 1
	case s.row[c] == int32(bad):
		return bad, 2
	}
	return rune(d.table.rows[-2-s.row[c]][b[1]]), 2
}

// nextSelection reads a call.
func (d *decoder) nextSelection(b []byte) (rune, int) {
	begun := false
	for _, c := range d.table.calls {
		if n := min(len(b), len(c.bytes)); string(b[:n]) == c.bytes[:n] {
			if n < len(c.bytes) {
				begun = true
				continue
			}
			if c.set != sameSet {
				d.set = c.set
			}
			return writesNothing, n
		}
	}
	if begun {
		return 0, 0
	}
	return bad, 1
}

// open reports whether the text must not end here.
func (d *decoder) open() bool {
	if d.page.form == formEscape {
		return d.table.sets[d.set].double
	}
	return d.set != 0
}

// lone returns the Reason for a text that ends while open.
func (d *decoder) lone() Reason {
	if d.page.form == formEscape && strings.HasPrefix(d.table.sets[0].call, "\x1b") {
		return LoneEscape
	}
	return LoneShift
}

// sets returns the number of sets that a text of the page may be in.
func (p *Page) sets() uint8 {
	switch p.form {
	case formShift:
		return 2
	case formEscape:
		return uint8(len(p.table().sets))
	}
	return 1
}
