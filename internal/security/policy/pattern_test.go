package policy

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

func TestPatterns(t *testing.T) {
	for _, x := range []struct {
		pattern, path string
		want          bool
	}{
		{"/srv/out/**", "/srv/out/a", true},
		{"/srv/out/**", "/srv/out/a/b/c", true},
		{"/srv/out/**", "/srv/out", true},
		{"/srv/out/**", "/srv/outside/a", false},
		{"/srv/out/", "/srv/out/a/b", true},
		{"/srv/out", "/srv/out", true},
		{"/srv/out", "/srv/out/a", false},
		{"/srv/*/out", "/srv/a/out", true},
		{"/srv/*/out", "/srv/a/b/out", false},
		{"/srv/*/out", "/srv//out", true}, // no valid path
		{"/srv/**/out", "/srv/out", true},
		{"/srv/**/out", "/srv/a/b/out", true},
		{"/srv/**/out", "/srv/a/b/outs", false},
		{"/**", "/", true},
		{"/**", "/a", true},
		{"**", "/a/b", true},
		{"**/x", "/a/x", true},
		{"**/x", "C:/a/x", true},
		{"C:/in/**", "C:/in/a", true},
		{"C:/in/**", "c:/IN/a", false},
		{"/a/?.csv", "/a/1.csv", true},
		{"/a/?.csv", "/a/12.csv", false},
		{"/a/?.csv", "/a/é.csv", true},
		{"/a/?.csv", "/a/\xff.csv", true},
		{"/a/*.csv", "/a/.csv", true},
		{"/a/*b*c", "/a/xbxbxc", true},
		{"/a/*b*c", "/a/xbxbx", false},
		{"/a/[x]", "/a/x", false},
		{"/a/[x]", "/a/[x]", true},
		{`/a/\*`, `/a/\b`, true},
		{"/a/**/b/**/c", "/a/b/x/b/c", true},
		{"/a/**/b/**/c", "/a/x/c", false},
	} {
		p, err := ParsePattern(x.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(x.path, false); got != x.want {
			t.Errorf("%s matches %s: %v", x.pattern, x.path, got)
		}
	}
	p, err := ParsePattern("c:/IN/Äb*")
	if err != nil || !p.Match("C:/in/äBc", true) || p.Match("C:/in/aBc", true) {
		t.Errorf("with fold: %v", err)
	}
}

func TestPatternsReach(t *testing.T) {
	for _, x := range []struct {
		pattern, path string
		want          bool
	}{
		{"/srv/in/**", "/srv/in", true},
		{"/srv/in/**", "/srv/in/a/b", true},
		{"/srv/in/**", "/srv", true},
		{"/srv/in/**", "/srv/other", false},
		{"/srv/in/**", "/srv/inner", false},
		{"/srv/in/*.csv", "/srv/in", true},
		{"/srv/in/*.csv", "/srv/in/a", false},
		{"/srv/in/*.csv", "/srv/in/a.csv", true},
		{"/srv/in/*.csv", "/srv/in/a.csv/b", false},
		{"/srv/in/sub/deep/**", "/srv/in", true},
		{"/srv/?/out", "/srv/1", true},
		{"/srv/?/out", "/srv/12", false},
		{"**", "/a/b", true},
		{"/**", "", true},
		{"/srv/in", "", true},
		{"**/*.csv", "/a/b", true},
		{"**/in/out/**", "/a/b", false},
		{"**/in/out/**", "/a/in", true},
		{"**/in/out/**", "/a/in/out/b", true},
		{"C:/in/**", "c:/IN", false},
	} {
		p, err := ParsePattern(x.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Reaches(x.path, false); got != x.want {
			t.Errorf("%s reaches %s: %t", x.pattern, x.path, got)
		}
		if p.Match(x.path, false) && !p.Reaches(x.path, false) {
			t.Errorf("%s matches %s and does not reach it", x.pattern, x.path)
		}
	}
	if p, err := ParsePattern("C:/in/**"); err != nil || !p.Reaches("c:/IN", true) {
		t.Errorf("with fold: %v", err)
	}
}

func TestPatternsThatAreNone(t *testing.T) {
	for _, text := range []string{"", "a", "a/b", "*/a", "/a//b", "//a", "/a/../b", "/a/.", "/a/x**", "/**x", "/a/***", "1:/a", strings.Repeat("/a", 300), "/" + strings.Repeat("a", 5000)} {
		if p, err := ParsePattern(text); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%.40q is %+v, %v", text, p, err)
		}
	}
}

// For any pattern, matching takes time that grows with the path only.
func TestPatternsTakeNoTime(t *testing.T) {
	p, err := ParsePattern("/" + strings.Repeat("**/a/", 80) + strings.Repeat("*a", 500) + "b")
	if err != nil {
		t.Fatal(err)
	}
	path := strings.Repeat("/a", 1000) + "/" + strings.Repeat("a", 2000)
	done := make(chan bool)
	go func() { done <- p.Match(path, true) }()
	select {
	case got := <-done:
		if got {
			t.Error("it matches")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
}

// oracle returns a pattern as a regular expression.
func oracle(pattern string) *regexp.Regexp {
	if body, ok := strings.CutSuffix(pattern, "/"); ok {
		pattern = body + "/**"
	}
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for n, l := range levels(pattern) {
		switch {
		case l == "**" && n == 0:
			b.WriteString(`[^/]*(/[^/]*)*`)
		case l == "**":
			b.WriteString(`(/[^/]*)*`)
		default:
			if n > 0 {
				b.WriteString("/")
			}
			for _, c := range l {
				switch c {
				case '*':
					b.WriteString(`[^/]*`)
				case '?':
					b.WriteString(`[^/]`)
				default:
					b.WriteString(regexp.QuoteMeta(string(c)))
				}
			}
		}
	}
	b.WriteString(`$`)
	return regexp.MustCompile(b.String())
}

func FuzzPattern(f *testing.F) {
	for _, s := range [][2]string{{"/a/**", "/a/b"}, {"/a/*b?/", "/a/xbc/d"}, {"**/a", "C:/x/a"}, {"/**/a/**/b", "/a/b"}, {"C:/é*", "C:/éa"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := ParsePattern(pattern)
		if err != nil {
			return
		}
		got := p.Match(path, false)
		if reaches := p.Reaches(path, false); got && !reaches {
			t.Errorf("%q matches %q and does not reach it", pattern, path)
		}
		if len(pattern) > 200 || len(path) > 1000 || strings.ToValidUTF8(pattern+path, "") != pattern+path || strings.HasPrefix(pattern, "**/") {
			return // a leading ** may stand for no level, which the expression cannot express
		}
		if want := oracle(pattern).MatchString(path); got != want {
			t.Errorf("%q matches %q: %v; want %v", pattern, path, got, want)
		}
	})
}
