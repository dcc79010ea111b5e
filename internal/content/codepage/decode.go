package codepage

import (
	"encoding/binary"
	"unicode/utf8"
)

// A decoder reads characters of a page. Its fields but page and table are part
// of a converter's state.
type decoder struct {
	page   *Page
	table  *table
	set    uint8 // the set that the text is in; in a page that shifts, 1 is between shift-out and shift-in
	little bool  // UTF-16 or UTF-32 with the least significant byte first
}

// next reads the character at the front of b, which must not be empty, and returns the number of bytes that it took. If
// that is 0 and the character is not alone, next needs more bytes.
func (d *decoder) next(b []byte) (rune, int) {
	switch d.page.form {
	case formSingle:
		return rune(d.table.first[b[0]]), 1
	case formUTF8:
		return nextUTF8(b)
	case formUTF16:
		return d.nextUTF16(b)
	case formUTF32:
		return d.nextUTF32(b)
	case formShift:
		return d.nextShift(b)
	case formPair:
		return d.nextPair(b)
	case formEscape:
		return d.nextEscape(b)
	}
	return d.table.nextMulti(b)
}

// nextUTF8 treats the malformed bytes that begin a character together as one, as chapter 3.9 of the Unicode Standard
// recommends. So decoding starts again at each position that is no continuation byte.
func nextUTF8(b []byte) (rune, int) {
	if b[0] < utf8.RuneSelf {
		return rune(b[0]), 1
	}

	if !utf8.FullRune(b) {
		return 0, 0
	}

	r, n := utf8.DecodeRune(b)
	if r != utf8.RuneError || n != 1 {
		return r, n
	}

	for n < len(b) && !utf8.FullRune(b[:n+1]) {
		n++
	}
	return bad, n
}

func (d *decoder) nextUTF16(b []byte) (rune, int) {
	if len(b) < 2 {
		return 0, 0
	}

	u := d.unit(b)
	switch {
	case u < 0xd800 || u >= 0xe000:
		return u, 2
	case u >= 0xdc00:
		return bad, 2
	case len(b) < 4:
		return 0, 0
	}

	low := d.unit(b[2:])
	if low < 0xdc00 || low >= 0xe000 {
		return bad, 2
	}
	return 0x10000 + (u-0xd800)<<10 + (low - 0xdc00), 4
}

func (d *decoder) unit(b []byte) rune {
	if d.little {
		return rune(binary.LittleEndian.Uint16(b))
	}
	return rune(binary.BigEndian.Uint16(b))
}

func (d *decoder) nextUTF32(b []byte) (rune, int) {
	if len(b) < 4 {
		return 0, 0
	}
	u := binary.BigEndian.Uint32(b)
	if d.little {
		u = binary.LittleEndian.Uint32(b)
	}
	if u > utf8.MaxRune || !utf8.ValidRune(rune(u)) {
		return bad, 4
	}
	return rune(u), 4
}

// otherMark reports whether b begins with the byte-order mark of the other order.
func (d *decoder) otherMark(b []byte) bool {
	other := decoder{page: d.page, little: !d.little}
	switch d.page.form {
	case formUTF16, formUTF32:
		r, _ := other.next(b)
		return r == mark
	}
	return false
}

// nextMulti takes only the first of malformed bytes if the next one could be a character of ASCII, so that no line end
// is lost.
func (t *table) nextMulti(b []byte) (rune, int) {
	v := t.first[b[0]]
	for n := 1; ; n++ {
		if v >= int32(bad) {
			if v == int32(bad) && n > 1 && b[n-1] < utf8.RuneSelf {
				n = 1
			}
			return rune(v), n
		}
		if n == len(b) {
			return 0, 0
		}
		if n == 1 && t.ranges != nil && '0' <= b[1] && b[1] <= '9' {
			return t.ranges.next(b)
		}
		v = t.rows[-2-v][b[n]]
	}
}

func (d *decoder) nextShift(b []byte) (rune, int) {
	c := b[0]
	if d.set == 0 {
		switch c {
		case shiftOut:
			d.set = 1
			return writesNothing, 1
		case shiftIn:
			return bad, 1
		}
		return rune(d.table.first[c]), 1
	}

	switch {
	case c == shiftIn:
		d.set = 0
		return writesNothing, 1
	case c < 0x40:
		d.set = 0
		return alone, 0
	case len(b) < 2:
		return 0, 0
	case b[1] < 0x40:
		return bad, 1
	}
	return d.nextPair(b)
}

// nextPair reads two bytes, also malformed ones.
func (d *decoder) nextPair(b []byte) (rune, int) {
	if len(b) < 2 {
		return 0, 0
	}
	v := d.table.wide[b[0]]
	if v == int32(bad) {
		return bad, 2
	}
	return rune(d.table.rows[-2-v][b[1]]), 2
}

// An encoder writes characters of a page. Its fields but page and table are
// part of a converter's state.
type encoder struct {
	page  *Page
	table *table
	set   uint8
}

// put appends a character, and reports whether the page has it.
func (e *encoder) put(dst []byte, r rune) ([]byte, bool) {
	switch e.page.form {
	case formUTF8:
		return utf8.AppendRune(dst, r), true
	case formUTF16:
		return e.putUTF16(dst, r), true
	case formUTF32:
		if e.page.little() {
			return binary.LittleEndian.AppendUint32(dst, uint32(r)), true
		}
		return binary.BigEndian.AppendUint32(dst, uint32(r)), true
	}
	code, ok := e.table.code(r)
	if !ok {
		return dst, false
	}
	return e.putCode(dst, code), true
}

func (e *encoder) putCode(dst []byte, code uint32) []byte {
	switch e.page.form {
	case formShift:
		if wide := code > 0xff; !wide {
			dst = e.endShift(dst)
		} else if e.set == 0 {
			e.set = 1
			dst = append(dst, shiftOut)
		}
	case formEscape:
		if set := uint8(code >> 24); set != e.set {
			e.set = set
			dst = append(dst, e.table.sets[set].call...)
		}
		code &= 0xffffff
	}
	return appendCode(dst, code)
}

// endShift ends a run of another set than the one that lines and texts must end in.
func (e *encoder) endShift(dst []byte) []byte {
	if e.set == 0 {
		return dst
	}
	e.set = 0
	if e.page.form == formShift {
		return append(dst, shiftIn)
	}
	return append(dst, e.table.sets[0].call...)
}

func (e *encoder) putUTF16(dst []byte, r rune) []byte {
	if r < 0x10000 {
		return e.putUnit(dst, uint16(r))
	}
	r -= 0x10000
	return e.putUnit(e.putUnit(dst, 0xd800+uint16(r>>10)), 0xdc00+uint16(r&0x3ff))
}

func (e *encoder) putUnit(dst []byte, u uint16) []byte {
	if e.page.little() {
		return binary.LittleEndian.AppendUint16(dst, u)
	}
	return binary.BigEndian.AppendUint16(dst, u)
}
