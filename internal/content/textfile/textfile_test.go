package textfile

import (
	"errors"
	"testing"
	"unicode/utf8"
)

func TestUTF8(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		err              error
	}{
		{"nothing", "", "", nil},
		{"UTF-8", "a\r\nü", "a\r\nü", nil},
		{"other bytes", "a\xff\xfeb", "a\xff\xfeb", nil},
		{"a mark", "\xef\xbb\xbfa", "a", nil},
		{"a mark alone", "\xef\xbb\xbf", "", nil},
		{"one mark of two", "\xef\xbb\xbf\xef\xbb\xbfa", "\xef\xbb\xbfa", nil},
		{"UTF-16LE", "\xff\xfea\x00\xfc\x00\r\x00\n\x00", "aü\r\n", nil},
		{"UTF-16BE", "\xfe\xff\x00a\x00\xfc", "aü", nil},
		{"a mark of UTF-16 alone", "\xff\xfe", "", nil},
		{"beyond the first plane", "\xff\xfe\x3d\xd8\x00\xde", "😀", nil},
		{"half a unit", "\xff\xfea", "", errDamaged},
		{"half a pair", "\xff\xfe\x3d\xd8", "", errDamaged},
		{"a pair the wrong way round", "\xff\xfe\x00\xde\x3d\xd8", "", errDamaged},
		{"UTF-32LE", "\xff\xfe\x00\x00a\x00\x00\x00", "", errUTF32},
		{"UTF-32BE", "\x00\x00\xfe\xff\x00\x00\x00a", "", errUTF32},
		{"UTF-16LE without a mark", "a\x00b\x00\r\x00\n\x00c\x00", "", errUnmarked},
		{"UTF-16BE without a mark", "\x00a\x00\n\x00c", "", errUnmarked},
		{"names ended by NUL", "a\x00b\x00c\x00", "a\x00b\x00c\x00", nil},
		{"a name of a line end", "\n\x00", "\n\x00", nil},
	} {
		if got, err := UTF8([]byte(c.text)); string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// FuzzUTF8: a text that had a mark of UTF-16 is UTF-8 afterwards.
func FuzzUTF8(f *testing.F) {
	for _, s := range []string{"", "a", "\xef\xbb\xbfa", "\xff\xfea\x00", "\xfe\xff\x00a", "\xff\xfe\x3d\xd8\x00\xde", "\xff\xfe\x00\x00", "a\x00\n\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := UTF8(text)
		if err == nil && len(text) > 1 && (text[0] == 0xff && text[1] == 0xfe || text[0] == 0xfe && text[1] == 0xff) && !utf8.Valid(got) {
			t.Errorf("%q became %q", text, got)
		}
	})
}
