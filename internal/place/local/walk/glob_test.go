package walk

import (
	"ferry/internal/place/local/disk"
	"path"
	"strings"
	"testing"
)

func TestMatchName(t *testing.T) {
	for _, c := range []struct {
		pat, name string
		want      bool
	}{
		{"*", "a", true}, {"*", ".a", false}, {".*", ".a", true}, {"?", "a", true}, {"?", "ab", false}, {"a*b*c", "axxbxxc", true},
		{"a*b*c", "axxbxx", false}, {"*.txt", "x.txt", true}, {"*.txt", ".txt", false}, {"??", "ü", true}, {"\xff*", "\xffa", true},
		{"[a]", "a", false}, {"[a]", "[a]", true}, {".*", ".ferry-x", false}, {"*a*a*a*b", strings.Repeat("a", 250), false}, {"a**", "a", true},
	} {
		if got := MatchName(c.pat, c.name); got != c.want {
			t.Errorf("%q against %q: %v", c.pat, c.name, got)
		}
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pat, name string
		want      bool
	}{
		{"**", "a", true}, {"**", "a/b/c", true}, {"a/**", "a/b", true}, {"a/**", "a", false}, {"**/x", "x", true}, {"**/x", "a/b/x", true},
		{"**/x", "a/.h/x", false}, {"a/**/b/**/c", "a/b/c", true}, {"a/**/**/c", "a/c", true}, {"a/*/c", "a/c", false}, {"a/?/c", "a/b/c", true},
	} {
		if got := (&Argument{pat: newPattern(strings.Split(c.pat, "/"))}).accepts(strings.Split(c.name, "/")); got != c.want {
			t.Errorf("%q against %q: %v", c.pat, c.name, got)
		}
	}
}

// Without brackets and escapes, path.Match has the same meaning by bytes.
func FuzzMatchName(f *testing.F) {
	for _, s := range [][2]string{{"*", "a"}, {"a*b", "ab"}, {"?*?", "xyz"}, {"*a*a*b", "aaaaaaab"}, {"\xff?", "\xff\xfe"}, {".*", ".x"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pat, name string) {
		if strings.ContainsAny(pat, "[]\\/\x00") || strings.Contains(name, "/") || !ascii(pat) || !ascii(name) {
			MatchName(pat, name)
			return
		}
		want, err := path.Match(pat, name)
		if err != nil {
			return
		}
		if hidden(name) && !hidden(pat) || disk.IsReserved(name) && hasWildcards(unescape(pat)) {
			want = false
		}
		if got := MatchName(pat, name); got != want {
			t.Errorf("%q against %q: %v", pat, name, got)
		}
	})
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 0x7e }) < 0
}
