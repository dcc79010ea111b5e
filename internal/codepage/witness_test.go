package codepage

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The tests here compare every page with what another authority than the one
// its tables are from says of it. generate_witness.go collected that and says
// where it is from. Every difference is listed below, with its reason;
// docs/text-and-records.md tells users of them.

// A known difference: which bytes, on which page, against which authority (the
// beginning of its name), and why.
type known struct {
	page, authority string
	bytes           string // in hexadecimal, "ours/theirs" after =; all of them where it is empty
	because         string
}

const (
	pcControls = "IBM's own table turns three controls round; everybody else leaves them"
	undefinedC = "a byte that Windows does not define is a control there, and an error here"
	mu         = "the PC page has the micro sign; IBM's table has the Greek letter"
)

var knownSingle = []known{
	{"IBM-273", "Python", "BC=00AF/203E", "macron; Python has the overline, ICU and the page with the euro do not"},
	{"IBM-424", "Python", "B3=2022/00B7 BC=203E/00AF", "bullet and overline; ICU and the page with the euro have them"},
	{"IBM-875", "Python", "DC=-/001A E1=-/001A EC=-/001A ED=-/001A FC=-/001A FD=-/001A", "Python has a substitute character for bytes that are none"},
	{"IBM-918", "OpenJDK", "15=0085/000A", "Java takes NL for LF; here that is the line ends' business"},
	{"IBM-1026", "ICU", "9A=00AA/20BA", "ICU has the newer lira sign in place of the feminine ordinal; Python does not"},
	{"IBM-1155", "ICU", "9A=00AA/20BA", "ICU has the newer lira sign in place of the feminine ordinal"},
	{"IBM-437", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A E6=00B5/03BC", pcControls + "; " + mu},
	{"IBM-850", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A", pcControls},
	{"IBM-852", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A AA=00AC/-", pcControls + "; the not sign is Microsoft's and Python's"},
	{"IBM-855", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A", pcControls},
	{"IBM-858", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A", pcControls},
	{"IBM-860", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A E6=00B5/03BC", pcControls + "; " + mu},
	{"IBM-862", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A E6=00B5/03BC", pcControls + "; " + mu},
	{"IBM-863", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A E6=00B5/03BC", pcControls + "; " + mu},
	{"IBM-865", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A E6=00B5/03BC", pcControls + "; " + mu},
	{"IBM-866", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A", pcControls},
	{"KOI8-U", "ICU", "AE=045E/255D BE=040E/256C", "Belarusian letters, as the WHATWG has them, for two box drawings"},
	{"KOI8-U", "Python", "AE=045E/255D BE=040E/256C", "Belarusian letters, as the WHATWG has them, for two box drawings"},
	{"windows-1250", "ICU", "", undefinedC}, {"windows-1251", "ICU", "", undefinedC}, {"windows-1252", "ICU", "", undefinedC},
	{"windows-1253", "ICU", "", undefinedC}, {"windows-1254", "ICU", "", undefinedC}, {"windows-1255", "ICU", "", undefinedC},
	{"windows-1257", "ICU", "", undefinedC}, {"windows-1258", "ICU", "", undefinedC}, {"windows-874", "ICU", "", undefinedC},
	{"windows-1255", "Python", "CA=05BA/-", "HOLAM HASER FOR VAV, as the WHATWG has it"},
}

func TestSingleBytePagesAgreeWithOthers(t *testing.T) {
	data, err := os.ReadFile("testdata/single.txt")
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	used := map[known]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		f := strings.Split(line, "\t")
		p := page(t, f[0])
		asked[p.Name()]++
		var got []string
		for i := range 256 {
			if p.form == formShift && (i == shiftOut || i == shiftIn) {
				continue
			}
			n, err := strconv.ParseUint(f[2][4*i:4*i+4], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			theirs := rune(n)
			if theirs == 0xfffd {
				theirs = bad
			}
			if ours := rune(p.table().first[i]); ours != theirs {
				got = append(got, fmt.Sprintf("%02X=%s/%s", i, hexOf(ours), hexOf(theirs)))
			}
		}
		var want []string
		for _, k := range knownSingle {
			if k.page != f[0] || !strings.HasPrefix(f[1], k.authority) {
				continue
			}
			used[k] = true
			if k.bytes != "" {
				want = append(want, strings.Fields(k.bytes)...)
			} else {
				want = append(want, slices.DeleteFunc(slices.Clone(got), func(s string) bool { return !strings.Contains(s, "=-/") && s != "CA=05BA/-" })...)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s, %s: differences %v, known %v", f[0], f[1], got, want)
		}
	}
	for _, k := range knownSingle {
		if !used[k] {
			t.Errorf("nobody says what %s is said to: %s", k.authority, k.page)
		}
	}
	for _, p := range List() {
		if p.form == formSingle && p.Name() != "x-user-defined" && asked[p.Name()] == 0 {
			t.Errorf("nobody was asked about %s", p)
		}
	}
}

func hexOf(r rune) string {
	if r < 0 {
		return "-"
	}
	return fmt.Sprintf("%04X", r)
}

// A comparison of a page of several bytes: how many codes both have for
// different characters, and how many only one has.
type comparison struct{ differ, ours, theirs int }

var knownMulti = map[string]struct {
	comparison
	because string
}{
	"IBM-930": {}, "IBM-933": {}, "IBM-935": {}, "IBM-937": {}, "IBM-939": {}, "IBM-1364": {}, "IBM-1371": {}, "IBM-1388": {}, "IBM-1390": {}, "IBM-1399": {},
	"EUC-KR": {}, "GB18030": {},
	"Shift_JIS": {comparison{0, 0, 4}, "Python reads the bytes A0, FD, FE and FF, which stand for nothing"},
	"EUC-JP":    {comparison{7, 457, 0}, "seven signs have Microsoft's characters, as in Shift_JIS; Python lacks the rows of NEC and IBM"},
	"GBK":       {comparison{0, 83, 0}, "the euro sign, as 80 and as A2E3, and what GB18030 added in two bytes"},
	"Big5":      {comparison{11, 192, 0}, "eleven signs have Microsoft's characters, as in windows-950; Python lacks the newest characters of Hong Kong"},
}

func TestMultiBytePagesAgreeWithOthers(t *testing.T) {
	data, err := os.ReadFile("testdata/multi.bin")
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(flate.NewReader(bytes.NewReader(data))); err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	r := bufio.NewReader(bytes.NewReader(data))
	for {
		name, err := r.ReadString('\n')
		if err == io.EOF {
			break
		}
		authority, err2 := r.ReadString('\n')
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		p := page(t, strings.TrimSpace(name))
		asked[p.Name()] = true
		got, examples := compare(t, p, r)
		want, ok := knownMulti[p.Name()]
		if !ok || got != want.comparison || want.comparison != (comparison{}) && want.because == "" {
			t.Errorf("%s, %s: %+v, known %+v; %v", p, strings.TrimSpace(authority), got, want, examples)
		}
	}
	for _, p := range List() {
		if (p.form == formMulti || p.form == formShift) && !asked[p.Name()] {
			t.Errorf("nobody was asked about %s", p)
		}
	}
}

// compare reads an authority's codes and compares a page with them.
func compare(t *testing.T, p *Page, r *bufio.Reader) (c comparison, examples []string) {
	t.Helper()
	number := func() uint64 {
		v, err := binary.ReadUvarint(r)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	tab := p.table()
	theirs := map[uint32]bool{}
	code, char := uint32(0), int64(0)
	note := func(what string, ours, theirs rune) {
		if len(examples) < 12 {
			examples = append(examples, fmt.Sprintf("%s %X=%s/%s", what, code, hexOf(ours), hexOf(theirs)))
		}
	}
	for range number() {
		code += uint32(number())
		step, err := binary.ReadVarint(r)
		if err != nil {
			t.Fatal(err)
		}
		char += step
		second := rune(number())
		theirs[code] = true
		if p.form == formShift && code < 0x100 {
			continue
		}
		ours, other := tab.decoded(code), rune(0)
		if ours >= pairBase {
			pair := tab.pairs[ours-pairBase]
			ours, other = pair[0], pair[1]
		}
		switch {
		case ours < 0:
			c.theirs++
			note("theirs", ours, rune(char))
		case ours != rune(char) || other != second:
			c.differ++
			note("differ", ours, rune(char))
		}
	}
	tab.each(func(at uint32, r rune) {
		if !theirs[at] && !(p.form == formShift && at < 0x100) {
			c.ours++
			code = at
			note("ours", r, bad)
		}
	})
	return c, examples
}
