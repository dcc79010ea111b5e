package codepage

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// Most characters of a text need no state. A fast loop converts those at the front of a piece. It stops at the first
// byte that needs more: a CR, a line end of several bytes, or a missing or malformed character. The converter handles
// that one in a single step, so that both together give the result of single steps.

// quick holds the tables of the fast loops.
type quick struct {
	bytes [256]uint16 // the byte for a byte, or for a character of ASCII, or special
	utf   [256]uint32 // a byte's UTF-8, first byte lowest, its length from bit 24 on; special if there is none
	ascii [256]bool   // bytes below 0x80 that do not change
	low   []uint16    // U+0080 to U+07FF: byte or special
	ends  []byte      // the source's line ends, unless they are special
	stops []byte      // the bytes that stop the loop between UTF-8 and UTF-8
	opens map[rune]bool
}

const (
	special  = 0x100
	specials = 1 << 31
)

// quickly chooses the loop for a conversion.
func quickly(c *Converter) (func(*Converter, []byte, []byte) ([]byte, int), *quick) {
	from, to := c.opt.From, c.opt.To
	q := &quick{}
	switch {
	case from.form == formSingle && to.form == formSingle:
		q.fromSingle(c)
		return (*Converter).singleToSingle, q
	case from.form == formSingle && to.form == formUTF8:
		q.fromSingle(c)
		return (*Converter).singleToUTF8, q
	case from.form == formUTF8 && to.form == formSingle:
		q.toSingle(c)
		return (*Converter).utf8ToSingle, q
	case from.form == formUTF8 && to.form == formUTF8 && (!c.nel || c.lineEnd == nil): // a line end of two bytes needs the loop for characters
		q.between(c)
		return (*Converter).utf8ToUTF8, q
	}

	if from.likeASCII() && to.likeASCII() {
		q.alike(c)
	}

	q.toOne(c)
	return (*Converter).characters, q
}

// likeASCII reports whether the bytes of ASCII stand for themselves at the beginning of each character.
func (p *Page) likeASCII() bool {
	if p.form == formUTF8 {
		return true
	}

	if p.form != formSingle && p.form != formMulti {
		return false
	}

	t := p.table()
	for r := rune(0); r < utf8.RuneSelf; r++ {
		if code, ok := t.code(r); t.first[r] != r || !ok || code != uint32(r) {
			return false
		}
	}
	return true
}

// line returns the destination's byte for a line end of one character, if it is one byte.
func (c *Converter) line(r rune) (byte, bool) {
	if r == '\n' || r == nextLine && c.nel {
		if len(c.lineEnd) == 1 {
			return c.lineEnd[0], true
		}
	}
	return 0, false
}

// isLine reports whether a character is part of a line end.
func (c *Converter) isLine(r rune) bool {
	return r == '\n' || r == nextLine && c.nel || r == '\r' && c.lineEnd != nil
}

func (q *quick) fromSingle(c *Converter) {
	for i := range 256 {
		q.bytes[i], q.utf[i] = special, specials
		r := c.dec.table.first[i]
		switch {
		case r == bad:
		case c.isLine(r):
			q.lineByte(c, byte(i), r)
		default:
			if to := c.enc.table; to != nil {
				if code, ok := to.code(r); ok {
					q.bytes[i] = uint16(code)
				}
			}
			q.utf[i] = utfEntry(utf8.AppendRune(nil, r))
		}
	}
}

// lineByte enters a line end that is written as one byte or in UTF-8.
func (q *quick) lineByte(c *Converter, from byte, r rune) {
	if to, ok := c.line(r); ok {
		q.bytes[from] = uint16(to)
	}
	if r != '\r' && c.lineEnd != nil {
		q.utf[from] = utfEntry(c.lineEnd)
		q.ends = append(q.ends, from)
	}
}

func utfEntry(b []byte) uint32 {
	v := uint32(len(b)) << 24
	for i, c := range b {
		v |= uint32(c) << (8 * i)
	}
	return v
}

func (q *quick) toSingle(c *Converter) {
	q.low = make([]uint16, 0x800)
	for r := range rune(0x800) {
		v := uint16(special)
		if code, ok := c.enc.table.code(r); ok && !c.isLine(r) {
			v = uint16(code)
		}
		if r < utf8.RuneSelf {
			q.bytes[r] = v
		}
		q.low[r] = v
	}

	for r := utf8.RuneSelf; r < 256; r++ {
		q.bytes[r] = special
	}

	q.lineByte(c, '\n', '\n')
}

