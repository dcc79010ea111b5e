package codepage

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
)

// multiTable decodes all sequences of one, two and, after the byte three, three bytes with an encoding of
// golang.org/x/text, and encodes all characters up to limit. The encoding's decoders return U+FFFD for bytes that are
// no character.
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

// own assigns the codes of an area to characters of the private use area, in order from r on, and returns the character
// after them. 7F is no second byte, and codes with a character keep it.
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

// relatives are signs of the pages of East Asia with two characters in Unicode, chosen by two vendors. A page has one
// of them.
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

// shiftJISTable adds the user-defined area, F040 to F9FC, which golang.org/x/text omits.
func shiftJISTable() *table {
	t := multiTable(japanese.ShiftJIS, -1, 0)
	t.own(0xe000, 0xf0, 0xf9, 0x40, 0xfc)
	t.encodeBy(japanese.ShiftJIS, 0x10000)
	return t.relate()
}

func eucJPTable() *table { return multiTable(japanese.EUCJP, 0x8f, 0x10000).relate() }

// encodeBy takes the codes of all characters up to limit from an encoding. A code that decodes to another character is
// for near relatives. A character without a code then gets the code that decodes to it.
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

// fourBytes holds the sequences of four bytes of GB18030, counted from 81308130: the first 39,420 are the rest of the
// basic plane in order of code point, and 90308130 begins the planes above it.
type fourBytes struct {
	low [39420]uint16
}

const (
	fourAbove = (0x90 - 0x81) * 10 * 126 * 10 // the count at 90308130
	fourTop   = fourAbove + 0x100000
)

// next reads a sequence with a digit as its second byte.
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

// bytesOf returns the sequence of a count.
func (*fourBytes) bytesOf(i int) uint32 {
	return uint32(0x81+i/12600)<<24 | uint32('0'+i/1260%10)<<16 | uint32(0x81+i/10%126)<<8 | uint32('0'+i%10)
}

// code returns the code of a character above the range of the table.
func (f *fourBytes) code(r rune) (uint32, bool) {
	if r < 0x10000 || r > utf8.MaxRune {
		return 0, false
	}
	return f.bytesOf(fourAbove + int(r-0x10000)), true
}

// gbRest are the codes between the others that GB 18030-2000 gave temporarily to the private use area, and that
// golang.org/x/text omits: from first to last, the characters from char on.
var gbRest = []struct{ first, last, char rune }{
	{0xa2ab, 0xa2b0, 0xe766}, {0xa2e4, 0xa2e4, 0xe76d}, {0xa2ef, 0xa2f0, 0xe76e}, {0xa2fd, 0xa2fe, 0xe770}, {0xa4f4, 0xa4fe, 0xe772}, {0xa5f7, 0xa5fe, 0xe77d},
	{0xa6b9, 0xa6c0, 0xe785}, {0xa6d9, 0xa6df, 0xe78d}, {0xa6ec, 0xa6ed, 0xe794}, {0xa6f3, 0xa6f3, 0xe796}, {0xa6f6, 0xa6fe, 0xe797}, {0xa7c2, 0xa7d0, 0xe7a0},
	{0xa7f2, 0xa7fe, 0xe7af}, {0xa896, 0xa8a0, 0xe7bc}, {0xa8bc, 0xa8bc, 0xe7c7}, {0xa8c1, 0xa8c4, 0xe7c9}, {0xa8ea, 0xa8fe, 0xe7cd}, {0xa958, 0xa958, 0xe7e2},
	{0xa95b, 0xa95b, 0xe7e3}, {0xa95d, 0xa95f, 0xe7e4}, {0xa997, 0xa9a3, 0xe7f4}, {0xa9f0, 0xa9fe, 0xe801}, {0xd7fa, 0xd7fe, 0xe810}, {0xfe51, 0xfe53, 0xe816},
	{0xfe59, 0xfe59, 0xe81e}, {0xfe61, 0xfe61, 0xe826}, {0xfe66, 0xfe67, 0xe82b}, {0xfe6c, 0xfe6d, 0xe831}, {0xfe76, 0xfe76, 0xe83b}, {0xfe7e, 0xfe7e, 0xe843},
	{0xfe90, 0xfe91, 0xe854}, {0xfea0, 0xfea0, 0xe864},
}

// gb18030Table adds the sequences of four bytes to those of two. It also adds the user-defined areas that
// golang.org/x/text omits: AAA1 to AFFE, F8A1 to FEFE and A140 to A7A0 are U+E000 to U+E765.
func gb18030Table() *table {
	e := simplifiedchinese.GB18030
	t := multiTable(e, -1, 0)
	own := t.own(0xe000, 0xaa, 0xaf, 0xa1, 0xfe)
	own = t.own(own, 0xf8, 0xfe, 0xa1, 0xfe)
	t.own(own, 0xa1, 0xa7, 0x40, 0xa0)
	for _, run := range gbRest {
		for i := range run.last - run.first + 1 {
			t.set(&t.first, []byte{byte((run.first + i) >> 8), byte(run.first + i)}, run.char+i)
		}
	}

	t.set(&t.first, []byte{0xa3, 0xa0}, 0xe5e5)
	t.first[0x80] = int32(bad) // the euro sign of GBK
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
