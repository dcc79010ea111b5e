//go:build ignore

// Command generate_witness writes the tables of each page by other authorities than the one of Ferry's tables: ICU, by
// its program uconv and its library, Python, by its codecs, and for some pages Perl, the C library and Java. They must
// be installed; the tests need none of them.
//
//	go run generate_witness.go generate_java.go
//
// testdata/single.txt has for each page and authority a line: page, authority, and the characters of the bytes 0x00 to
// 0xFF as four hexadecimal digits each, FFFD for none. The lines of IBM-880 and IBM-905, which ICU's usual build lacks,
// are kept as they are; they were taken from ICU's collection (charset/data/ucm/ibm-880_P100-1995.ucm and
// ibm-905_P100-1995.ucm of unicode-org/icu-data), the entries marked |0. So is Java's line of IBM-918, from
// make/data/charsetmapping/IBM918.map of OpenJDK 8.
//
// testdata/multi.bin is a DEFLATE stream: for each page its name and the authority, each ended by a line feed, and as
// uvarints the number of codes and for each code its difference to the one before it, the difference of its character
// to the one before (as a varint), and its second character or 0.
package main

import (
	"bytes"
	"cmp"
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

// Of each page: its name here, ICU's, and Python's; - for none.
const pages = `
US-ASCII us-ascii ascii
IBM-037 ibm-37 cp037
IBM-273 ibm-273 cp273
IBM-277 ibm-277 -
IBM-278 ibm-278 -
IBM-280 ibm-280 -
IBM-284 ibm-284 -
IBM-285 ibm-285 -
IBM-290 ibm-290 -
IBM-297 ibm-297 -
IBM-420 ibm-420 -
IBM-424 ibm-424 cp424
IBM-500 ibm-500 cp500
IBM-803 ibm-803 -
IBM-870 ibm-870 -
IBM-871 ibm-871 -
IBM-875 ibm-875 cp875
IBM-918 ibm-918 -
IBM-1025 ibm-1025 -
IBM-1026 ibm-1026 cp1026
IBM-1047 ibm-1047 -
IBM-1097 ibm-1097 -
IBM-1112 ibm-1112 -
IBM-1122 ibm-1122 -
IBM-1123 ibm-1123 -
IBM-1137 ibm-1137 -
IBM-1140 ibm-1140 cp1140
IBM-1141 ibm-1141 -
IBM-1142 ibm-1142 -
IBM-1143 ibm-1143 -
IBM-1144 ibm-1144 -
IBM-1145 ibm-1145 -
IBM-1146 ibm-1146 -
IBM-1147 ibm-1147 -
IBM-1148 ibm-1148 -
IBM-1149 ibm-1149 -
IBM-1153 ibm-1153 -
IBM-1154 ibm-1154 -
IBM-1155 ibm-1155 -
IBM-1156 ibm-1156 -
IBM-1157 ibm-1157 -
IBM-1158 ibm-1158 -
IBM-1160 ibm-1160 -
ISO-8859-1 iso-8859-1 iso8859_1
ISO-8859-2 iso-8859-2 iso8859_2
ISO-8859-3 iso-8859-3 iso8859_3
ISO-8859-4 iso-8859-4 iso8859_4
ISO-8859-5 iso-8859-5 iso8859_5
ISO-8859-6 iso-8859-6 iso8859_6
ISO-8859-7 iso-8859-7 iso8859_7
ISO-8859-8 iso-8859-8 iso8859_8
ISO-8859-9 iso-8859-9 iso8859_9
ISO-8859-10 iso-8859-10 iso8859_10
ISO-8859-13 iso-8859-13 iso8859_13
ISO-8859-14 iso-8859-14 iso8859_14
ISO-8859-15 iso-8859-15 iso8859_15
ISO-8859-16 - iso8859_16
windows-1250 windows-1250 cp1250
windows-1251 windows-1251 cp1251
windows-1252 windows-1252 cp1252
windows-1253 windows-1253 cp1253
windows-1254 windows-1254 cp1254
windows-1255 windows-1255 cp1255
windows-1256 windows-1256 cp1256
windows-1257 windows-1257 cp1257
windows-1258 windows-1258 cp1258
windows-874 windows-874-2000 cp874
IBM-437 ibm-437 cp437
IBM-850 ibm-850 cp850
IBM-852 ibm-852 cp852
IBM-855 ibm-855 cp855
IBM-858 ibm-858 cp858
IBM-860 ibm-860 cp860
IBM-862 ibm-862 cp862
IBM-863 ibm-863 cp863
IBM-865 ibm-865 cp865
IBM-866 ibm-866 cp866
KOI8-R koi8-r koi8_r
KOI8-U koi8-u koi8_u
macintosh macintosh mac_roman
x-mac-cyrillic x-mac-cyrillic mac_cyrillic
`

// The other authorities of pages with tables from Java, or with combined tables, and the page's name in each.
const others = `
IBM-833 java:x-IBM833
IBM-838 icu:ibm-838
IBM-1166 glibc:IBM1166
ISO-8859-11 python:iso8859_11
TIS-620 glibc:TIS-620
IBM-737 icu:ibm-737 python:cp737 glibc:CP737
IBM-775 icu:ibm-775 python:cp775 glibc:CP775
IBM-856 icu:ibm-856 python:cp856
IBM-857 icu:ibm-857 python:cp857 glibc:CP857
IBM-861 icu:ibm-861 python:cp861 glibc:CP861
IBM-864 icu:ibm-864 python:cp864 glibc:CP864
IBM-868 icu:ibm-868
IBM-869 icu:ibm-869 python:cp869 glibc:CP869
IBM-874 icu:ibm-874
IBM-922 icu:ibm-922 glibc:CP922
IBM-1006 icu:ibm-1006 python:cp1006
IBM-1046 glibc:CP1046
IBM-1098 icu:ibm-1098
IBM-1124 icu:ibm-1124 glibc:CP1124
IBM-1129 icu:ibm-1129 glibc:CP1129
macintosh java:x-MacRoman
x-mac-cyrillic java:x-MacCyrillic
MacArabic python:mac_arabic
MacCentralEurope icu:x-mac-ce python:mac_latin2 glibc:MAC-CENTRALEUROPE
MacCroatian python:mac_croatian
MacDingbat perl:MacDingbats
MacGreek icu:x-mac-greek python:mac_greek
MacHebrew perl:MacHebrew
MacIceland python:mac_iceland
MacRomania python:mac_romanian
MacSymbol perl:MacSymbol
MacThai perl:MacThai
MacTurkish icu:x-mac-turkish python:mac_turkish
MacUkraine icu:x-MacUkraine glibc:MAC-UK
`

// Pages of several bytes with tables from Java, or made from those.
const otherMultis = `
IBM-300 java:x-IBM300
IBM-834 java:x-IBM834
IBM-942 icu:ibm-942_P12A-1999
IBM-942C icu:ibm-942_P12A-1999 java:x-IBM942C
IBM-943 icu:ibm-943_P130-1999
IBM-943C icu:ibm-943_P15A-2003 java:x-IBM943C
IBM-949 icu:ibm-949_P110-1999
IBM-949C icu:ibm-949_P11A-1999 java:x-IBM949C
IBM-964 icu:ibm-964_P110-1999
IBM-1381 python:gb2312
IBM-1383 icu:ibm-1383_P110-1999
IBM-33722 icu:ibm-33722_P120-1999
Big5-HKSCS icu:ibm-1375_P100-2008 python:big5hkscs
EUC-TW icu:euc-tw-2014
GB2312 python:gb2312
ISO-2022-JP python:iso2022_jp_ext
ISO-2022-KR python:iso2022_kr
Johab python:johab
`

// Pages of several bytes: the shifts of EBCDIC by ICU, the others by Python.
const multis = `
IBM-930 ibm-930 -
IBM-933 ibm-933 -
IBM-935 ibm-935 -
IBM-937 ibm-937 -
IBM-939 ibm-939 -
IBM-1364 ibm-1364 -
IBM-1371 ibm-1371 -
IBM-1388 ibm-1388 -
IBM-1390 ibm-1390 -
IBM-1399 ibm-1399 -
Shift_JIS - cp932
EUC-JP - euc_jp
EUC-KR - cp949
GBK - gbk
GB18030 - gb18030
Big5 - big5hkscs
`

func main() {
	log.SetFlags(0)
	icu := "ICU " + word(run(nil, "uconv", "--version"), -1)
	python := "Python " + word(run(nil, "python3", "--version"), 1)
	old, _ := os.ReadFile("testdata/single.txt")
	var lines []string
	for _, l := range strings.Split(string(old), "\n") {
		if strings.Contains(l, ".ucm\t") || strings.Contains(l, ".map\t") {
			lines = append(lines, l)
		}
	}

	for _, f := range fields(pages) {
		if f[1] != "-" {
			lines = append(lines, line(f[0], icu+" "+f[1], bytewise(f[1])))
		}
		if f[2] != "-" {
			lines = append(lines, line(f[0], python+" "+f[2], asked(f[2])))
		}
	}

	var multi []byte
	for _, f := range fields(multis) {
		if f[1] != "-" {
			lines = append(lines, line(f[0], icu+" "+f[1], bytewise(f[1])))
			multi = pack(multi, f[0], icu+" "+f[1], pairs(f[1]))
		} else {
			multi = pack(multi, f[0], python+" "+f[2], string(run(nil, "python3", "-c", sequences, f[2])))
		}
	}

	for _, f := range fields(others) {
		for _, a := range f[1:] {
			who, name, _ := strings.Cut(a, ":")
			lines = append(lines, line(f[0], authority(who, name), askers[who](name)))
		}
	}
	for _, f := range fields(otherMultis) {
		for _, a := range f[1:] {
			who, name, _ := strings.Cut(a, ":")
			var codes string
			switch who {
			case "java":
				codes = javaCodes(name)
			case "icu":
				codes = string(run(nil, "python3", "-c", icuSequences, name))
			case "python":
				codes = string(run(nil, "python3", "-c", sequences, name))
			}
			multi = pack(multi, f[0], authority(who, name), codes)
		}
	}

	slices.Sort(lines)
	write("testdata/single.txt", []byte(strings.Join(lines, "\n")+"\n"))
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		log.Fatal(err)
	}

	w.Write(multi)
	w.Close()
	write("testdata/multi.bin", out.Bytes())
}

