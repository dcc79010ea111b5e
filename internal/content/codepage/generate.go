//go:build ignore

// Command generate writes the tables of the pages that golang.org/x/text lacks: those of EBCDIC as the C library's
// iconv of this host has them, and those that are known by Java's names as its Java runtime has them. singletables.go
// has the single-byte pages and the single-byte halves of the pages that shift, multi.bin the double-byte halves and
// the pages of several bytes a character.
//
//	go run generate.go generate_java.go
//
// Only the mappings of a table are taken, character by character: the character of a byte or a pair of bytes, and the
// encoding of a character if it is not the only sequence that decodes to it. After a change of any table, raise
// tableVersion in tables.go.
package main

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"unicode/utf8"
)

// singles are pages of one byte a character.
var singles = []string{
	"273", "277", "278", "280", "284", "285", "290", "297", "420", "424", "500", "803", "870", "871", "875", "880", "905", "918",
	"1025", "1026", "1097", "1112", "1122", "1123", "1137", "1141", "1142", "1143", "1144", "1145", "1146", "1147", "1148", "1149",
	"1153", "1154", "1155", "1156", "1157", "1158", "1160",
}

// Some of the C library's older tables are not IBM's: they disagree with ICU, with Python or Java, and with the C
// library's own table of their successor. The successor is IBM's page with the euro, and differs only in that. Those
// pages are made from their successor, without its additions.
var successors = map[string]struct {
	page string
	but  map[byte]rune
}{
	"278":  {"1143", map[byte]rune{0x5a: '¤'}},
	"285":  {"1146", map[byte]rune{0x9f: '¤'}},
	"870":  {"1153", map[byte]rune{0x9f: '¤'}},
	"871":  {"1149", map[byte]rune{0x9f: '¤'}},
	"1026": {"1155", map[byte]rune{0x9f: '¤'}},
	"875":  {"4971", map[byte]rune{0xfc: undefined}},
	"420":  {"16804", map[byte]rune{0xe1: undefined, 0xfa: undefined}},
	"424": {"12712", map[byte]rune{0x9c: undefined, 0x9e: undefined, 0xdb: undefined, 0xdc: undefined, 0xdd: undefined,
		0xfb: undefined, 0xfc: undefined, 0xfd: undefined, 0xfe: undefined}},
	"290": {"930", map[byte]rune{shiftOut: shiftOut, shiftIn: shiftIn}},
}

// Two pages have no successor. The C library lacks some of their characters, or differs from IBM's tables in ICU's
// collection: braces, tilde, grave accent and four letters of 880, the accents of 905. These corrections follow IBM's
// tables.
var corrections = map[string]map[byte]rune{
	"880": {0x41: 0xa0, 0x45: 0x454, 0x55: 0x45e, 0x64: 0x404, 0x6a: '|', 0x73: 0xad, 0x74: 0x40e, 0x79: '`', 0xa1: '~', 0xc0: '{', 0xd0: '}'},
	"905": {0x41: 0xa0, 0x9d: 0xb8, 0xb0: 0x2d9, 0xb7: 0xb7},
}

// icuOnly are pages with letters in the C library's table instead of the letter forms in IBM's. Their tables are ICU's,
// from its program uconv, and Java's agree.
var icuOnly = []string{"918"}

// doubles are pages that shift between one and two bytes a character.
var doubles = []string{"930", "933", "935", "937", "939", "1364", "1371", "1388", "1390", "1399"}

// javaSingles are pages of one byte a character: their names in singleTables and
// in Java.
var javaSingles = [][2]string{
	{"737", "x-IBM737"}, {"775", "IBM775"}, {"838", "IBM-Thai"}, {"856", "x-IBM856"}, {"857", "IBM857"}, {"861", "IBM861"}, {"864", "IBM864"},
	{"868", "IBM868"}, {"869", "IBM869"}, {"874", "x-IBM874"}, {"922", "x-IBM922"}, {"1006", "x-IBM1006"}, {"1046", "x-IBM1046"},
	{"1098", "x-IBM1098"}, {"1124", "x-IBM1124"}, {"1129", "x-IBM1129"}, {"1166", "x-IBM1166"},
	{"TIS-620", "TIS-620"}, {"ISO-8859-11", "x-iso-8859-11"},
	{"MacArabic", "x-MacArabic"}, {"MacCentralEurope", "x-MacCentralEurope"}, {"MacCroatian", "x-MacCroatian"}, {"MacDingbat", "x-MacDingbat"},
	{"MacGreek", "x-MacGreek"}, {"MacHebrew", "x-MacHebrew"}, {"MacIceland", "x-MacIceland"}, {"MacRomania", "x-MacRomania"},
	{"MacSymbol", "x-MacSymbol"}, {"MacThai", "x-MacThai"}, {"MacTurkish", "x-MacTurkish"}, {"MacUkraine", "x-MacUkraine"},
}

