// Package transfertest has names of files that have another meaning if code parses them as text: as a location, a
// pattern, a data set, a queue, a variable, an option or a path.
package transfertest

import (
	"fmt"
	"strings"
)

// whole are complete names.
var whole = []string{
	"'quoted.csv", "'X(Y)'", "'A.B',RECFM(FB)", "'A.B'", "'A.B';LRECL(80)", "'", "''", "\"", "\"x\"", "`id`",
	"queue:X", "queue:ORDERS", "queue:ORDERS?split-size=1", "queue:Z.csv", "queue:", "queue:*", "QUEUE:X", "queue:A?group=*&delimiter=%0A",
	"ALPHA:x", "BETA:x", "AGENT:x", "C:x", "c:", "file:", "file:x", "file:'x", "http:x", ":x", "a:b:c",
	"*", "?", "**", "*.dat", "a*b", "a?b", "***", "[a]", "[!a]", "[", "]", "{a,b}", "{}", "{", "}", "(", ")", "a(b)",
	"-", "--", "-r", "--help", "-rf", "--to=x", "~", "~root", "$", "$$", "$HOME", "${FileName}", "${FilePath}", "$${x}", "${", "${x", "${Unknown}", "${TransferId}*", "$(id)", "$1",
	"%", "%%", "%2A", "%00", "%2F", "%2E%2E", "%25", "%s", "%n", "%zz", "100%",
	" ", "  x", "x ", "x  ", " x ", "a b", "\t", "a\tb", "\n", "a\nb", "a\n", "\na", "\r", "a\rb", "a\r", "\r\n", "a\x01b", "\x01", "\x1b[31mred", "\x7f", "a\x0bb", "\x0c", "\x08", "\x1a",
	"\xff", "\xfe\xff", "a\xffb", "\xc3", "\xc3\x28", "\xed\xa0\x80", "\xef\xbb\xbf", "\xef\xbb\xbfbom", "caf\xe9", "\xf0\x9f\x98\x80", "\xf5\x80\x80\x80",
	"é", "e\u0301", "ß", "İ", "ﬁ", "Å", "A\u030a", "名前", "имя", "שם", "\u202egpj.exe", "\u200b", "a\u00a0b", "\u2028", "\ufeff", "\ufffd", "🙂",
	"...", "....", ".a", "..a", "a.", "a..", ".trg", ".dat", ".csv.", ".-", "._", ".'", ".*", ". ", ".. ", ".hidden file",
	"\\", "\\\\", "a\\b", "\\n", "\\x", "a\\", "\\*", "\\\\host\\share", "\\.", "\\?",
	"|cmd", "|", "a|b", ">x", "<x", "&", "&&x", ";", ";ls", "a;b", ",", "a,b", "a,b,c", "=", "a=b", "#", "#x", "!", "!x", "@", "@x", "+", "^", "a&amp;b", "&lt;", "<file>", "]]>", "<!--",
	"NUL", "CON", "nul.txt", "aux", "COM1", "con.csv", "PRN:", "null", "true", "0", "-1", "1e9", "0x10", "NaN", "undefined",
	"HLQ.NEW", "A.B(C)", "a_.._x", "a_b_c", "x_..", "a..b", "pay.csv", "PAY.CSV", "Pay.csv", "core", "a.part", "ferry-x.part", "x.attributes", "lost+found", "index.html", "desktop.ini",
	"{\"a\":1}", "[1,2]", "\\u0041", "<xml/>", "' OR '1'='1", "file name with many words in it.txt", "a∕b", "…", "ＡＢＣ", "%u0000", "a\u202eb", "\u0301", "ⅷ", "ΑΒΓ", "Ж", "日本.txt", "a\tb\tc", "x;y|z", "*.*", "?.?", "[0-9].csv", "a{1..3}", "!important", "%HOME%", "$@", "a,ALPHA:b",
}

// Hostile returns some 300 different names. A file system of Linux can have each of them. None is a name of Ferry's
// own.
func Hostile() []string {
	seen := map[string]bool{}
	var all []string
	add := func(name string) {
		if name == "" || name == "." || name == ".." || len(name) > 255 || strings.ContainsAny(name, "/\x00") || seen[name] {
			return
		}
		seen[name] = true
		all = append(all, name)
	}
	for _, name := range whole {
		add(name)
	}
	add(strings.Repeat("n", 255))
	add(strings.Repeat("é", 127))
	add("'" + strings.Repeat("Q", 250) + "'")
	add("queue:" + strings.Repeat("q", 240))
	for n, part := range []string{"'", "\"", "queue:", "BETA:", "file:", "*", "?", "[", "{", "${FileName}", "%", "\\", "\n", "\t", " ", "\xff", "-", "~", "|", ","} {
		add(part + "name")
		add("name" + part)
		add(fmt.Sprintf("na%sme.%d", part, n))
	}
	return all
}

// Content returns the content of the file of a name. No two names have the same.
func Content(name string) []byte { return fmt.Appendf(nil, "content of %x\n", name) }
