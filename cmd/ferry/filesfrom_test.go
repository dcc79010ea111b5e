package main

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
