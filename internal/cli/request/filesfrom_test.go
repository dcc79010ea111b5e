package request

import (
	"slices"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

func TestNamesOfAList(t *testing.T) {
	for list, want := range map[string][]transfer.Path{
		"a\nb\n": {"a", "b"}, "a\r\n b \r\n\r\nc": {"a", " b ", "c"}, "/a\n//b/c\na": {"a", "b/c"}, "": nil, "\n\n": nil,
		"a\nb\x00c\x00": {"a\nb", "c"}, "\xff\n*": {"\xff", "*"},
	} {
		if got := parseNames([]byte(list)); !slices.Equal(got, want) {
			t.Errorf("%q gave %q, want %q", list, got, want)
		}
	}
	long := strings.NewReader(strings.Repeat("name\n", transfer.MaxRequest/5+1))
	if _, err := sourcesFrom("-", long); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("a list that is too long: %v", err)
	}
}

// TestListsOfWindows: a list may have a byte-order mark, or be UTF-16 with one.
func TestListsOfWindows(t *testing.T) {
	for _, list := range []string{"\xef\xbb\xbfa\r\n\xc3\xbc\r\n", "\xff\xfea\x00\r\x00\n\x00\xfc\x00\r\x00\n\x00", "\xfe\xff\x00a\x00\r\x00\n\x00\xfc"} {
		if got, err := sourcesFrom("-", strings.NewReader(list)); err != nil || !slices.Equal(got, []transfer.Path{"a", "ü"}) {
			t.Errorf("%q gave %q, %v", list, got, err)
		}
	}
	if _, err := sourcesFrom("-", strings.NewReader("a\x00\r\x00\n\x00")); transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), "UTF-16") {
		t.Errorf("UTF-16 without a mark: %v", err)
	}
}

// wideText is an ASCII text in UTF-16 with a byte-order mark.
func wideText(text string) string {
	wide := []byte("\xff\xfe")
	for _, c := range []byte(text) {
		wide = append(wide, c, 0)
	}
	return string(wide)
}

// TestLimitsOfWideLists: a list in UTF-16 has the limit of the same list in UTF-8.
func TestLimitsOfWideLists(t *testing.T) {
	names := strings.Repeat("\n", transfer.MaxRequest-2) + "a\n"
	if got, err := sourcesFrom("-", strings.NewReader(wideText(names))); err != nil || !slices.Equal(got, []transfer.Path{"a"}) {
		t.Errorf("sourcesFrom gave %q, %v", got, err)
	}
	if _, err := sourcesFrom("-", strings.NewReader(wideText(names+"b"))); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("a list that is too long: %v", err)
	}
}

// FuzzNamesOfAList: no name is empty, begins with a slash or comes twice.
func FuzzNamesOfAList(f *testing.F) {
	for _, s := range []string{"a\nb\r\n", "a\x00b\nc", "///\n", "\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		seen := map[transfer.Path]bool{}
		for _, n := range parseNames(b) {
			if n == "" || n[0] == '/' || seen[n] {
				t.Errorf("%q gave %q", b, n)
			}
			seen[n] = true
		}
	})
}
