package codepage

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"io"
	"slices"
	"sync"
	"unicode/utf8"
)

// tableVersion is part of what a State belongs to: a conversion begun with
// other tables is begun again.
const tableVersion = 1

// singleTable has the characters of the bytes 0 to 255. Where two bytes are one
// character, it is written as that one that is not among decodeOnly.
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

// generated gives the characters of a page of singleTables.
func generated(number int) []rune {
	chars := []rune(singleTables[number])
	for i, r := range chars {
		if r == utf8.RuneError {
			chars[i] = bad
		}
	}
	return chars
}

//go:embed double.bin
var doubleTables []byte

// A double is the double-byte half of a page that shifts.
type double struct {
	decode [][3]uint32 // pair, character, second character or 0
	encode [][2]uint32 // character, code
}

// doubles reads double.bin, whose form generate.go states.
var doubles = sync.OnceValue(func() map[int]double {
	data, err := io.ReadAll(flate.NewReader(bytes.NewReader(doubleTables)))
	if err != nil {
		panic("internal error: the tables built into this program cannot be read: " + err.Error())
	}
	all := map[int]double{}
	r := bytes.NewReader(data)
	var last double
	for r.Len() > 0 {
		number := int(uvarint(r))
		if uvarint(r) == 0 {
			last = double{}
			var pair, char uint32
			for range uvarint(r) {
				pair += uint32(uvarint(r))
				step, _ := binary.ReadVarint(r)
				char = uint32(int64(char) + step)
				last.decode = append(last.decode, [3]uint32{pair, char, uint32(uvarint(r))})
			}
		}
		last.encode = nil
		var char uint32
		for range uvarint(r) {
			char += uint32(uvarint(r))
			last.encode = append(last.encode, [2]uint32{char, uint32(uvarint(r))})
		}
		all[number] = last
	}
	return all
})

func uvarint(r *bytes.Reader) uint64 {
	v, err := binary.ReadUvarint(r)
	if err != nil {
		panic("internal error: the tables built into this program end early")
	}
	return v
}

// shiftTable joins the two halves of a page that shifts. A character of both is
// written with one byte.
func shiftTable(number int) *table {
	t := singleTable(generated(number), "")
	d := doubles()[number]
	t.wide = new([256]int32)
	for i := range t.wide {
		t.wide[i] = int32(bad)
	}
	for _, e := range d.decode {
		value := rune(e[1])
		if e[2] != 0 {
			value = t.pair(rune(e[1]), rune(e[2]), e[0])
		} else if _, ok := t.code(value); !ok {
			t.setCode(value, e[0])
		}
		t.set(t.wide, []byte{byte(e[0] >> 8), byte(e[0])}, value)
	}
	t.near = map[rune]uint32{}
	for _, e := range d.encode {
		if r := rune(e[0]); t.decoded(e[1]) == r {
			t.setCode(r, e[1])
		} else {
			t.near[r] = e[1]
		}
	}
	return t.relate()
}

// pair adds two characters that one code stands for and gives their value.
func (t *table) pair(a, b rune, code uint32) rune {
	if t.codings == nil {
		t.codings, t.opens = map[[2]rune]uint32{}, map[rune]bool{}
	}
	t.codings[[2]rune{a, b}] = code
	t.opens[a] = true
	t.pairs = append(t.pairs, [2]rune{a, b})
	return pairBase + rune(len(t.pairs)-1)
}
