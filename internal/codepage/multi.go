package codepage

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
)

// multiTable asks an encoding of golang.org/x/text for all sequences of one,
// two and, after the byte three, three bytes, and for the encodings of all
// characters up to limit. Its decoders give U+FFFD for what is no character.
func multiTable(e encoding.Encoding, three int, limit rune) *table {
	t := newTable()
	dec := e.NewDecoder()
	try := func(seq ...byte) bool {
		dec.Reset()
		var out [16]byte
		n, _, err := dec.Transform(out[:], seq, true)
		chars := []rune(string(out[:n]))
		if err != nil || slices.Contains(chars, utf8.RuneError) {
			return false
		}
		switch len(chars) {
		case 1:
			t.set(&t.first, seq, chars[0])
		case 2:
			if chars[1] < utf8.RuneSelf {
				return false // the last byte stands for itself
			}
			var code uint32
			for _, c := range seq {
				code = code<<8 | uint32(c)
			}
			t.set(&t.first, seq, t.pair(chars[0], chars[1], code))
		}
		return true
	}
	for a := range 256 {
		if try(byte(a)) {
			continue
		}
		for b := range 256 {
			if !try(byte(a), byte(b)) && a == three {
				for c := range 256 {
					try(byte(a), byte(b), byte(c))
				}
			}
		}
	}
	if limit > 0 {
		t.encodeBy(e, limit)
	}
	return t
}

// own gives the codes of an area to characters of the private use area, in
// order from r on, and gives the first character after them. 7F is no second
// byte, and what is taken stays.
func (t *table) own(r rune, lead, last, from, to int) rune {
	for a := lead; a <= last; a++ {
		for b := from; b <= to; b++ {
			if b == 0x7f {
				continue
			}
			if got, _ := t.nextMulti([]byte{byte(a), byte(b), 0, 0}); got == bad {
				t.set(&t.first, []byte{byte(a), byte(b)}, r)
			}
			r++
		}
	}
	return r
}

// relatives are signs of the pages of East Asia for which two vendors chose two
// characters of Unicode; a page has one of them.
var relatives = [][2]rune{{0x301c, 0xff5e}, {0x2016, 0x2225}, {0x2212, 0xff0d}, {0xa2, 0xffe0}, {0xa3, 0xffe1}, {0xac, 0xffe2}, {0xa6, 0xffe4}, {0x2014, 0x2015}}

func (t *table) relate() *table {
	for _, pair := range relatives {
		for i, r := range pair {
			_, has := t.code(r)
			if code, ok := t.code(pair[1-i]); ok && !has {
				t.near[r] = code
			}
		}
	}
	return t
}

// shiftJISTable adds the area for characters of one's own, F040 to F9FC, which
// golang.org/x/text leaves out.
func shiftJISTable() *table {
	t := multiTable(japanese.ShiftJIS, -1, 0)
	t.own(0xe000, 0xf0, 0xf9, 0x40, 0xfc)
	t.encodeBy(japanese.ShiftJIS, 0x10000)
	return t.relate()
}

func eucJPTable() *table { return multiTable(japanese.EUCJP, 0x8f, 0x10000).relate() }

// encodeBy asks an encoding for the codes of all characters up to limit. Those
// that stand for another character are for near relatives. A character that
// has none then gets the code that it is decoded from.
func (t *table) encodeBy(e encoding.Encoding, limit rune) {
	t.near = map[rune]uint32{}
	enc := e.NewEncoder()
	var in, out [8]byte
	for r := rune(0); r < limit; r++ {
		if 0xd800 <= r && r < 0xe000 {
			continue
		}
		enc.Reset()
		n, _, err := enc.Transform(out[:], in[:utf8.EncodeRune(in[:], r)], true)
		if err != nil {
			continue
		}
		var code uint32
		for _, c := range out[:n] {
			code = code<<8 | uint32(c)
		}
		switch t.decoded(code) {
		case r:
			t.setCode(r, code)
		case bad:
		default:
			t.near[r] = code
		}
	}
	t.each(func(code uint32, r rune) {
		if _, ok := t.code(r); !ok && r < pairBase {
			t.setCode(r, code)
		}
	})
}

// fourBytes are the sequences of four bytes of GB18030, counted from 81308130
// on: the first 39,420 are the rest of the basic plane in order of code point,
// and 90308130 begins the planes above it.
type fourBytes struct {
	low [39420]uint16
}

const (
	fourAbove = (0x90 - 0x81) * 10 * 126 * 10 // the count at 90308130
	fourTop   = fourAbove + 0x100000
)

// next reads a sequence whose second byte is a digit.
func (f *fourBytes) next(b []byte) (rune, int) {
	switch {
	case len(b) < 3:
		return 0, 0
	case b[2] < 0x81 || b[2] == 0xff:
		return bad, 1
	case len(b) < 4:
		return 0, 0
	case b[3] < '0' || b[3] > '9':
		return bad, 1
	}
	i := ((int(b[0])-0x81)*10+int(b[1]-'0'))*1260 + int(b[2]-0x81)*10 + int(b[3]-'0')
	switch {
	case i < len(f.low) && f.low[i] != 0:
		return rune(f.low[i]), 4
	case fourAbove <= i && i < fourTop:
		return 0x10000 + rune(i-fourAbove), 4
	}
	return bad, 4
}

// bytesOf is the sequence of a count.
func (*fourBytes) bytesOf(i int) uint32 {
	return uint32(0x81+i/12600)<<24 | uint32('0'+i/1260%10)<<16 | uint32(0x81+i/10%126)<<8 | uint32('0'+i%10)
}

// code is that of a character above what the table holds.
func (f *fourBytes) code(r rune) (uint32, bool) {
	if r < 0x10000 || r > utf8.MaxRune {
		return 0, false
	}
	return f.bytesOf(fourAbove + int(r-0x10000)), true
}

// gb18030Table adds the sequences of four bytes to those of two, and the areas
// for characters of one's own, which golang.org/x/text leaves out: AAA1 to
// AFFE, F8A1 to FEFE and A140 to A7A0 are U+E000 to U+E765.
func gb18030Table() *table {
	e := simplifiedchinese.GB18030
	t := multiTable(e, -1, 0)
	own := t.own(0xe000, 0xaa, 0xaf, 0xa1, 0xfe)
	own = t.own(own, 0xf8, 0xfe, 0xa1, 0xfe)
	t.own(own, 0xa1, 0xa7, 0x40, 0xa0)
	f := &fourBytes{}
	dec := e.NewDecoder()
	for i := range f.low {
		var in, out [8]byte
		binary.BigEndian.PutUint32(in[:], f.bytesOf(i))
		dec.Reset()
		n, _, err := dec.Transform(out[:], in[:4], true)
		r, size := utf8.DecodeRune(out[:n])
		if err != nil || size != n || r == utf8.RuneError && f.bytesOf(i) != 0x8431a437 {
			continue
		}
		f.low[i] = uint16(r)
	}
	t.ranges, t.width = f, 4
	t.encodeBy(e, 0x10000)
	return t
}
