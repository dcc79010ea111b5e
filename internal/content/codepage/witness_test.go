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

// The tests here compare every page with the tables of another authority than the one of its own tables.
// generate_witness.go collected them and documents their origin. Every difference is listed below, with its reason;
// docs/text-and-records.md tells users of them.

// A known difference: the page, the authority (the beginning of its name), the bytes, and the reason.
type known struct {
	page, authority string
	bytes           string // in hexadecimal, "ours/theirs" after =; all of them where it is empty
	because         string
}

const (
	pcControls = "IBM's own table turns three controls round; everybody else leaves them"
	undefinedC = "a byte that Windows does not define is a control there, and an error here"
	euroMac    = "Java has Apple's page as it was before the euro"
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
	{"IBM-1006", "Python", "B2=F8FB/FE8E C7=FB88/FB84 D5=FEC3/FEC1 D6=FEC7/FEC5 E3=FB8E/FED9 F9=FBFC/FEF1 FA=FBFD/FEF2 FB=FBFE/FEF3", "letters whose forms Python has otherwise than IBM, Java and ICU"},
	{"IBM-1046", "glibc", "83=F8F6/FEB1 84=F8F5/FEB5 85=F8F4/FEB9 86=F8F7/FEBD A1=F8FA/FE82 A2=F8F9/FE84 A3=F8F8/FE88 A5=F8FB/FE8E C1=FE80/0621 C2=FE81/0622 C3=FE83/0623 C4=FE85/0624 C5=FE87/0625 C6=FE89/0626 C7=FE8D/0627 C8=FE8F/0628 C9=FE93/0629 CA=FE95/062A CB=FE99/062B CC=FE9D/062C CD=FEA1/062D CE=FEA5/062E CF=FEA9/062F D0=FEAB/0630 D1=FEAD/0631 D2=FEAF/0632 D3=FEB1/0633 D4=FEB5/0634 D5=FEB9/0635 D6=FEBD/0636 D7=FEC3/0637 D8=FEC7/0638 D9=FEC9/0639 DA=FECD/063A E1=FED1/0641 E2=FED5/0642 E3=FED9/0643 E4=FEDD/0644 E5=FEE1/0645 E6=FEE5/0646 E7=FEEB/0647 E8=FEED/0648 E9=FEEF/0649 EA=FEF1/064A EB=FE70/064B EC=FE72/064C ED=FE74/064D EE=FE76/064E EF=FE78/064F F0=FE7A/0650 F1=FE7C/0651 F2=FE7E/0652 F6=F8FC/200B", "the C library has letters where Java has their forms, as in IBM-918"},
	{"IBM-1098", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A", pcControls},
	{"IBM-737", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A", pcControls},
	{"IBM-775", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A", pcControls},
	{"IBM-856", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A", pcControls},
	{"IBM-856", "Python", "EE=203E/00AF FA=2022/00B7", "overline and bullet, as in IBM-424"},
	{"IBM-857", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A", pcControls},
	{"IBM-861", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A E6=00B5/03BC", pcControls + "; " + mu},
	{"IBM-864", "ICU", "1A=001A/001C 1C=001C/007F 25=066A/0025 7F=007F/001A 9F=-/200B D7=FEC1/FEC3 D8=FEC5/FEC7 F1=0651/FE7C", pcControls + "; Python, Java and the C library have the Arabic percent sign and other forms, and nothing at 9F"},
	{"IBM-868", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A", pcControls},
	{"IBM-869", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A 88=00B7/0387 EF=0384/00B4", pcControls + "; Python, Java and the C library have the middle dot and the tonos"},
	{"IBM-874", "ICU", "1A=001A/001C 1C=001C/007F 7F=007F/001A 80=20AC/-", pcControls + "; ICU has the euro of 9066"},
	{"IBM-922", "ICU", "AF=203E/00AF", "Java has the overline, ICU and the C library the macron"},
	{"IBM-922", "glibc", "AF=203E/00AF", "Java has the overline, ICU and the C library the macron"},
	{"MacArabic", "Python", "A0=-/0020 A1=-/0021 A2=-/0022 A3=-/0023 A4=-/0024 A6=-/0026 A7=-/0027 A8=-/0028 A9=-/0029 AA=-/002A AB=-/002B AD=-/002D AE=-/002E AF=-/002F BA=-/003A BC=-/003C BD=-/003D BE=-/003E C0=066D/274A DB=-/005B DC=-/005C DD=-/005D DE=-/005E DF=-/005F FB=-/007B FC=-/007C FD=-/007D", "Apple has signs of ASCII a second time, for the other direction; Java reads them once, and has another star"},
	{"MacCroatian", "Python", "BD=2126/03A9 DB=00A4/20AC", euroMac},
	{"MacDingbat", "Perl", "7F=007F/- 80=-/2768 81=-/2769 82=-/276A 83=-/276B 84=-/276C 85=-/276D 86=-/276E 87=-/276F 88=-/2770 89=-/2771 8A=-/2772 8B=-/2773 8C=-/2774 8D=-/2775", "Perl has no 7F; Java lacks the brackets that Unicode got later"},
	{"MacGreek", "ICU", "9C=00AD/20AC AF=0387/00B7 FF=-/00AD", euroMac},
	{"MacGreek", "Python", "9C=00AD/20AC AF=0387/00B7 FF=-/00AD", euroMac},
	{"MacHebrew", "Perl", "20=0020/- 21=0021/- 22=0022/- 23=0023/- 24=0024/- 25=0025/- 27=0027/- 28=0028/- 29=0029/- 2A=002A/- 2B=002B/- 2C=002C/- 2D=002D/- 2E=002E/- 2F=002F/- 30=0030/- 31=0031/- 32=0032/- 33=0033/- 34=0034/- 35=0035/- 36=0036/- 37=0037/- 38=0038/- 39=0039/- 3A=003A/- 3B=003B/- 3C=003C/- 3D=003D/- 3E=003E/- 3F=003F/- 5B=005B/- 5D=005D/- 7B=007B/- 7C=007C/- 7D=007D/- 7F=007F/- 81=FB1F/- A0=-/0020 A1=-/0021 A2=-/0022 A3=-/0023 A4=-/0024 A5=-/0025 A7=-/0027 A8=-/0029 A9=-/0028 AA=-/002A AB=-/002B AC=-/002C AD=-/002D AE=-/002E AF=-/002F B0=-/0030 B1=-/0031 B2=-/0032 B3=-/0033 B4=-/0034 B5=-/0035 B6=-/0036 B7=-/0037 B8=-/0038 B9=-/0039 BA=-/003A BB=-/003B BC=-/003C BD=-/003D BE=-/003E BF=-/003F C2=-/F89B C3=-/F89C C4=-/F89D C5=-/F89E FB=-/007D FC=-/005D FD=-/007B FE=-/005B FF=-/007C", "Apple has signs and digits a second time, for the other direction, and Perl only there; Java has them once, and one character where Perl has two"},
	{"MacIceland", "Python", "BD=2126/03A9 DB=00A4/20AC", euroMac},
	{"MacRomania", "Python", "AF=015E/0218 BD=2126/03A9 BF=015F/0219 DB=00A4/20AC DE=0162/021A DF=0163/021B", euroMac + "; cedillas, for which Apple later took commas below"},
	{"MacSymbol", "Perl", "7F=007F/- BE=F8E7/23AF E6=-/239B E7=-/239C E8=-/239D E9=-/23A1 EA=-/23A2 EB=-/23A3 EC=-/23A7 ED=-/23A8 EE=-/23A9 EF=F8F4/23AA F4=-/23AE F6=-/239E F7=-/239F F8=-/23A0 F9=-/23A4 FA=-/23A5 FB=-/23A6 FC=-/23AB FD=-/23AC FE=-/23AD", "Perl has no 7F; Java lacks the parts of brackets that Unicode got later"},
	{"MacThai", "Perl", "7F=007F/- 83=F88C/- 84=F88F/- 85=F892/- 86=F895/- 87=F898/- 88=F88B/- 89=F88E/- 8A=F891/- 8B=F894/- 8C=F897/- 8F=F899/- 92=F884/- 93=F889/- 94=F885/- 95=F886/- 96=F887/- 97=F888/- 98=F88A/- 99=F88D/- 9A=F890/- 9B=F893/- 9C=F896/- DB=FEFF/2060", "Perl has no 7F, and two characters where Java has one of the private use area"},
	{"MacTurkish", "ICU", "BD=2126/03A9 F5=-/F8A0", euroMac},
	{"MacTurkish", "Python", "BD=2126/03A9 F5=-/F8A0", euroMac},
	{"MacUkraine", "ICU", "FF=00A4/20AC", euroMac},
	{"TIS-620", "glibc", "A0=00A0/-", "Java has the no-break space of ISO-8859-11"},
	{"x-mac-cyrillic", "Java", "A2=0490/00A2 B6=0491/2202 FF=20AC/00A4", "Java has the page as it was before the euro and the Ukrainian letters; all others have it as it is here"},
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

// A comparison is the result for a page of several bytes: the number of codes with different characters, and the
// numbers of codes that only one side has.
type comparison struct{ differ, ours, theirs int }

var knownMulti = map[string]struct {
	comparison
	because string
}{
	"IBM-930 ICU": {}, "IBM-933 ICU": {}, "IBM-935 ICU": {}, "IBM-937 ICU": {}, "IBM-939 ICU": {}, "IBM-1364 ICU": {}, "IBM-1371 ICU": {}, "IBM-1388 ICU": {},
	"IBM-1390 ICU": {}, "IBM-1399 ICU": {}, "EUC-KR Python": {}, "GB18030 Python": {},
	"Shift_JIS Python": {comparison{0, 0, 4}, "Python reads the bytes A0, FD, FE and FF, which stand for nothing"},
	"EUC-JP Python":    {comparison{7, 457, 0}, "seven signs have Microsoft's characters, as in Shift_JIS; Python lacks the rows of NEC and IBM"},
	"GBK Python":       {comparison{0, 83, 0}, "the euro sign, as 80 and as A2E3, and what GB18030 added in two bytes"},
	"IBM-300 Java":     {comparison{5, 0, 0}, "five signs that Java has otherwise; here they are those of IBM-930 and IBM-939, as in ICU"},
	"IBM-834 Java":     {}, "IBM-942C Java": {}, "IBM-943 ICU": {}, "IBM-943C Java": {}, "IBM-949C Java": {}, "IBM-964 ICU": {}, "IBM-33722 ICU": {},
	"GB2312 Python": {}, "ISO-2022-KR Python": {},
	"IBM-942 ICU":        {comparison{7, 0, 0}, "yen sign and overline, which ICU's variant lacks; five signs have Microsoft's characters in ICU"},
	"IBM-942C ICU":       {comparison{8, 0, 0}, "three controls turned round in ICU; five signs have Microsoft's characters there"},
	"IBM-943C ICU":       {comparison{9, 0, 0}, "three controls turned round in ICU; six codes have Microsoft's characters there"},
	"IBM-949 ICU":        {comparison{3, 0, 0}, "three controls turned round in ICU"},
	"IBM-949C ICU":       {comparison{3, 0, 0}, "three controls turned round in ICU"},
	"IBM-1381 Python":    {comparison{1, 1916, 0}, "the full-width apostrophe is an acute accent; Python has GB 2312 alone, without IBM's additions and the private use area"},
	"IBM-1383 ICU":       {comparison{2, 0, 0}, "two codes at the end for which ICU has the private use area"},
	"Big5-HKSCS ICU":     {comparison{50, 8, 629}, "ICU has the private use area for strokes and for the letters with a mark, and for the rows 81 to 86"},
	"Big5-HKSCS Python":  {comparison{3, 74, 0}, "three signs that look alike; Python lacks what was added in 2008"},
	"EUC-TW ICU":         {comparison{18, 10, 6823}, "signs of plane 1 and ten characters of the others; ICU reads controls at 80 to 9F, the radicals of plane 1 and the private use area in planes 12 and 13"},
	"ISO-2022-JP Python": {comparison{1, 1, 6}, "the em dash is a horizontal bar; Python reads SO and SI as characters, and no space among katakana"},
	"Johab Python":       {comparison{0, 0, 17}, "Python reads letters by themselves in a second way"},
	"Big5 Python":        {comparison{11, 192, 0}, "eleven signs have Microsoft's characters, as in windows-950; Python lacks the newest characters of Hong Kong"},
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
		who, _, _ := strings.Cut(authority, " ")
		want, ok := knownMulti[p.Name()+" "+who]
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
