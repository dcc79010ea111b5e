package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ferry/internal/transfer"
)

// Entries are read as java.util.Properties reads them.
func TestProperties(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"a=b":                          "1 a=b",
		"a=b\r\nc=d\re=f\n":            "1 a=b,2 c=d,3 e=f",
		"# x\n  ! y\n\n \t\f\na=b":     "5 a=b",
		" a = b ":                      "1 a=b ",
		"a:b\na : b\na b\na\tb\na\f b": "1 a=b,2 a=b,3 a=b,4 a=b,5 a=b",
		"a = : b":                      "1 a=: b",
		"a==b":                         "1 a==b",
		"a\nb=\n=c":                    "1 a=,2 b=,3 =c",
		`a\=b\:c\ d=e`:                 "1 a=b:c d=e",
		"a=b\\\n   c\\\r\n\td\ne=f":    "1 a=bcd,4 e=f",
		"a=b\\\\\nc=d":                 `1 a=b\,2 c=d`,
		"a=b\\\\\\\n  c":               `1 a=b\c`,
		"a=b\\\n# no comment\nc=d":     "1 a=b# no comment,3 c=d",
		"a=b\\\n\nc=d":                 "1 a=b,3 c=d",
		"# c\\\na=b":                   "2 a=b",
		"\\\n# c\na=b":                 "3 a=b",
		"a=b\\":                        "1 a=b",
		`a=C:\\dir\\x`:                 `1 a=C:\dir\x`,
		`a=C:\dir`:                     "1 a=C:dir",
		`a=\t\n\r\f\"\q`:               "1 a=\t\n\r\f\"q",
		`a=\u00e4\u20AC\uD83D\uDE00`:   "1 a=ä€😀",
		"a=\xe4":                       "1 a=ä",
		"a=ä":                          "1 a=ä",
		"\xef\xbb\xbfa=ä":              "1 a=ä",
		`a=\ä`:                         "1 a=ä",
		"a=1\na=2":                     "1 a=1,2 a=2",
	} {
		all, err := ParseProperties([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		var got []string
		for _, p := range all {
			got = append(got, fmt.Sprintf("%d %s=%s", p.Line, p.Key, p.Value))
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%q is %q; want %q", text, got, want)
		}
	}
	for text, word := range map[string]string{
		"a=b\nc=\\u00g0":                      "line 2",
		`a=\u12`:                              "four digits",
		`a=\u12 4`:                            "four digits",
		`a=\uD83D`:                            "half a character",
		`a=\uD83D\u0041`:                      "half a character",
		`a=\uDE00\uD83D`:                      "half a character",
		`a=\uD83D\ux`:                         "four digits",
		"a=" + strings.Repeat("x", maxWord+1): "more than 65536 bytes",
		strings.Repeat("a\n", maxEntries+1):   "10000 entries",
		strings.Repeat("#", MaxProperties+1):  "1048576 bytes",
	} {
		if _, err := ParseProperties([]byte(text)); transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), word) {
			t.Errorf("%.40q: %v; want %q", text, err, word)
		}
	}
}

// The entries of any file are text, in the order of its lines. If each is written in its simplest form, they are parsed
// as the same entries.
func FuzzProperties(f *testing.F) {
	for _, s := range []string{"a=b", "# c\na : b\\\n c", `a=\u00e4\uD83D\uDE00`, "a\\=b c", "\xe4=\xff", "a=b\\", "=", "\\"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := ParseProperties(data)
		if err != nil {
			if transfer.KindOf(err) != transfer.KindUsage {
				t.Fatalf("%v: %v", transfer.KindOf(err), err)
			}
			return
		}
		var text strings.Builder
		last := 0
		for _, p := range all {
			if !utf8.ValidString(p.Key) || !utf8.ValidString(p.Value) || p.Line <= last {
				t.Fatalf("%+v", p)
			}
			last = p.Line
			for _, r := range p.Key + "\x00" + p.Value {
				if r == 0 {
					text.WriteByte('=')
				}
				if r > 0xffff {
					fmt.Fprintf(&text, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
				} else if r != 0 {
					fmt.Fprintf(&text, `\u%04x`, r)
				}
			}
			text.WriteByte('\n')
		}
		if slices.ContainsFunc(all, func(p Property) bool { return strings.ContainsRune(p.Key+p.Value, 0) }) || text.Len() > MaxProperties {
			return
		}
		again, err := ParseProperties([]byte(text.String()))
		if err != nil || len(again) != len(all) {
			t.Fatalf("%v: %d entries, and %d", err, len(all), len(again))
		}
		for n := range all {
			if all[n].Key != again[n].Key || all[n].Value != again[n].Value {
				t.Errorf("%+v became %+v", all[n], again[n])
			}
		}
	})
}
