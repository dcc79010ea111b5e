package protocol_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"unicode/utf16"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"

	"ferry/internal/transfer"
)

// These tests do not compare the product with its own tables. The pages here are those of golang.org/x/text and small
// tables, and a few lines of their own pack records.

// A codePage encodes text for the expected results.
type codePage struct {
	name    string
	encode  func(string) []byte
	latin   bool // it has letters with accents
	kana    bool // it has Hiragana and full-width letters
	ebcdic  bool
	records bool // its blank is one byte
}

// table encodes with a page of golang.org/x/text. A character that the page lacks is a defect of the test.
func table(e encoding.Encoding) func(string) []byte {
	return func(s string) []byte {
		b, err := e.NewEncoder().Bytes([]byte(s))
		if err != nil {
			panic(fmt.Sprintf("%q: %v", s, err))
		}
		return b
	}
}

// wide is UTF-16 in a byte order.
func wide(o binary.AppendByteOrder) func(string) []byte {
	return func(s string) (b []byte) {
		for _, u := range utf16.Encode([]rune(s)) {
			b = o.AppendUint16(b, u)
		}
		return b
	}
}

// shifting is IBM-939 as far as the texts here need it. Letters and digits have the codes of every EBCDIC page. Between
// shift-out and shift-in there are full-width letters, which are 0x42 and the EBCDIC letter, and Hiragana, a run of
// which begins at 0x4481. (IBM Japanese Graphic Character Set, DBCS-Host, C-H 3-3220-024.)
func shifting(s string) (b []byte) {
	const hiragana = "あいうえおかきくけこ"
	single := table(charmap.CodePage037)
	shifted := false
	for _, c := range s {
		var two []byte
		if at := indexOf(hiragana, c); at >= 0 {
			two = []byte{0x44, 0x81 + byte(at)}
		} else if c >= 'Ａ' && c <= 'Ｚ' {
			two = []byte{0x42, single(string(c - 'Ａ' + 'A'))[0]}
		}
		if shifted != (two != nil) {
			b = append(b, map[bool]byte{true: 0x0F, false: 0x0E}[shifted])
			shifted = !shifted
		}
		if two == nil {
			two = single(string(c))
		}
		b = append(b, two...)
	}
	if shifted {
		b = append(b, 0x0F)
	}
	return b
}

// indexOf returns the number of a character in a text, or -1.
func indexOf(text string, c rune) int {
	for i, r := range []rune(text) {
		if r == c {
			return i
		}
	}
	return -1
}

func utf8Bytes(s string) []byte { return []byte(s) }

var codePages = []codePage{
	{name: "UTF-8", encode: utf8Bytes, latin: true, kana: true, records: true},
	{name: "UTF-16LE", encode: wide(binary.LittleEndian), latin: true, kana: true},
	{name: "UTF-16BE", encode: wide(binary.BigEndian), latin: true, kana: true},
	{name: "ISO-8859-1", encode: table(charmap.ISO8859_1), latin: true, records: true},
	{name: "windows-1252", encode: table(charmap.Windows1252), latin: true, records: true},
	{name: "IBM-850", encode: table(charmap.CodePage850), latin: true, records: true},
	{name: "IBM-1047", encode: table(charmap.CodePage1047), latin: true, ebcdic: true, records: true},
	{name: "IBM-037", encode: table(charmap.CodePage037), latin: true, ebcdic: true, records: true},
	{name: "IBM-1140", encode: table(charmap.CodePage1140), latin: true, ebcdic: true, records: true},
	{name: "IBM-939", encode: shifting, kana: true, ebcdic: true, records: true},
	{name: "Shift_JIS", encode: table(japanese.ShiftJIS), kana: true, records: true},
	{name: "EUC-JP", encode: table(japanese.EUCJP), kana: true, records: true},
	{name: "GB18030", encode: table(simplifiedchinese.GB18030), latin: true, kana: true, records: true},
}

// lineEnd returns the line end of a page.
func (p *codePage) lineEnd(kind string) []byte {
	switch {
	case !p.ebcdic && kind == "crlf":
		return p.encode("\r\n")
	case !p.ebcdic:
		return p.encode("\n")
	case kind == "crlf":
		return []byte{0x0D, 0x25}
	case kind == "lf":
		return []byte{0x25}
	}
	return []byte{0x15}
}

