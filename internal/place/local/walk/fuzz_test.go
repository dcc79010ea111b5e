package walk

import (
	"slices"
	"strings"
	"testing"
)

// FuzzPattern checks that the automaton finds the same names as a plain search, and never stops before a name that
// could still match.
func FuzzPattern(f *testing.F) {
	for _, s := range [][2]string{{"a/*/c", "a/b/c"}, {"**", "a/b"}, {"a/**", "a"}, {"**/x", "x"}, {"**/**/x?", "a/.b/xy"}, {"*", ".hidden"}, {".*", ".hidden"},
		{"**/a*b*c/**", "q/aXbYc/z"}, {"a//b", "a/b"}, {"***", "abc"}, {"", ""}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pat, path string) {
		if len(pat) > 60 || len(path) > 60 {
			return // the plain search takes its time
		}
		parts, names := split(pat), split(path)
		p := newPattern(parts)
		set, could := p.start(), true
		for n, name := range names {
			could = could && p.more(set)
			set = p.step(set, name)
			if only, ok := p.only(set); ok && hasWildcards(only) {
				t.Fatalf("%q: the only name after %q is the pattern %q", pat, names[:n+1], only)
			}
		}
		got := len(names) > 0 && p.accepts(set)
		if want := len(names) > 0 && plainly(p, names); got != want {
			t.Fatalf("%q and %q: %v, by a plain search %v", parts, names, got, want)
		}
		if got && !could {
			t.Fatalf("%q matches %q, and the search would have stopped before", parts, names)
		}
	})
}

func split(s string) []string {
	return slices.DeleteFunc(strings.Split(s, "/"), func(part string) bool { return part == "" || strings.ContainsRune(part, 0) })
}

// plainly reports whether components match names, by the rules in the comment of pattern.
func plainly(p []string, names []string) bool {
	switch {
	case len(p) == 0:
		return len(names) == 0
	case p[0] == anyDirs:
		return plainly(p[1:], names) || len(names) > 0 && !hidden(names[0]) && plainly(p, names[1:])
	}
	return len(names) > 0 && matchName(p[0], names[0]) && plainly(p[1:], names[1:])
}