// javaMultis are pages of several bytes a character, with their names in multi.bin and in Java. JIS X 0208 is no page
// but a set of ISO-2022-JP. Pages with names that end with C are made from these.
var javaMultis = [][2]string{
	{"942", "x-IBM942"}, {"943", "x-IBM943"}, {"949", "x-IBM949"}, {"964", "x-IBM964"}, {"1381", "x-IBM1381"}, {"1383", "x-IBM1383"}, {"33722", "x-IBM33722"},
	{"GB2312", "GB2312"}, {"EUC-TW", "x-EUC-TW"}, {"Big5-HKSCS", "Big5-HKSCS"}, {"Johab", "x-Johab"}, {"JIS-X-0208", "x-JIS0208"},
}

// additions are codes that Java's converter leaves out of a page that has them:
// of the supplementary set of Hong Kong the four that are a letter with a mark,
// and two signs of Big5. Python and golang.org/x/text have them.
var additions = map[string][][3]uint32{
	"Big5-HKSCS": {{0x8862, 0xca, 0x304}, {0x8864, 0xca, 0x30c}, {0x88a3, 0xea, 0x304}, {0x88a5, 0xea, 0x30c}, {0xa1c3, 0xffe3, 0}, {0xa1c5, 0x2cd, 0}},
}

const (
	undefined  = utf8.RuneError
	substitute = 0x1a // some tables of the C library have it for a byte that is no character
	shiftOut   = 0x0e
	shiftIn    = 0x0f
	lineFeed   = 0x25 // in every page here
)

func main() {
	log.SetFlags(0)
	var src strings.Builder
	src.WriteString("// Code generated by generate.go from " + version() + " and Java " + javaVersion() + "; DO NOT EDIT.\n\npackage codepage\n\n" +
		"// singleTables has the characters of the bytes 0x00 to 0xFF of each page, in\n" +
		"// order; U+FFFD stands for a byte that is none.\n" +
		"var singleTables = map[string]string{\n")
	for _, n := range append(slices.Clone(singles), doubles...) {
		writeSingle(&src, n, tableOf(n))
	}
	for _, p := range javaSingles {
		writeSingle(&src, p[0], single(p[1]))
	}
	src.WriteString("}\n")
	write("singletables.go", []byte(src.String()))
	writeMulti()
}

func writeSingle(src *strings.Builder, name string, table []rune) {
	fmt.Fprintf(src, "\t%q: \"\" +\n", name)
	for i := 0; i < 256; i += 64 {
		end := " +"
		if i == 192 {
			end = ","
		}
		fmt.Fprintf(src, "\t\t%s%s\n", quote(table[i:i+64]), end)
	}
}