// pack makes records: each line is the data of one. The rest of a line that is too long goes to the next record, or is
// left out if cut is set. split returns the data of one record and the rest. pack returns the bytes, the number of
// records and the number of lines that were too long.
func pack(a transfer.Records, blank byte, cut bool, split func(data []byte, most int) (one, rest []byte), lines [][]byte) (b []byte, records, long int64) {
	b = []byte{} // never nil
	var block []byte
	flush := func() {
		if len(block) > 0 {
			b = binary.BigEndian.AppendUint16(b, uint16(4+len(block)))
			b = append(append(b, 0, 0), block...)
			block = nil
		}
	}
	for _, data := range lines {
		most := maxData(a)
		if len(data) > most {
			long++
			if cut {
				data, _ = split(data, most)
			}
		}
		for first := true; first || len(data) > 0; first = false {
			var d []byte
			d, data = split(data, most)
			records++
			word := append(binary.BigEndian.AppendUint16(nil, uint16(4+len(d))), 0, 0)
			switch a.RECFM {
			case "F", "FB":
				b = append(b, d...)
				for range most - len(d) {
					b = append(b, blank)
				}
			case "V":
				b = append(append(b, word...), d...)
			case "VB":
				if 4+len(block)+4+len(d) > blockSize(a) {
					flush()
				}
				block = append(append(block, word...), d...)
			case "U":
				if block = append(block, d...); len(block) == 0 {
					block = []byte{blank}
				}
				flush()
			}
		}
	}
	flush()
	return b, records, long
}

// splitBytes fills a record.
func splitBytes(data []byte, most int) (one, rest []byte) {
	n := min(len(data), most)
	return data[:n], data[n:]
}

// splitShifted gives a record whole characters of a page that shifts. The record and the rest each begin and end
// shifted in.
func splitShifted(data []byte, most int) (one, rest []byte) {
	var all [][]byte // characters
	out := false
	for at := 0; at < len(data); {
		switch n := map[bool]int{false: 1, true: 2}[out]; {
		case data[at] == 0x0E, data[at] == 0x0F:
			out = data[at] == 0x0E
			at++
		default:
			all = append(all, data[at:at+n])
			at += n
		}
	}
	shifted := func(all [][]byte) (b []byte) {
		out := false
		for _, c := range append(all[:len(all):len(all)], nil) {
			if two := len(c) == 2; two != out {
				b = append(b, map[bool]byte{true: 0x0E, false: 0x0F}[two])
				out = two
			}
			b = append(b, c...)
		}
		return b
	}
	n, size := 0, 0
	for in := false; n < len(all); n++ {
		two := len(all[n]) == 2
		if two != in {
			size++
		}
		if size += len(all[n]); size > most || two && size == most {
			break
		}
		in = two
	}
	return shifted(all[:n]), shifted(all[n:])
}

// maxData returns the maximum number of data bytes of a record.
func maxData(a transfer.Records) int {
	switch a.RECFM {
	case "V", "VB":
		return a.LRECL - 4
	}
	return a.LRECL
}

// blockSize returns the size of a block, chosen for a 3390 if it is not given.
func blockSize(a transfer.Records) int {
	switch {
	case a.BLKSIZE > 0:
		return a.BLKSIZE
	case a.RECFM == "F":
		return a.LRECL
	case a.RECFM == "V":
		return a.LRECL + 4
	case a.RECFM == "FB":
		return 27998 / a.LRECL * a.LRECL
	}
	return 27998
}

// sidecar returns the sidecar of a record file, or nil for none.
func sidecar(a transfer.Records, page string) []byte {
	if a.IsZero() {
		return nil
	}
	line := struct {
		V        int    `json:"v"`
		RECFM    string `json:"recfm"`
		LRECL    int    `json:"lrecl"`
		BLKSIZE  int    `json:"blksize"`
		Encoding string `json:"encoding,omitempty"`
	}{1, a.RECFM, a.LRECL, blockSize(a), page}
	b, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	return append(b, '\n')
}

var decode1047 = charmap.CodePage1047.NewDecoder()
