package codepage

import (
	"fmt"
	"strconv"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// pages returns all pages in the order of List.
var pages = sync.OnceValue(func() []*Page {
	all := unicodePages()
	all = append(all, ebcdicPages()...)
	all = append(all, asciiPages()...)
	return append(all, multiPages()...)
})

// The numbers are IBM's CCSIDs. Windows swaps the byte orders of 1200 and 1201; here they have the mainframe's meaning.
func unicodePages() []*Page {
	return []*Page{
		{name: "UTF-8", about: "Unicode", form: formUTF8, numbers: []int{1208, 1209, 65001},
			aliases: []string{"UTF8", "unicode-1-1-utf-8", "csUTF8"}},
		{name: "UTF-8-BOM", about: "Unicode, written with a byte-order mark", form: formUTF8, marks: true,
			aliases: []string{"x-UTF-8-BOM", "UTF-8-SIG"}},
		{name: "UTF-16", about: "Unicode, order by the mark, written big-endian with one", form: formUTF16, order: orderMarked, marks: true,
			numbers: []int{1204, 1205}, aliases: []string{"UTF-16BE-BOM", "UnicodeBig", "csUTF16"}},
		{name: "UTF-16BE", about: "Unicode, big-endian, written without a mark", form: formUTF16, order: orderBig,
			numbers: []int{1200, 1201, 13488}, aliases: []string{"UnicodeBigUnmarked", "X-UTF-16BE", "csUTF16BE"}},
		{name: "UTF-16LE", about: "Unicode, little-endian, written without a mark", form: formUTF16, order: orderLittle,
			numbers: []int{1202, 1203}, aliases: []string{"UnicodeLittleUnmarked", "X-UTF-16LE", "csUTF16LE"}},
		{name: "UTF-16LE-BOM", about: "Unicode, little-endian, written with a mark", form: formUTF16, order: orderLittle, marks: true,
			aliases: []string{"x-UTF-16LE-BOM", "UnicodeLittle"}},
		{name: "UTF-32", about: "Unicode, order by the mark, written big-endian without one", form: formUTF32, order: orderMarked,
			numbers: []int{1236, 1237}, aliases: []string{"UTF_32", "csUTF32"}},
		{name: "UTF-32BE", about: "Unicode, big-endian, written without a mark", form: formUTF32, order: orderBig,
			numbers: []int{1232, 1233, 9424, 12001}, aliases: []string{"UTF_32BE", "X-UTF-32BE", "csUTF32BE"}},
		{name: "UTF-32LE", about: "Unicode, little-endian, written without a mark", form: formUTF32, order: orderLittle,
			numbers: []int{1234, 1235, 12000}, aliases: []string{"UTF_32LE", "X-UTF-32LE", "csUTF32LE"}},
		{name: "UTF-32BE-BOM", about: "Unicode, big-endian, written with a mark", form: formUTF32, order: orderBig, marks: true,
			aliases: []string{"X-UTF-32BE-BOM", "UTF_32BE_BOM"}},
		{name: "UTF-32LE-BOM", about: "Unicode, little-endian, written with a mark", form: formUTF32, order: orderLittle, marks: true,
			aliases: []string{"X-UTF-32LE-BOM", "UTF_32LE_BOM"}},
		asciiPage(),
	}
}

func asciiPage() *Page {
	p := single("US-ASCII", "ASCII, 7 bits", func() []rune {
		chars := make([]rune, utf8.RuneSelf)
		for i := range chars {
			chars[i] = rune(i)
		}
		return chars
	}, "")
	p.numbers = []int{367}
	p.aliases = []string{"ASCII", "ASCII7", "ANSI_X3.4-1968", "ANSI_X3.4-1986", "ISO646-US", "ISO_646.irv:1991", "iso-ir-6", "us", "csASCII"}
	return p
}

// xText makes a page of one of golang.org/x/text.
func xText(m *charmap.Charmap, name, about string, aliases []string, numbers ...int) *Page {
	p := single(name, about, func() []rune { return charmapRunes(m) }, "")
	p.aliases, p.numbers = aliases, numbers
	return p
}

// iso is xText for a page of ISO 8859. It maps 0x80 to 0x9F, which golang.org/x/text omits, to the controls of the IANA
// names.
func iso(m *charmap.Charmap, name, about string, aliases []string, numbers ...int) *Page {
	p := single(name, about, func() []rune {
		chars := charmapRunes(m)
		for i := 0x80; i < 0xa0; i++ {
			chars[i] = rune(i)
		}
		return chars
	}, "")
	p.aliases, p.numbers = aliases, numbers
	return p
}

func charmapRunes(m *charmap.Charmap) []rune {
	chars := make([]rune, 256)
	for i := range chars {
		if chars[i] = m.DecodeByte(byte(i)); chars[i] == utf8.RuneError {
			chars[i] = bad
		}
	}
	return chars
}

// twice holds the bytes of the Thai pages for tone marks that have two codes and are written with the other one.
var twice = map[string]string{"838": "\x51\xca\xe1\xfd\xfe", "874": "\xa0\xdb\xdc\xdd\xde", "1160": "\x51\xca\xe1\xfd"}

// ebcdic makes a single-byte page of singletables.go.
func ebcdic(number int, about string, aliases ...string) *Page {
	p := single(ibmName(number), about, func() []rune { return generated(strconv.Itoa(number)) }, twice[strconv.Itoa(number)])
	p.ebcdic, p.numbers, p.aliases = true, []int{number}, aliases
	return p
}

// dos makes a page of singletables.go that IBM numbers and that extends ASCII.
func dos(number int, about string, aliases ...string) *Page {
	p := named(strconv.Itoa(number), about, aliases, number)
	p.name = ibmName(number)
	return p
}

// named makes a page of singletables.go that extends ASCII.
func named(name, about string, aliases []string, numbers ...int) *Page {
	p := single(name, about, func() []rune { return generated(name) }, twice[name])
	p.aliases, p.numbers = aliases, numbers
	return p
}

// pairs makes a page of the double-byte half of a page that shifts.
func pairs(number, whole int, about string) *Page {
	return &Page{name: ibmName(number), about: about, form: formPair, ebcdic: true, numbers: []int{number},
		table: sync.OnceValue(func() *table { return pairTable(strconv.Itoa(whole)) })}
}

// shifted makes a page of multi.bin.
func shifted(number int, about string) *Page {
	return &Page{name: ibmName(number), about: about, form: formShift, ebcdic: true, numbers: []int{number},
		table: sync.OnceValue(func() *table { return shiftTable(strconv.Itoa(number)) })}
}

func ibmName(number int) string {
	s := strconv.Itoa(number)
	for len(s) < 3 {
		s = "0" + s
	}
	return "IBM-" + s
}

// koreanHalf is the single-byte half of IBM-933 by itself.
func koreanHalf() *Page {
	p := single("IBM-833", "Korea, the characters of one byte of IBM-933 by themselves", func() []rune {
		chars := generated("933")
		chars[shiftOut], chars[shiftIn] = shiftOut, shiftIn
		return chars
	}, "")
	p.ebcdic, p.numbers = true, []int{833}
	return p
}

func ebcdicPages() []*Page {
	us := xText(charmap.CodePage037, "IBM-037", "USA, Canada, Netherlands, Portugal, Brazil", []string{"ebcdic-cp-us", "ebcdic-cp-ca", "ebcdic-cp-wt", "ebcdic-cp-nl"}, 37)
	open := xText(charmap.CodePage1047, "IBM-1047", "Latin 1, open systems (z/OS UNIX)", nil, 1047)
	euro := xText(charmap.CodePage1140, "IBM-1140", "IBM-037 with the euro", []string{"ebcdic-us-37+euro"}, 1140)
	us.ebcdic, open.ebcdic, euro.ebcdic = true, true, true
	return []*Page{
		us,
		ebcdic(273, "Germany, Austria"),
		ebcdic(277, "Denmark, Norway", "EBCDIC-CP-DK", "EBCDIC-CP-NO"),
		ebcdic(278, "Finland, Sweden", "ebcdic-cp-fi", "ebcdic-cp-se"),
		ebcdic(280, "Italy", "ebcdic-cp-it"),
		ebcdic(284, "Spain, Latin America", "ebcdic-cp-es"),
		ebcdic(285, "United Kingdom", "ebcdic-cp-gb"),
		ebcdic(290, "Japan, katakana", "EBCDIC-JP-kana"),
		ebcdic(297, "France", "ebcdic-cp-fr"),
		pairs(300, 930, "Japan, the characters of two bytes of IBM-930 by themselves"),
		ebcdic(420, "Arabic", "ebcdic-cp-ar1"),
		ebcdic(424, "Hebrew", "ebcdic-cp-he"),
		ebcdic(500, "International Latin 1", "ebcdic-cp-be", "ebcdic-cp-ch"),
		ebcdic(803, "Hebrew, old"),
		koreanHalf(),
		pairs(834, 933, "Korea, the characters of two bytes of IBM-933 by themselves"),
		ebcdic(838, "Thai", "IBM-Thai", "IBMThai", "csIBMThai"),
		ebcdic(870, "Latin 2", "ebcdic-cp-roece", "ebcdic-cp-yu"),
		ebcdic(871, "Iceland", "ebcdic-cp-is"),
		ebcdic(875, "Greek"),
		ebcdic(880, "Cyrillic, old", "EBCDIC-Cyrillic"),
		ebcdic(905, "Turkish, old (Latin 3)", "ebcdic-cp-tr"),
		ebcdic(918, "Urdu", "ebcdic-cp-ar2"),
		shifted(930, "Japan, katakana and kanji"),
		shifted(933, "Korea"),
		shifted(935, "China, simplified"),
		shifted(937, "Taiwan, traditional"),
		shifted(939, "Japan, Latin and kanji"),
		ebcdic(1025, "Cyrillic"),
		ebcdic(1026, "Turkish (Latin 5)"),
		open,
		ebcdic(1097, "Farsi"),
		ebcdic(1112, "Baltic"),
		ebcdic(1122, "Estonia"),
		ebcdic(1123, "Ukraine"),
		ebcdic(1137, "Devanagari"),
		euro,
		ebcdic(1141, "IBM-273 with the euro", "ebcdic-de-273+euro"),
		ebcdic(1142, "IBM-277 with the euro", "ebcdic-dk-277+euro", "ebcdic-no-277+euro"),
		ebcdic(1143, "IBM-278 with the euro", "ebcdic-fi-278+euro", "ebcdic-se-278+euro"),
		ebcdic(1144, "IBM-280 with the euro", "ebcdic-it-280+euro"),
		ebcdic(1145, "IBM-284 with the euro", "ebcdic-es-284+euro"),
		ebcdic(1146, "IBM-285 with the euro", "ebcdic-gb-285+euro"),
		ebcdic(1147, "IBM-297 with the euro", "ebcdic-fr-297+euro"),
		ebcdic(1148, "IBM-500 with the euro", "ebcdic-international-500+euro"),
		ebcdic(1149, "IBM-871 with the euro", "ebcdic-is-871+euro"),
		ebcdic(1153, "Latin 2 with the euro"),
		ebcdic(1154, "Cyrillic with the euro"),
		ebcdic(1155, "Turkish with the euro"),
		ebcdic(1156, "Baltic with the euro"),
		ebcdic(1157, "Estonia with the euro"),
		ebcdic(1158, "Ukraine with the euro"),
		ebcdic(1160, "Thai with the euro"),
		ebcdic(1166, "Cyrillic, Kazakhstan"),
		shifted(1364, "Korea, full Hangul"),
		shifted(1371, "Taiwan, traditional, with the euro"),
		shifted(1388, "China, GBK"),
		shifted(1390, "Japan, katakana and kanji, with the euro"),
		shifted(1399, "Japan, Latin and kanji, with the euro"),
	}
}

func asciiPages() []*Page {
	all := []*Page{
		iso(charmap.ISO8859_1, "ISO-8859-1", "Western Europe", []string{"ISO_8859-1:1987", "ISO8859_1", "8859_1", "latin1", "l1", "iso-ir-100", "csISOLatin1"}, 819),
		iso(charmap.ISO8859_2, "ISO-8859-2", "Central Europe", []string{"ISO_8859-2:1987", "8859_2", "latin2", "l2", "iso-ir-101", "csISOLatin2"}, 912),
		iso(charmap.ISO8859_3, "ISO-8859-3", "Southern Europe", []string{"ISO_8859-3:1988", "8859_3", "latin3", "l3", "iso-ir-109", "csISOLatin3"}, 913),
		iso(charmap.ISO8859_4, "ISO-8859-4", "Northern Europe", []string{"ISO_8859-4:1988", "8859_4", "latin4", "l4", "iso-ir-110", "csISOLatin4"}, 914),
		iso(charmap.ISO8859_5, "ISO-8859-5", "Cyrillic", []string{"ISO_8859-5:1988", "8859_5", "cyrillic", "iso-ir-144", "csISOLatinCyrillic"}, 915),
		iso(charmap.ISO8859_6, "ISO-8859-6", "Arabic", []string{"ISO_8859-6:1987", "8859_6", "arabic", "ASMO-708", "ECMA-114", "iso-ir-127", "csISOLatinArabic", "ISO-8859-6-E", "ISO-8859-6-I"}, 1089),
		iso(charmap.ISO8859_7, "ISO-8859-7", "Greek", []string{"ISO_8859-7:1987", "8859_7", "greek", "greek8", "ELOT_928", "ECMA-118", "iso-ir-126", "csISOLatinGreek"}, 813),
		iso(charmap.ISO8859_8, "ISO-8859-8", "Hebrew", []string{"ISO_8859-8:1988", "8859_8", "hebrew", "iso-ir-138", "csISOLatinHebrew", "ISO-8859-8-E", "ISO-8859-8-I", "logical"}, 916),
		iso(charmap.ISO8859_9, "ISO-8859-9", "Turkish", []string{"ISO_8859-9:1989", "8859_9", "latin5", "l5", "iso-ir-148", "csISOLatin5"}, 920),
		iso(charmap.ISO8859_10, "ISO-8859-10", "Nordic", []string{"ISO_8859-10:1992", "8859_10", "latin6", "l6", "iso-ir-157", "csISOLatin6"}, 919),
		named("ISO-8859-11", "Thai", []string{"x-iso-8859-11", "iso8859_11", "8859_11"}),
		named("TIS-620", "Thai, ISO-8859-11 without its controls", []string{"tis620.2533", "csTIS620"}),
		iso(charmap.ISO8859_13, "ISO-8859-13", "Baltic", []string{"8859_13", "latin7", "l7"}, 921),
		iso(charmap.ISO8859_14, "ISO-8859-14", "Celtic", []string{"8859_14", "latin8", "l8", "iso-ir-199", "iso-celtic"}),
		iso(charmap.ISO8859_15, "ISO-8859-15", "Western Europe with the euro", []string{"8859_15", "latin9", "Latin-9", "l9", "ISO8859_15_FDIS"}, 923),
		iso(charmap.ISO8859_16, "ISO-8859-16", "South-eastern Europe", []string{"8859_16", "latin10", "l10", "iso-ir-226"}),
		xText(charmap.Windows1250, "windows-1250", "Windows, Central Europe", []string{"x-cp1250"}, 1250, 5346),
		xText(charmap.Windows1251, "windows-1251", "Windows, Cyrillic", []string{"x-cp1251"}, 1251, 5347),
		xText(charmap.Windows1252, "windows-1252", "Windows, Western Europe", []string{"x-cp1252", "ansi"}, 1252, 5348),
		xText(charmap.Windows1253, "windows-1253", "Windows, Greek", []string{"x-cp1253"}, 1253, 5349),
		xText(charmap.Windows1254, "windows-1254", "Windows, Turkish", []string{"x-cp1254"}, 1254, 5350),
		xText(charmap.Windows1255, "windows-1255", "Windows, Hebrew", []string{"x-cp1255"}, 1255, 9447),
		xText(charmap.Windows1256, "windows-1256", "Windows, Arabic", []string{"x-cp1256"}, 1256, 9448),
		xText(charmap.Windows1257, "windows-1257", "Windows, Baltic", []string{"x-cp1257"}, 1257, 9449),
		xText(charmap.Windows1258, "windows-1258", "Windows, Vietnamese", []string{"x-cp1258"}, 1258, 5354),
		xText(charmap.Windows874, "windows-874", "Windows, Thai", []string{"MS874", "x-windows-874"}, 1162),
	}
	return append(all, olderPages()...)
}

func olderPages() []*Page {
	return []*Page{
		xText(charmap.CodePage437, "IBM-437", "DOS, USA", []string{"cspc8codepage437"}, 437),
		dos(737, "DOS, Greek"),
		dos(775, "DOS, Baltic", "csPC775Baltic"),
		xText(charmap.CodePage850, "IBM-850", "DOS, Western Europe", []string{"cspc850multilingual"}, 850),
		xText(charmap.CodePage852, "IBM-852", "DOS, Central Europe", []string{"csPCp852"}, 852),
		xText(charmap.CodePage855, "IBM-855", "DOS, Cyrillic", nil, 855),
		dos(856, "DOS, Hebrew"),
		dos(857, "DOS, Turkish", "csIBM857"),
		xText(charmap.CodePage858, "IBM-858", "DOS, Western Europe with the euro", []string{"PC-Multilingual-850+euro"}, 858),
		xText(charmap.CodePage860, "IBM-860", "DOS, Portugal", nil, 860),
		dos(861, "DOS, Iceland", "cp-is", "csIBM861"),
		xText(charmap.CodePage862, "IBM-862", "DOS, Hebrew", []string{"cspc862latinhebrew"}, 862),
		xText(charmap.CodePage863, "IBM-863", "DOS, Canada, French", nil, 863),
		dos(864, "DOS, Arabic", "csIBM864"),
		xText(charmap.CodePage865, "IBM-865", "DOS, Nordic", nil, 865),
		xText(charmap.CodePage866, "IBM-866", "DOS, Cyrillic (Russia)", nil, 866),
		dos(868, "DOS, Urdu", "cp-ar", "csIBM868"),
		dos(869, "DOS, Greek, newer", "cp-gr", "csIBM869"),
		dos(874, "DOS, Thai"),
		dos(922, "Estonia"),
		dos(1006, "Urdu"),
		dos(1046, "Arabic"),
		dos(1098, "DOS, Farsi"),
		dos(1124, "Cyrillic, Ukraine"),
		dos(1129, "Vietnam"),
		xText(charmap.KOI8R, "KOI8-R", "Russian", []string{"koi", "koi8", "csKOI8R"}, 878),
		xText(charmap.KOI8U, "KOI8-U", "Ukrainian", []string{"koi8-ru"}, 1168),
		xText(charmap.Macintosh, "macintosh", "Mac, Western Europe", []string{"mac", "MacRoman", "x-mac-roman", "csMacintosh"}, 1275, 10000),
		named("MacArabic", "Mac, Arabic", []string{"x-mac-arabic"}, 10004),
		named("MacCentralEurope", "Mac, Central Europe", []string{"x-MacCentralEurope", "x-mac-ce", "x-mac-centraleurroman", "macce"}, 1282, 10029),
		named("MacCroatian", "Mac, Croatian", []string{"x-mac-croatian"}, 1284, 10082),
		xText(charmap.MacintoshCyrillic, "x-mac-cyrillic", "Mac, Cyrillic", []string{"MacCyrillic", "maccy", "x-mac-ukrainian"}, 1283, 10007),
		named("MacDingbat", "Mac, signs (Zapf Dingbats)", []string{"x-MacDingbat"}),
		named("MacGreek", "Mac, Greek", []string{"x-mac-greek", "macgr"}, 1280, 10006),
		named("MacHebrew", "Mac, Hebrew", []string{"x-mac-hebrew"}, 10005),
		named("MacIceland", "Mac, Iceland", []string{"x-MacIceland", "x-mac-icelandic"}, 1286, 10079),
		named("MacRomania", "Mac, Romania", []string{"x-MacRomania", "x-mac-romanian"}, 1285, 10010),
		named("MacSymbol", "Mac, signs (Symbol)", []string{"x-MacSymbol"}),
		named("MacThai", "Mac, Thai", []string{"x-mac-thai"}, 10021),
		named("MacTurkish", "Mac, Turkish", []string{"x-mac-turkish", "mactr"}, 1281, 10081),
		named("MacUkraine", "Mac, Ukraine, x-mac-cyrillic before the euro", []string{"x-MacUkraine"}, 10017),
		xText(charmap.XUserDefined, "x-user-defined", "ASCII, and 0x80 to 0xFF as U+F780 to U+F7FF", nil),
	}
}

// multi makes a page of several bytes a character.
func multi(build func() *table, name, about string, aliases []string, numbers ...int) *Page {
	return &Page{name: name, about: about, form: formMulti, aliases: aliases, numbers: numbers, table: sync.OnceValue(build)}
}

// plain builds the table of an encoding of golang.org/x/text.
func plain(e encoding.Encoding) func() *table {
	return func() *table { return multiTable(e, -1, 0x30000) }
}

// tabled makes a page of multi.bin.
func tabled(key, name, about string, aliases []string, numbers ...int) *Page {
	return multi(func() *table { return publishedTable(key) }, name, about, aliases, numbers...)
}

// vendors returns IBM's pages of East Asia for personal computers and Unix. Pages with names that end with C have the
// whole of ASCII.
func vendors() []*Page {
	variant := func(number int, about string, aliases ...string) *Page {
		name := ibmName(number) + "C"
		return multi(func() *table { return plainASCII(strconv.Itoa(number)) }, name, about, append(aliases, fmt.Sprintf("Cp%dC", number), fmt.Sprintf("x-IBM%dC", number)))
	}
	ibm := func(number int, about string, aliases ...string) *Page {
		return tabled(strconv.Itoa(number), ibmName(number), about, aliases, number)
	}
	return []*Page{
		ibm(942, "Japan, OS/2; yen sign and overline for \\ and ~"),
		variant(942, "Japan, OS/2", "ibm-942_P12A-1999"),
		ibm(943, "Japan, Windows; yen sign and overline for \\ and ~"),
		variant(943, "Japan, Windows, with IBM's signs", "ibm-943_P15A-2003"),
		ibm(949, "Korea, PC; won sign for \\"),
		variant(949, "Korea, PC", "ibm-949_P11A-1999"),
		ibm(964, "Taiwan, Unix", "IBM-eucTW"),
		ibm(1381, "China, PC"),
		ibm(1383, "China, Unix", "IBM-eucCN", "CpEucCN"),
		ibm(33722, "Japan, Unix; yen sign and overline for \\ and ~", "5050", "ibm-5050", "ibm-33722_vascii_vpua"),
	}
}

func multiPages() []*Page {
	return append(vendors(), []*Page{
		multi(shiftJISTable, "Shift_JIS", "Japan, Windows (windows-31j)", []string{"windows-31j", "MS932", "SJIS", "x-sjis", "MS_Kanji", "csShiftJIS", "csWindows31J"}, 932),
		multi(eucJPTable, "EUC-JP", "Japan, Unix", []string{"EUC_JP", "UJIS", "x-euc-jp", "eucjis"}, 954, 51932),
		multi(plain(korean.EUCKR), "EUC-KR", "Korea (windows-949)", []string{"windows-949", "MS949", "UHC", "korean", "ks_c_5601-1987", "KSC5601", "KS_C_5601", "csEUCKR"}, 970, 51949),
		multi(plain(simplifiedchinese.GBK), "GBK", "China, simplified (windows-936)", []string{"windows-936", "MS936", "x-gbk"}, 936, 1386),
		multi(gb18030Table, "GB18030", "China, all of Unicode", []string{"gb18030-2000", "gb18030-2005"}, 1392, 5488, 54936),
		multi(plain(traditionalchinese.Big5), "Big5", "Taiwan, Hong Kong, traditional", []string{"windows-950", "MS950", "big5-tw", "cn-big5", "x-x-big5", "csBig5"}, 950),
		tabled("Big5-HKSCS", "Big5-HKSCS", "Hong Kong, traditional", []string{"Big5_HKSCS", "big5hk", "HKSCS-BIG5", "csBig5HKSCS"}, 1375),
		tabled("EUC-TW", "EUC-TW", "Taiwan, Unix, traditional, all planes", []string{"x-EUC-TW", "EUC_TW", "cns11643", "csEUCTW"}, 51950),
		tabled("GB2312", "GB2312", "China, simplified, Unix", []string{"EUC-CN", "x-EUC-CN", "EUC_CN", "gb2312-80", "gb2312-1980", "GB_2312-80", "csGB2312"}, 20936),
		tabled("Johab", "Johab", "Korea, all syllables", []string{"x-Johab", "MS1361", "ksc5601-1992", "ksc5601_1992"}, 1361),
		{name: "ISO-2022-JP", about: "Japan, mail", form: formEscape, table: sync.OnceValue(iso2022JPTable),
			aliases: []string{"ISO2022JP", "JIS", "JIS_Encoding", "csISO2022JP", "csJISEncoding"}},
		{name: "ISO-2022-KR", about: "Korea, mail", form: formEscape, table: sync.OnceValue(iso2022KRTable), begins: koreanKSX,
			aliases: []string{"ISO2022KR", "csISO2022KR"}, numbers: []int{25546, 50225}},
	}...)
}