// pack appends the lines of a page. Each line is a code and its characters in hexadecimal.
func pack(b []byte, page, authority, lines string) []byte {
	b = append(b, page+"\n"+authority+"\n"...)
	type entry struct{ code, first, second uint32 }
	var all []entry
	for _, l := range strings.Split(strings.TrimSpace(lines), "\n") {
		var e entry
		if n, _ := fmt.Sscanf(l, "%x %x %x", &e.code, &e.first, &e.second); n < 2 {
			log.Fatalf("%s: %q", page, l)
		}
		all = append(all, e)
	}

	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.code, b.code) })
	b = binary.AppendUvarint(b, uint64(len(all)))
	var last entry
	for _, e := range all {
		b = binary.AppendUvarint(b, uint64(e.code-last.code))
		b = binary.AppendVarint(b, int64(e.first)-int64(last.first))
		b = binary.AppendUvarint(b, uint64(e.second))
		last = e
	}
	return b
}

func fields(table string) (all [][]string) {
	for _, l := range strings.Split(strings.TrimSpace(table), "\n") {
		all = append(all, strings.Fields(l))
	}
	return all
}

func word(b []byte, n int) string {
	f := strings.Fields(string(b))
	if n < 0 {
		n += len(f)
	}
	return f[n]
}

func run(in []byte, name string, args ...string) []byte {
	cmd := exec.Command(name, args...)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		log.Fatal(name, args, err)
	}
	return out
}