func (q *quick) between(c *Converter) {
	if c.lineEnd == nil {
		q.ends = []byte{'\n'}
		return
	}
	q.stops = []byte{'\r'}
	if c.opt.ToEOL == LF {
		q.ends = []byte{'\n'}
	} else {
		q.stops = []byte{'\n', '\r'} // the frequent one first
	}
}

func (q *quick) alike(c *Converter) {
	for r := range rune(utf8.RuneSelf) {
		q.ascii[r] = !c.isLine(r)
	}
	if b, ok := c.line('\n'); ok && b == '\n' {
		q.ascii['\n'] = true
		q.ends = []byte{'\n'}
	}
}

// toOne enters the characters of ASCII that the destination writes as one byte.
func (q *quick) toOne(c *Converter) {
	to := c.opt.To
	if c.enc.table != nil {
		q.opens = c.enc.table.opens
	}

	for r := range rune(utf8.RuneSelf) {
		q.bytes[r] = special
		if c.isLine(r) {
			continue
		}
		if to.form == formUTF8 {
			q.bytes[r] = uint16(r)
		} else if c.enc.table != nil {
			if code, ok := c.enc.table.code(r); ok && code < special {
				q.bytes[r] = uint16(code)
			}
		}
	}
}

// count counts the line ends of a piece that a fast loop took.
func (q *quick) count(c *Converter, src []byte) {
	for _, e := range q.ends {
		c.st.Line += int64(bytes.Count(src, []byte{e}))
	}
}

func (c *Converter) singleToSingle(dst, src []byte) ([]byte, int) {
	q := c.quick
	t := &q.bytes
	dst = slices.Grow(dst, len(src))
	out := dst[len(dst) : len(dst)+len(src)]
	i := 0
	for ; i+8 <= len(src) && i+8 <= len(out); i += 8 {
		s, o := src[i:i+8:i+8], out[i:i+8:i+8]
		a, b, d, e := t[s[0]], t[s[1]], t[s[2]], t[s[3]]
		f, g, h, j := t[s[4]], t[s[5]], t[s[6]], t[s[7]]
		if (a|b|d|e|f|g|h|j)&special != 0 {
			break
		}
		o[0], o[1], o[2], o[3] = byte(a), byte(b), byte(d), byte(e)
		o[4], o[5], o[6], o[7] = byte(f), byte(g), byte(h), byte(j)
	}

	for ; i < len(src); i++ {
		v := t[src[i]]
		if v&special != 0 {
			break
		}
		out[i] = byte(v)
	}

	q.count(c, src[:i])
	return dst[:len(dst)+i], i
}

func (c *Converter) singleToUTF8(dst, src []byte) ([]byte, int) {
	dst = slices.Grow(dst, 3*len(src)+8)
	took, gave := c.quick.toUTF8(dst[len(dst):cap(dst)], src)
	c.quick.count(c, src[:took])
	return dst[:len(dst)+gave], took
}

// toUTF8 converts bytes of a single-byte page up to a special one, and returns the numbers of bytes taken and written.
// It may write four bytes more.
func (q *quick) toUTF8(out, src []byte) (took, gave int) {
	t := &q.utf
	i, n := 0, 0
	for i+8 <= len(src) {
		s := src[i : i+8 : i+8]
		a, b, d, e := t[s[0]], t[s[1]], t[s[2]], t[s[3]]
		f, g, h, j := t[s[4]], t[s[5]], t[s[6]], t[s[7]]
		all := a | b | d | e | f | g | h | j
		if all >= specials {
			break
		}
		if all>>24 == 1 {
			o := out[n : n+8 : n+8]
			o[0], o[1], o[2], o[3] = byte(a), byte(b), byte(d), byte(e)
			o[4], o[5], o[6], o[7] = byte(f), byte(g), byte(h), byte(j)
			n += 8
		} else {
			for _, v := range [8]uint32{a, b, d, e, f, g, h, j} {
				binary.LittleEndian.PutUint32(out[n:], v)
				n += int(v >> 24)
			}
		}
		i += 8
	}

	for ; i < len(src); i++ {
		v := t[src[i]]
		if v >= specials {
			break
		}
		binary.LittleEndian.PutUint32(out[n:], v)
		n += int(v >> 24)
	}
	return i, n
}

const highBits = 0x8080808080808080

func (c *Converter) utf8ToSingle(dst, src []byte) ([]byte, int) {
	dst = slices.Grow(dst, len(src))
	took, gave := c.fromUTF8(dst[len(dst):len(dst)+len(src)], src)
	c.quick.count(c, src[:took])
	return dst[:len(dst)+gave], took
}

