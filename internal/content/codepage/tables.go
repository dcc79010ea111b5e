package codepage

import (
	"bufio"
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"io"
	"slices"
	"sync"
	"unicode/utf8"
)

// tableVersion is part of a State's fingerprint: a conversion that began with other tables begins again.
const tableVersion = 1

// singleTable makes a table of the characters of the bytes 0 to 255. If two bytes have one character, the character is
// written as the byte that is not in decodeOnly.
func singleTable(chars []rune, decodeOnly string) *table {
	t := newTable()
	for i, r := range chars {
		if r == bad {
			continue
		}
		t.first[i] = r
		if !slices.Contains([]byte(decodeOnly), byte(i)) {
			t.setCode(r, uint32(i))
		}
	}
	return t
}

// generated returns the characters of a page of singleTables.
func generated(name string) []rune {
	chars := []rune(singleTables[name])
	for i, r := range chars {
		if r == utf8.RuneError {
			chars[i] = bad
		}
	}
	return chars
}

//go:embed multi.bin
var multiTables []byte

// A codes is a page of several bytes a character, or the double-byte half of a page that shifts.
type codes struct {
	decode [][3]uint32 // code, character, second character or 0
	encode [][2]uint32 // character, code
}

// published parses multi.bin; generate.go describes its format.
var published = sync.OnceValue(func() map[string]codes {
	data, err := io.ReadAll(flate.NewReader(bytes.NewReader(multiTables)))
	if err != nil {
		panic("internal error: the tables built into this program cannot be read: " + err.Error())
	}
	all := map[string]codes{}
	r := bufio.NewReader(bytes.NewReader(data))
	var last codes
	for {
		name, err := r.ReadString('\n')
		if err != nil {
			return all
		}
		if uvarint(r) == 0 {
			last = codes{}
			var code, char uint32
			for range uvarint(r) {
				code += uint32(uvarint(r))
				step, _ := binary.ReadVarint(r)
				char = uint32(int64(char) + step)
				last.decode = append(last.decode, [3]uint32{code, char, uint32(uvarint(r))})
			}
		}
		last.encode = nil
		var char uint32
		for range uvarint(r) {
			char += uint32(uvarint(r))
			last.encode = append(last.encode, [2]uint32{char, uint32(uvarint(r))})
		}
		all[name[:len(name)-1]] = last
	}
})

func uvarint(r io.ByteReader) uint64 {
	v, err := binary.ReadUvarint(r)
	if err != nil {
		panic("internal error: the tables built into this program end early")
	}
	return v
}

// shiftTable joins the two halves of a page that shifts. A character of both halves is written with one byte.
func shiftTable(name string) *table {
	t := singleTable(generated(name), "")
	t.wide = emptyRow()
	t.add(t.wide, published()[name])
	return t.relate()
}

// pairTable returns the double-byte half of a page that shifts, by itself.
func pairTable(name string) *table {
	t := newTable()
	t.wide = emptyRow()
	t.add(t.wide, published()[name])
	return t.relate()
}

// publishedTable returns a page of several bytes a character.
func publishedTable(name string) *table {
	t := newTable()
	t.add(&t.first, published()[name])
	return t.relate()
}

// plainASCII returns publishedTable with the bytes of ASCII for themselves. The published table has signs of its
// country for some of them, and swaps some controls.
func plainASCII(name string) *table {
	t := publishedTable(name)
	for i := range utf8.RuneSelf {
		r := t.first[i]
		if code, ok := t.code(r); r != rune(i) && ok && code == uint32(i) {
			t.setCode(r, noCode)
			t.near[r] = uint32(i)
		}
		t.first[i] = rune(i)
	}
	for i := range rune(utf8.RuneSelf) {
		t.setCode(i, uint32(i))
		delete(t.near, i)
	}
	return t
}

// add enters the codes of c in a row by their first byte. A character that has a code keeps it. A code that decodes to
// another character is for near relatives.
func (t *table) add(row *[256]int32, c codes) {
	for _, d := range c.decode {
		code, value := d[0], rune(d[1])
		if d[2] != 0 {
			value = t.pair(rune(d[1]), rune(d[2]), code)
		} else if _, ok := t.code(value); !ok {
			t.setCode(value, code)
		}
		t.set(row, appendCode(nil, code), value)
	}
	t.near = map[rune]uint32{}
	for _, e := range c.encode {
		if r := rune(e[0]); t.decoded(e[1]) == r {
			t.setCode(r, e[1])
		} else {
			t.near[r] = e[1]
		}
	}
}

// pair adds the two characters of one code and returns their value.
func (t *table) pair(a, b rune, code uint32) rune {
	if t.codings == nil {
		t.codings, t.opens = map[[2]rune]uint32{}, map[rune]bool{}
	}
	t.codings[[2]rune{a, b}] = code
	t.opens[a] = true
	t.pairs = append(t.pairs, [2]rune{a, b})
	return pairBase + rune(len(t.pairs)-1)
}