func line(page, authority string, chars []rune) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\t%s\t", page, authority)
	for _, r := range chars {
		fmt.Fprintf(&b, "%04X", r)
	}
	return b.String()
}

func icuRunes(page string, in []byte) (rs []rune) {
	out := run(in, "uconv", "-f", page, "-t", "UTF-32BE", "--from-callback", "substitute")
	for ; len(out) >= 4; out = out[4:] {
		rs = append(rs, rune(binary.BigEndian.Uint32(out)))
	}
	return rs
}

// substitute is ICU's output for bytes that are no character in a page of EBCDIC.
const substitute = 0x1a

func ebcdic(page string) bool {
	got := icuRunes(page, []byte{0x40})
	return len(got) == 1 && got[0] == ' '
}

// bytewise converts each byte by itself with ICU.
func bytewise(page string) []rune {
	var rs []rune
	for i := range 256 {
		got := icuRunes(page, []byte{byte(i)})
		if len(got) != 1 || got[0] == substitute && i != 0x3f && ebcdic(page) {
			got = []rune{utf8.RuneError}
		}
		rs = append(rs, got[0])
	}
	return rs
}

// asked converts each byte by itself with Python.
func asked(page string) []rune {
	const program = `
import sys
for i in range(256):
    try: s = bytes([i]).decode(sys.argv[1])
    except UnicodeDecodeError: s = '\ufffd'
    sys.stdout.write('%04x ' % ord(s))
`
	var rs []rune
	for _, w := range strings.Fields(string(run(nil, "python3", "-c", program, page))) {
		var r rune
		fmt.Sscanf(w, "%x", &r)
		rs = append(rs, r)
	}
	return rs
}