// fromUTF8 converts characters up to a special one, and returns the numbers of bytes taken and written.
func (c *Converter) fromUTF8(out, src []byte) (took, gave int) {
	t, low := &c.quick.bytes, c.quick.low
	i, n := 0, 0
	for i < len(src) {
		for i+8 <= len(src) && n+8 <= len(out) {
			s := src[i : i+8 : i+8]
			if binary.LittleEndian.Uint64(s)&highBits != 0 {
				break
			}
			a, b, d, e := t[s[0]], t[s[1]], t[s[2]], t[s[3]]
			f, g, h, j := t[s[4]], t[s[5]], t[s[6]], t[s[7]]
			if (a|b|d|e|f|g|h|j)&special != 0 {
				break
			}
			o := out[n : n+8 : n+8]
			o[0], o[1], o[2], o[3] = byte(a), byte(b), byte(d), byte(e)
			o[4], o[5], o[6], o[7] = byte(f), byte(g), byte(h), byte(j)
			i, n = i+8, n+8
		}
		// Runs of ASCII end at the next other character or at a special byte.
		for i < len(src) && t[src[i]]&special == 0 {
			out[n] = byte(t[src[i]])
			i, n = i+1, n+1
		}
		from := i
		for i+1 < len(src) && src[i] >= 0xc2 && src[i] < 0xe0 && src[i+1]&0xc0 == 0x80 {
			v := low[int(src[i]&0x1f)<<6|int(src[i+1]&0x3f)]
			if v&special != 0 {
				break
			}
			out[n] = byte(v)
			i, n = i+2, n+1
		}
		if i > from || i >= len(src) {
			continue
		}
		v, size := c.threeByteCode(src[i:])
		if size == 0 {
			break
		}
		out[n] = byte(v)
		i, n = i+size, n+1
	}
	return i, n
}

// threeByteCode looks up a character of three bytes. Its length is 0 if the bytes are no character or the character has no code.
func (c *Converter) threeByteCode(b []byte) (uint16, int) {
	r, n := utf8.DecodeRune(b)
	if n != 3 {
		return 0, 0
	}
	if code, ok := c.enc.table.code(r); ok {
		return uint16(code), n
	}
	return 0, 0
}

// maxRun bounds the bytes that utf8ToUTF8 searches for a stop. It searches again after each stop, and a text full of
// stops must not cost the square of its length.
const maxRun = 16 << 10

// utf8ToUTF8 copies valid text up to the next byte that may be part of a line end.
func (c *Converter) utf8ToUTF8(dst, src []byte) ([]byte, int) {
	n := min(len(src), maxRun)
	for _, stop := range c.quick.stops {
		if i := bytes.IndexByte(src[:n], stop); i >= 0 {
			n = i
		}
	}

	for back := 1; back < utf8.UTFMax && back <= n; back++ {
		if utf8.RuneStart(src[n-back]) {
			if !utf8.FullRune(src[n-back : n]) {
				n -= back
			}
			break
		}
	}

	if !utf8.Valid(src[:n]) {
		n = validPart(src[:n])
	}

	c.quick.count(c, src[:n])
	return append(dst, src[:n]...), n
}

// validPart returns the length of b before its first malformed byte.
func validPart(b []byte) int {
	i := 0
	for i < len(b) {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return i
}

// characters is the loop for all other pages. It copies runs of ASCII if both pages have ASCII alike, and converts
// characters that both pages have.
func (c *Converter) characters(dst, src []byte) ([]byte, int) {
	q := c.quick
	i := 0
	for i < len(src) {
		from := i
		for i < len(src) && q.ascii[src[i]] {
			i++
		}
		dst = append(dst, src[from:i]...)
		if i == len(src) {
			break
		}
		set := c.dec.set
		r, n := rune(src[i]), 1
		if r >= utf8.RuneSelf || c.opt.From.form != formUTF8 {
			r, n = c.dec.next(src[i:])
		}
		if uint32(r) < utf8.RuneSelf && n > 0 && q.bytes[r]&special == 0 && c.enc.set == 0 {
			dst = append(dst, byte(q.bytes[r]))
			i += n
			continue
		}
		if r != writesNothing {
			if n == 0 || r < 0 || r >= pairBase || c.isLine(r) || q.opens != nil && q.opens[r] {
				c.dec.set = set
				break
			}
			var ok bool
			if dst, ok = c.enc.put(dst, r); !ok {
				break
			}
		}
		i += n
	}

	q.count(c, src[:i])
	return dst, i
}