func version() string {
	out, err := exec.Command("iconv", "--version").Output()
	if err != nil {
		log.Fatal(err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// quote writes letters, digits and signs as themselves and escapes the rest, so that the source has no character that
// an editor would reorder or hide.
func quote(rs []rune) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range rs {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case ' ' <= r && r < 0x7f:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}

	b.WriteByte('"')
	return b.String()
}

// iconv runs the C library's converter. With lenient, it omits characters that do not convert.
func iconv(from, to string, in []byte, lenient bool) ([]byte, error) {
	args := []string{"-f", from, "-t", to}
	if lenient {
		args = append(args, "-c")
	}
	cmd := exec.Command("iconv", args...)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if lenient {
		err = nil // its exit code reports the omission
	}
	return out, err
}

func runes(b []byte) []rune {
	var rs []rune
	for ; len(b) >= 4; b = b[4:] {
		rs = append(rs, rune(binary.BigEndian.Uint32(b)))
	}
	return rs
}

func utf32(rs []rune) []byte {
	var b []byte
	for _, r := range rs {
		b = binary.BigEndian.AppendUint32(b, uint32(r))
	}
	return b
}

// decodeSingle decodes each byte by itself.
func decodeSingle(page string, shifts bool) []rune {
	table := make([]rune, 256)
	for i := range table {
		table[i] = undefined
		if shifts && (i == shiftOut || i == shiftIn) {
			continue
		}
		out, err := iconv(page, "UTF-32BE", []byte{byte(i)}, false)
		if rs := runes(out); err == nil && len(rs) == 1 {
			if rs[0] != substitute || i == 0x3f {
				table[i] = rs[0]
			}
		} else if err == nil {
			log.Fatalf("%s: byte %02x gives %x", page, i, rs)
		}
	}
	return table
}

// tableOf returns the table of a single-byte page or of a single-byte half.
func tableOf(n string) []rune {
	from, but := n, corrections[n]
	if s, ok := successors[n]; ok {
		from, but = s.page, s.but
	}

	var table []rune
	if slices.Contains(icuOnly, n) {
		table = decodeByICU("ibm-" + n)
	} else {
		table = decodeSingle("IBM"+from, slices.Contains(doubles, from))
	}

	for b, r := range but {
		table[b] = r
	}

	seen := map[rune]int{}
	for i, r := range table {
		if at, ok := seen[r]; ok && r != undefined {
			log.Printf("%s: bytes %02x and %02x are both %04x", n, at, i, r)
		}
		seen[r] = i
	}
	return table
}

func decodeByICU(page string) []rune {
	table := make([]rune, 256)
	for i := range table {
		cmd := exec.Command("uconv", "-f", page, "-t", "UTF-32BE", "--from-callback", "substitute")
		cmd.Stdin = bytes.NewReader([]byte{byte(i)})
		out, err := cmd.Output()
		if err != nil || len(out) != 4 {
			log.Fatalf("%s: byte %02x gives %x, %v", page, i, out, err)
		}
		table[i] = runes(out)[0]
	}
	return table
}

// A half is the double-byte half of a page, or a page of several bytes. It has the character of each code (with a
// second one if there are two), and the encodings that do not follow from that.
type half struct {
	decode [][3]uint32 // code, character, second character or 0
	encode [][2]uint32 // character, code
}

func decodePairs(page string) (h half, inverse map[uint32]uint32) {
	var in []byte
	var pairs []uint32
	for a := 0x40; a <= 0xfe; a++ {
		for b := 0x40; b <= 0xfe; b++ {
			in = append(in, shiftOut, byte(a), byte(b), shiftIn, lineFeed)
			pairs = append(pairs, uint32(a)<<8|uint32(b))
		}
	}

	out, _ := iconv(page, "UTF-32BE", in, true)
	lines := splitRunes(runes(out))
	if len(lines) != len(pairs) {
		log.Fatalf("%s: %d lines of %d", page, len(lines), len(pairs))
	}

	inverse = map[uint32]uint32{}
	for i, l := range lines {
		switch len(l) {
		case 0:
		case 1:
			if l[0] == substitute {
				continue
			}
			h.decode = append(h.decode, [3]uint32{pairs[i], uint32(l[0]), 0})
			if _, ok := inverse[uint32(l[0])]; !ok {
				inverse[uint32(l[0])] = pairs[i]
			}
		case 2:
			h.decode = append(h.decode, [3]uint32{pairs[i], uint32(l[0]), uint32(l[1])})
		default:
			log.Fatalf("%s: %04x gives %x", page, pairs[i], l)
		}
	}
	return h, inverse
}

func splitRunes(rs []rune) [][]rune {
	var lines [][]rune
	for {
		i := slices.Index(rs, '\n')
		if i < 0 {
			return lines
		}
		lines = append(lines, rs[:i])
		rs = rs[i+1:]
	}
}

// encodeAll encodes every character that a page could have, and keeps the results that the decoding tables do not
// imply.
func encodeAll(page string, h *half, inverse map[uint32]uint32) {
	for i, r := range decodeSingle(page, true) {
		if r != undefined {
			inverse[uint32(r)] = uint32(i)
		}
	}

	var asked []rune
	for r := rune(0); r < 0x30000; r++ {
		if r == '\n' || r >= 0xd800 && r < 0xe000 || r >= 0xfff0 && r < 0x10000 {
			continue
		}
		asked = append(asked, r)
	}

	var in []rune
	for _, r := range asked {
		in = append(in, r, '\n')
	}

	out, _ := iconv("UTF-32BE", page, utf32(in), true)
	lines := bytes.Split(out, []byte{lineFeed})
	if len(lines) != len(asked)+1 {
		log.Fatalf("%s: %d answers to %d", page, len(lines), len(asked))
	}

	for i, r := range asked {
		var code uint32
		switch l := lines[i]; {
		case len(l) == 0:
		case len(l) == 1:
			code = uint32(l[0])
		case len(l) == 4 && l[0] == shiftOut && l[3] == shiftIn:
			code = uint32(l[1])<<8 | uint32(l[2])
		case r == shiftOut || r == shiftIn:
		default:
			log.Fatalf("%s: %04x gives %x", page, r, l)
		}
		want, ok := inverse[uint32(r)]
		switch {
		case !ok && len(lines[i]) == 0, ok && len(lines[i]) > 0 && want == code:
			continue
		case len(lines[i]) == 0:
			log.Printf("%s: %04x is decoded from %x and not encoded; encoded all the same", page, r, want)
			continue
		case code < 0x100:
			// The C library writes SUB for many characters that a page lacks, and the yen sign for a backslash; both
			// would change text silently.
			continue
		}
		h.encode = append(h.encode, [2]uint32{uint32(r), code})
	}
}

// single returns the table of a page of one byte a character. Java reads NL as LF.
func single(page string) []rune {
	decode, _ := askJava(page)
	table := slices.Repeat([]rune{undefined}, 256)
	for _, d := range decode {
		table[d[0]] = rune(d[1])
	}
	if table[lineFeed] == '\n' && table[0x15] == '\n' {
		table[0x15] = 0x85
	}
	return table
}

// multi returns a page of several bytes a character: its codes, and the characters that are written otherwise than they
// are read.
func multi(name, page string) half {
	decode, encode := askJava(page)
	h := half{decode: append(decode, additions[name]...)}
	slices.SortFunc(h.decode, func(a, b [3]uint32) int { return int(int64(a[0]) - int64(b[0])) })
	first := map[uint32]uint32{}
	for _, d := range h.decode {
		if _, ok := first[d[1]]; !ok && d[2] == 0 {
			first[d[1]] = d[0]
		}
	}
	for _, e := range encode {
		if code, ok := first[e[0]]; !ok || code != e[1] {
			h.encode = append(h.encode, e)
		}
	}
	return h
}

// writeMulti writes multi.bin: a stream of DEFLATE that holds for each page its
// name, ended by a line feed, and uvarints, all differences to the value before:
// whether its codes are those of the page before, their count and each code,
// character (as a varint), second character; then the count of further encodings
// and each character and code.
func writeMulti() {
	var b []byte
	var last half
	add := func(name string, h half) {
		b = append(b, name+"\n"...)
		if slices.Equal(h.decode, last.decode) {
			b = binary.AppendUvarint(b, 1)
		} else {
			b = binary.AppendUvarint(b, 0)
			b = binary.AppendUvarint(b, uint64(len(h.decode)))
			var code, char uint32
			for _, d := range h.decode {
				b = binary.AppendUvarint(b, uint64(d[0]-code))
				b = binary.AppendVarint(b, int64(d[1])-int64(char))
				b = binary.AppendUvarint(b, uint64(d[2]))
				code, char = d[0], d[1]
			}
		}
		b = binary.AppendUvarint(b, uint64(len(h.encode)))
		var char uint32
		for _, e := range h.encode {
			b = binary.AppendUvarint(b, uint64(e[0]-char))
			b = binary.AppendUvarint(b, uint64(e[1]))
			char = e[0]
		}
		second := 0
		for _, d := range h.decode {
			if d[2] != 0 {
				second++
			}
		}
		log.Printf("%s: %d codes, %d of them two characters; %d further encodings", name, len(h.decode), second, len(h.encode))
		last = h
	}
	for _, n := range orderOfDoubles() {
		h, inverse := decodePairs("IBM" + n)
		encodeAll("IBM"+n, &h, inverse)
		add(n, h)
	}
	for _, p := range javaMultis {
		add(p[0], multi(p[0], p[1]))
	}

	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		log.Fatal(err)
	}

	w.Write(b)
	w.Close()
	write("multi.bin", out.Bytes())
}

// orderOfDoubles puts pages with the same double-byte half together.
func orderOfDoubles() []string {
	return []string{"930", "939", "933", "1364", "935", "1388", "937", "1371", "1390", "1399"}
}

func write(name string, data []byte) {
	if err := os.WriteFile(name, data, 0o644); err != nil {
		log.Fatal(err)
	}
	log.Printf("%s: %d bytes", name, len(data))
}