var askers = map[string]func(string) []rune{"icu": bytewise, "python": asked, "perl": askPerl, "glibc": askGlibc, "java": func(name string) []rune {
	decode, _ := askJava(name)
	rs := slices.Repeat([]rune{utf8.RuneError}, 256)
	for _, d := range decode {
		rs[d[0]] = rune(d[1])
	}
	return rs
}}

func authority(who, name string) string {
	switch who {
	case "icu":
		return "ICU " + word(run(nil, "uconv", "--version"), -1) + " " + name
	case "python":
		return "Python " + word(run(nil, "python3", "--version"), 1) + " " + name
	case "perl":
		return "Perl " + string(run(nil, "perl", "-e", "print $^V")) + " " + name
	case "glibc":
		return "glibc " + word(run(nil, "getconf", "GNU_LIBC_VERSION"), 1) + " " + name
	}
	return "Java " + javaVersion() + " " + name
}

// askPerl converts each byte by itself with Perl; two characters count as none.
func askPerl(page string) []rune {
	const program = `
use Encode;
for (0 .. 255) { my $b = chr; my $s = eval { decode($ARGV[0], $b, 1) }; printf "%x ", defined $s && length $s == 1 ? ord $s : 0xfffd }
`
	var rs []rune
	for _, w := range strings.Fields(string(run(nil, "perl", "-e", program, page))) {
		var r rune
		fmt.Sscanf(w, "%x", &r)
		rs = append(rs, r)
	}
	return rs
}

// askGlibc converts each byte by itself with the C library.
func askGlibc(page string) []rune {
	rs := slices.Repeat([]rune{utf8.RuneError}, 256)
	for i := range rs {
		cmd := exec.Command("iconv", "-f", page, "-t", "UTF-32BE")
		cmd.Stdin = bytes.NewReader([]byte{byte(i)})
		if out, err := cmd.Output(); err == nil && len(out) == 4 {
			rs[i] = rune(binary.BigEndian.Uint32(out))
		}
	}
	return rs
}

