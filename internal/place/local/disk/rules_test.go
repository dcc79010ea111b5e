package disk

import (
	"slices"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

var (
	windowsRules = Rules{Windows: true}
	unixRules    = Rules{}
)

// Roots of drives, of directories and of shares contain the paths beneath them, in any spelling, and no other paths.
func TestRulesFind(t *testing.T) {
	for _, c := range []struct {
		rules Rules
		roots string
		path  string
		want  string // root and path below it; empty: beneath none
	}{
		{windowsRules, `C:\`, `C:\`, "0 ."},
		{windowsRules, `C:\`, `C:/`, "0 ."},
		{windowsRules, `C:\`, `c:\a`, "0 a"},
		{windowsRules, `C:\`, `C:\a\b`, "0 a/b"},
		{windowsRules, `C:\`, `c:/a\..\b`, "0 b"},
		{windowsRules, `C:\`, `C:\..\a`, "0 a"},
		{windowsRules, `C:\`, `D:\a`, ""},
		{windowsRules, `C:\`, `\\?\C:\a`, "0 a"},
		{windowsRules, `C:\`, `\\server\share\a`, ""},
		{windowsRules, `C:\Data`, `C:\data`, "0 ."},
		{windowsRules, `C:\Data`, `c:\DATA\Ä`, "0 Ä"},
		{windowsRules, `C:\Data`, `c:\DATAbase`, ""},
		{windowsRules, `C:\Data`, `c:\Data\..\x`, ""},
		{windowsRules, `C:\Data`, `C:\`, ""},
		{windowsRules, `C:\|D:\`, `d:\x`, "1 x"},
		{windowsRules, `C:\|C:\in`, `C:\IN\x`, "1 x"},
		{windowsRules, `\\server\share`, `\\SERVER\share\a\b`, "0 a/b"},
		{windowsRules, `\\server\share`, `//server/share`, "0 ."},
		{windowsRules, `\\server\share`, `\\?\UNC\server\share\a`, "0 a"},
		{windowsRules, `\\server\share`, `\\server\other\a`, ""},
		{windowsRules, `\\server\share\in`, `\\server\share\out`, ""},
		{unixRules, "/", "/", "0 ."},
		{unixRules, "/", "/a/b", "0 a/b"},
		{unixRules, "/srv", "/srv/", "0 ."},
		{unixRules, "/srv", "/srvx", ""},
		{unixRules, "/srv", "/SRV", ""},
		{unixRules, "/|/srv", "/srv/a", "1 a"},
		{unixRules, "/", `/C:\a`, `0 C:\a`},
	} {
		var roots []string
		for r := range strings.SplitSeq(c.roots, "|") {
			roots = append(roots, c.rules.Clean(r))
		}
		got := ""
		if n, rel, ok := c.rules.find(c.rules.Clean(c.path), slices.All(roots)); ok {
			got = string(rune('0'+n)) + " " + rel
		}
		if got != c.want {
			t.Errorf("%s beneath %s: %q, want %q", c.path, c.roots, got, c.want)
		}
	}
}

// The system finds a clean path again.
func TestRulesHost(t *testing.T) {
	for _, c := range []struct {
		rules    Rules
		in, want string
	}{
		{windowsRules, `C:\`, `C:\`},
		{windowsRules, `c:/a\b`, `C:\a\b`},
		{windowsRules, `\\server\share`, `\\server\share\`},
		{windowsRules, `\\server\share\`, `\\server\share\`},
		{windowsRules, `//server/share/a b`, `\\server\share\a b`},
		{windowsRules, `\\?\UNC\server\share\a`, `\\server\share\a`},
		{windowsRules, `\\?\D:\a`, `D:\a`},
		{unixRules, "/", "/"},
		{unixRules, "/a/b", "/a/b"},
		{unixRules, `/a\b`, `/a\b`},
	} {
		if got := c.rules.host(c.rules.Clean(c.in)); got != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
}

// A path as users type it becomes a path with the same meaning in any directory.
func TestRulesAbsolute(t *testing.T) {
	for _, c := range []struct {
		rules        Rules
		wd, in, want string // want empty: refused
	}{
		{windowsRules, `C:\there`, `a`, "C:/there/a"},
		{windowsRules, `C:\there`, `.\a\`, "C:/there/./a/"},
		{windowsRules, `C:\there`, `..\a b`, "C:/there/../a b"},
		{windowsRules, `C:\`, `a`, "C:/a"},
		{windowsRules, `C:\there`, `D:\x\y`, "D:/x/y"},
		{windowsRules, `C:\there`, `d:/x/`, "d:/x/"},
		{windowsRules, `C:\there`, `D:`, "D:/"},
		{windowsRules, `C:\there`, `D:x`, ""},
		{windowsRules, `C:\there`, `\x`, "C:/x"},
		{windowsRules, `C:\there`, `/x/`, "C:/x/"},
		{windowsRules, `C:\there`, `\\server\share\x`, "//server/share/x"},
		{windowsRules, `C:\there`, `\\?\D:\x`, "D:/x"},
		{windowsRules, `\\server\share\w`, `\x`, "//server/share/x"},
		{windowsRules, `\\server\share\w`, `x`, "//server/share/w/x"},
		{windowsRules, `C:\there`, `*.txt`, "C:/there/*.txt"},
		{unixRules, "/there", "a", "/there/a"},
		{unixRules, "/", "a", "/a"},
		{unixRules, "/there", "./a/", "/there/./a/"},
		{unixRules, "/there", "/x", "/x"},
		{unixRules, "/there", `C:\x`, `/there/C:\x`},
		{unixRules, "/there", `a\b`, `/there/a\b`},
	} {
		got, err := c.rules.Absolute(transfer.Path(c.in), c.wd)
		if string(got) != c.want || (err != nil) != (c.want == "") || err != nil && transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%s in %s: %q, %v; want %q", c.in, c.wd, got, err, c.want)
		}
	}
}

// A path that is no file on Windows is refused without a call to the system, and is accepted elsewhere.
func TestRulesRefuse(t *testing.T) {
	for p, why := range map[string]string{
		`C:\a\b`: "", `a`: "", `.`: "", `..\a`: "", `C:\`: "", `\\server\share\a`: "", `\\?\C:\a`: "", `dir/*.txt`: "", `com`: "",
		`COM10`: "", `console`: "", `nul1`: "", `a.b.c`: "", `.hidden`: "", `a b`: "", `Ä`: "", `C:\a\\b`: "", `x/NULL.txt`: "",
		`C:a`: "relative to the directory", `C:..\a`: "relative to the directory",
		`\\.\COM1`: "device", `\\?\Volume{1}\a`: "device", `\\?\GLOBALROOT\x`: "device",
		`CON`: "device", `nul`: "device", `C:\x\NUL`: "device", `C:\x\nul.txt`: "device", `x\aux.tar.gz\y`: "device", `COM1`: "device",
		`lpt9.txt`: "device", `COM¹`: "device", `conin$`: "device", `NUL `: "ends with a dot or a blank", `nul .txt`: "device",
		`d\a:b`: "stream", `a:b`: "relative to the directory", `C:\f::$DATA`: "stream", `C:\d\f:s`: "stream",
		`a.`: "ends with a dot or a blank", `a \b`: "ends with a dot or a blank", `C:\a...\b`: "ends with a dot or a blank",
		`a|b`: "character", `a<b`: "character", "a\x1fb": "character", `"a"`: "character",
		"a\x00b": "NUL byte",
	} {
		got := windowsRules.refuses(p)
		if (got == "") != (why == "") || !strings.Contains(got, why) {
			t.Errorf("%q: %q, want %q", p, got, why)
		}
		if got := unixRules.refuses(p); (got != "") != strings.Contains(p, "\x00") {
			t.Errorf("%q is refused elsewhere: %s", p, got)
		}
	}
}

// A path that find locates beneath a root is beneath it by its clean text, in any spelling.
func FuzzRules(f *testing.F) {
	for _, s := range []string{`C:\a`, `c:/`, `\\?\UNC\s\h\x`, `//s/h`, `C:..`, `/`, `//`, `\\?\`, `C:`} {
		f.Add(s, `C:\`)
		f.Add(s, `\\s\h`)
	}
	f.Fuzz(func(t *testing.T, p, root string) {
		for _, r := range []Rules{windowsRules, unixRules} {
			r.refuses(p)
			_, _ = r.Absolute(transfer.Path(p), root)
			abs, dir := r.Clean(p), r.Clean(root)
			_, rel, ok := r.find(abs, slices.All([]string{dir}))
			if ok && rel != "." && !strings.HasSuffix(abs, rel) {
				t.Errorf("%q beneath %q: %q", p, root, rel)
			}
			if first, _, _ := strings.Cut(rel, "/"); ok && r.isAbs(p) && r.isAbs(root) && first == ".." {
				t.Errorf("%q leaves %q by %q", p, root, rel)
			}
		}
	})
}
