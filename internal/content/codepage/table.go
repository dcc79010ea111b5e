package codepage

import (
	"unicode/utf8"
)

// Results of a decoder that are no characters.
const (
	bad           rune = -1 // the bytes are no character
	writesNothing rune = -2 // the bytes were a shift
	alone         rune = -3 // a shift-out without its shift-in: no byte was taken
)

// pairBase is the first of the values that stand for two characters, such as a letter and a mark without a single
// character in Unicode.
const pairBase = utf8.MaxRune + 1

const noCode = ^uint32(0)

// A table has both directions of a page. A value of a decoding row is a character, pairBase plus an index into pairs,
// or bad. For a byte that begins a longer sequence it is -2-k; k is the row of the next byte.
type table struct {
	first [256]int32
	wide  *[256]int32 // the first of two bytes between shifts
	rows  []*[256]int32
	pairs [][2]rune
	width int

	// codes has, for a character r, at codes[r>>8][r&0xff] its bytes, most
	// significant first; noCode if it has none.
	codes   [0x300]*[256]uint32
	codings map[[2]rune]uint32 // of pairs
	near    map[rune]uint32    // codes of characters that decode to other ones; used only if there is no exact code
	opens   map[rune]bool      // the first characters of pairs

	ranges *fourBytes // of GB18030
	sets   []charset  // of ISO 2022
	calls  []setSelection
}

func newTable() *table {
	return &table{width: 1, first: *emptyRow()}
}

// emptyRow returns a row without characters.
func emptyRow() *[256]int32 {
	r := new([256]int32)
	for i := range r {
		r[i] = int32(bad)
	}
	return r
}

// row adds an empty row and returns its index.
func (t *table) row() int32 {
	t.rows = append(t.rows, emptyRow())
	return int32(len(t.rows) - 1)
}

// code returns the encoding of a character.
func (t *table) code(r rune) (uint32, bool) {
	if uint32(r) < uint32(len(t.codes))<<8 {
		if page := t.codes[r>>8]; page != nil {
			c := page[r&0xff]
			return c, c != noCode
		}
	}
	if t.ranges != nil {
		return t.ranges.code(r)
	}
	return 0, false
}

func (t *table) setCode(r rune, code uint32) {
	page := t.codes[r>>8]
	if page == nil {
		page = new([256]uint32)
		for i := range page {
			page[i] = noCode
		}
		t.codes[r>>8] = page
	}
	page[r&0xff] = code
}

// set adds a sequence of one to four bytes and the value that it stands for.
func (t *table) set(row *[256]int32, seq []byte, value int32) {
	t.width = max(t.width, len(seq))
	for len(seq) > 1 {
		next := row[seq[0]]
		if next >= -1 {
			next = -2 - t.row()
			row[seq[0]] = next
		}
		row, seq = t.rows[-2-next], seq[1:]
	}
	row[seq[0]] = value
}

// appendCode appends a code's bytes.
func appendCode(dst []byte, code uint32) []byte {
	switch {
	case code < 1<<8:
		return append(dst, byte(code))
	case code < 1<<16:
		return append(dst, byte(code>>8), byte(code))
	case code < 1<<24:
		return append(dst, byte(code>>16), byte(code>>8), byte(code))
	}
	return append(dst, byte(code>>24), byte(code>>16), byte(code>>8), byte(code))
}

// decoded returns the character of a code, bad if there is none.
func (t *table) decoded(code uint32) rune {
	if t.sets != nil {
		d := decoder{page: &Page{form: formEscape}, table: t, set: uint8(code >> 24)}
		r, _ := d.next(appendCode(nil, code&0xffffff))
		return r
	}
	b := appendCode(nil, code)
	if t.wide != nil && len(b) == 2 {
		if row := t.wide[b[0]]; row < int32(bad) {
			return rune(t.rows[-2-row][b[1]])
		}
		return bad
	}
	if r, n := t.nextMulti(b); n == len(b) {
		return r
	}
	return bad
}

// each calls f for every code but the four bytes of GB18030.
func (t *table) each(f func(code uint32, r rune)) {
	var walk func(row *[256]int32, before, mark uint32)
	walk = func(row *[256]int32, before, mark uint32) {
		for i, v := range row {
			code := before<<8 | uint32(i)
			switch {
			case v >= 0:
				f(mark|code, rune(v))
			case v < int32(bad):
				walk(t.rows[-2-v], code, mark)
			}
		}
	}
	walk(&t.first, 0, 0)
	if t.wide != nil {
		walk(t.wide, 0, 0)
	}
	for i := 1; i < len(t.sets); i++ { // the first set is t.first
		walk(t.sets[i].row, 0, uint32(i)<<24)
	}
}