func javaCodes(page string) string {
	decode, _ := askJava(page)
	var b strings.Builder
	for _, d := range decode {
		fmt.Fprintf(&b, "%x %x", d[0], d[1])
		if d[2] != 0 {
			fmt.Fprintf(&b, " %x", d[2])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// icuSequences converts each sequence of one to four bytes with ICU's library.
const icuSequences = `
import ctypes, ctypes.util, sys
lib = ctypes.CDLL(ctypes.util.find_library('icuuc'))
def icu(name): return getattr(lib, name + '_72') # a library of another version has another suffix
icu('ucnv_open').restype = ctypes.c_void_p
err = ctypes.c_int(0)
cnv = ctypes.c_void_p(icu('ucnv_open')(sys.argv[1].encode(), ctypes.byref(err)))
if err.value > 0: sys.exit('no converter')
icu('ucnv_setToUCallBack')(cnv, ctypes.cast(icu('UCNV_TO_U_CALLBACK_STOP'), ctypes.c_void_p), None, None, None, ctypes.byref(err))
out = ctypes.create_string_buffer(64)
def walk(before):
    for i in range(256):
        b = before + bytes([i])
        err.value = 0
        n = icu('ucnv_toUChars')(cnv, out, 30, b, len(b), ctypes.byref(err))
        if err.value <= 0 and n > 0:
            s = out.raw[:2*n].decode('utf-16-le')
            if len(s) == 1 or before == b'' or s[-1] >= '\x80':
                print(b.hex(), ' '.join('%x' % ord(c) for c in s))
        elif err.value == 11 and len(b) < 4: walk(b) # truncated
walk(b'')
`

// sequences converts each sequence of one to three bytes with Python, and the sequences of four bytes of GB18030 in the
// basic plane.
const sequences = `
import sys
page = sys.argv[1]
def tell(*b):
    try: s = bytes(b).decode(page)
    except UnicodeDecodeError: return False
    if len(b) > 1 and s[-1] < '\x80' and b[-1] < 0x80: return False
    print(bytes(b).hex(), ''.join('%x ' % ord(c) for c in s).strip())
    return True
if page.startswith('iso2022'):
    one, two = {'iso2022_jp_ext': [b'\x1b(B', b'\x1b(J', None, b'\x1b(I'], 'iso2022_kr': [b'']}[page], {'iso2022_jp_ext': (2, b'\x1b$B'), 'iso2022_kr': (1, b'\x1b$)C\x0e')}[page]
    def mark(set, call, b):
        try: s = (call + b).decode(page)
        except UnicodeDecodeError: return
        if len(s) == 1: print('%x %x' % (set << 24 | int(b.hex(), 16), ord(s)))
    for set, call in enumerate(one):
        for a in range(128):
            if call is not None: mark(set, call, bytes([a]))
    for a in range(0x21, 0x7f):
        for b in range(0x21, 0x7f): mark(*two, bytes([a, b]))
    sys.exit()
for a in range(256):
    if tell(a): continue
    for b in range(0x30, 256):
        if tell(a, b): continue
        if page == 'euc_jp' and a == 0x8f:
            for c in range(0xa1, 255): tell(a, b, c)
        if page == 'gb18030' and 0x81 <= a <= 0x84 and b <= 0x39:
            for c in range(0x81, 255):
                for d in range(0x30, 0x3a): tell(a, b, c, d)
`

// pairs converts each pair of bytes between shifts with ICU.
func pairs(page string) string {
	var in []byte
	var codes []int
	for a := 0x40; a <= 0xfe; a++ {
		for b := 0x40; b <= 0xfe; b++ {
			in = append(in, 0x0e, byte(a), byte(b), 0x0f, 0x25)
			codes = append(codes, a<<8|b)
		}
	}

	var b strings.Builder
	var line []rune
	for _, r := range icuRunes(page, in) {
		if r != '\n' {
			line = append(line, r)
			continue
		}
		if len(line) > 0 && !slices.Contains(line, utf8.RuneError) && !slices.Contains(line, substitute) {
			fmt.Fprintf(&b, "%04x", codes[0])
			for _, r := range line {
				fmt.Fprintf(&b, " %x", r)
			}
			b.WriteByte('\n')
		}
		codes, line = codes[1:], nil
	}

	if len(codes) > 0 {
		log.Fatalf("%s: %d pairs were not answered", page, len(codes))
	}
	return b.String()
}

func write(name string, data []byte) {
	if err := os.WriteFile(name, data, 0o644); err != nil {
		log.Fatal(err)
	}
	log.Printf("%s: %d bytes", name, len(data))
}
