package house_test

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// styles are the rules about source files, each with its reason.
var styles = []struct {
	name    string
	because string
	rule    rule
	trials  []trial
}{
	{"package comment", "a reader opens a package to learn its purpose", packageComments, []trial{
		{"right", tree{"a/a.go": "// Package a counts.\npackage a\n", "a/b.go": "package a\n"}, ""},
		{"none", tree{"a/a.go": "package a\n"}, "a has no package comment"},
		{"elsewhere", tree{"a/a.go": "package a\n", "a/a_test.go": "// Package a counts.\npackage a\n"}, "a has no package comment"},
		{"wrong name", tree{"a/a.go": "// Package b counts.\npackage a\n"}, "begins with \"Package a \""},
		{"a command", tree{"cmd/x/main.go": "// Command x counts.\npackage main\n"}, ""},
		{"tests only", tree{"test/a/a_test.go": "// Package a_test counts.\npackage a_test\n"}, ""},
		{"tests only, none", tree{"test/a/a_test.go": "package a_test\n"}, "test/a has no package comment"},
	}},
	{"package name", "a package named after nothing ends up holding everything", packageNames, []trial{
		{"right", tree{"internal/wire/a.go": "package wire\n"}, ""},
		{"clause", tree{"internal/wire/a.go": "package util\n"}, "\"util\" says nothing"},
		{"folder", tree{"internal/helpers/a.go": "package wire\n"}, "\"helpers\" says nothing"},
	}},
	{"sleep", "a test that sleeps guesses: too long on a fast host, too short on a slow one; wait on a channel or in a synctest bubble", sleeps, []trial{
		{"in a test", tree{"a/a_test.go": sleeper("")}, "a/a_test.go:6: time.Sleep"},
		{"excused outside test/faults", tree{"a/a_test.go": sleeper("//house:sleep because the clock is real")}, "time.Sleep"},
		{"in test/faults without excuse", tree{"test/faults/a_test.go": sleeper("")}, "time.Sleep"},
		{"in test/faults", tree{"test/faults/a_test.go": sleeper("//house:sleep because the clock is real")}, ""},
		{"in test/faults, no reason", tree{"test/faults/a_test.go": sleeper("//house:sleep because")}, "time.Sleep"},
		{"in a bubble", tree{"a/a_test.go": "package a\nfunc TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }\n"}, ""},
		{"for a bubble", tree{"a/a_test.go": "package a\nimport \"testing/synctest\"\nfunc f() {\n\t//house:sleep because it runs in a bubble\n\ttime.Sleep(1)\n}\n"}, ""},
		{"in the product", tree{"a/a.go": "package a\nfunc f() { time.Sleep(1) }\n"}, ""},
	}},
	{"skip", "a test that is skipped passes in silence; a missing precondition is a failure", skips, []trial{
		{"t", tree{"a/a_test.go": "package a\nfunc TestA(t *testing.T) { t.Skip(\"no\") }\n"}, "a/a_test.go:2: t.Skip"},
		{"by another name", tree{"a/a_test.go": "package a\nfunc help(x testing.TB) { x.SkipNow() }\n"}, "x.SkipNow"},
		{"a scanner's", tree{"a/a_test.go": "package a\nfunc TestA(t *testing.T) { scanner.Skip(1) }\n"}, ""},
		{"a script", tree{"test/script/testdata/a.txtar": "exec ferry\n[!linux] skip 'no'\n"}, "a.txtar:2: a script that skips"},
		{"a script that does not", tree{"test/script/testdata/a.txtar": "# skip nothing\nexec ferry --skip\n"}, ""},
	}},
	{"init", "code that runs before main cannot be configured, ordered or tested", inits, []trial{
		{"plain", tree{"a/a.go": "package a\nfunc init() {}\n"}, "a/a.go:2: func init"},
		{"excused", tree{"a/a.go": "package a\n//house:init because the runtime must be told first\nfunc init() {}\n"}, ""},
		{"method", tree{"a/a.go": "package a\nfunc (t T) init() {}\n"}, ""},
	}},
	{"unfinished", "work that is left belongs in the issue list, where a maintainer will see it", unfinished, []trial{
		{"go", tree{"a/a.go": "package a\n// TO" + "DO: more\n"}, "a/a.go:2: "},
		{"context", tree{"a/a.go": "package a\nvar c = context.TO" + "DO()\n"}, "a/a.go:2: "},
		{"markdown", tree{"docs/a.md": "FIX" + "ME\n"}, "docs/a.md:1: "},
		{"longer word", tree{"scripts/a.sh": "mktemp -d ferry." + strings.Repeat("X", 6) + "\n"}, ""},
		{"checksums", tree{"go.sum": "XX" + "X\n", "bench/go.sum": "XX" + "X\n"}, ""},
	}},
	{"nolint", "a silenced check without a reason cannot be judged later", nolints, []trial{
		{"bare", tree{"a/a.go": "package a\nvar x = 1 //nolint\n"}, "a/a.go:2: "},
		{"no reason", tree{"a/a.go": "package a\nvar x = 1 //nolint:errcheck\n"}, "a/a.go:2: "},
		{"reason", tree{"a/a.go": "package a\nvar x = 1 //nolint:errcheck // closing a file that was only read\n"}, ""},
		{"directive without reason", tree{"a/a.go": "package a\n//lint:ignore SA1019\nvar x = 1\n"}, "a/a.go:2: "},
		{"directive", tree{"a/a.go": "package a\n//lint:ignore SA1019 the old name is on the wire\nvar x = 1\n"}, ""},
	}},
	{"long file", "a long file is usually the one that everything passes through", longFiles, []trial{
		{"long", tree{"a/a.go": "package a\n" + strings.Repeat("\n", 700)}, "a/a.go has 701 lines"},
		{"just right", tree{"a/a.go": "package a\n" + strings.Repeat("\n", 699)}, ""},
		{"excused", tree{"a/a.go": "//house:long because it is one table\npackage a\n" + strings.Repeat("\n", 700)}, ""},
	}},
	{"sizes", "a type with many fields or methods is several things that know each other's business", sizes, []trial{
		{"fields", tree{"internal/a/a.go": "package a\ntype t struct {" + strings.Repeat("x, ", 25) + "y int }\n"}, "there are 26 fields of internal/a.t"},
		{"as many as may be", tree{"internal/a/a.go": "package a\ntype t struct {" + strings.Repeat("x, ", 24) + "y int }\n"}, ""},
		{"methods", tree{"internal/a/a.go": manyMethods(41)}, "there are 41 methods of internal/a.t"},
		{"the same on another platform", tree{"internal/a/a.go": manyMethods(40), "internal/a/b.go": manyMethods(40)}, ""},
		{"interface", tree{"internal/a/a.go": "package a\ntype t interface {" + strings.Repeat("M();", 11) + "}\n"}, "there are 11 methods of internal/a.t"},
		{"tests", tree{"internal/a/a_test.go": "package a\ntype t interface {" + strings.Repeat("M();", 11) + "}\n"}, ""},
	}},
	{"state", "a state that is written past its table can be a dead end", states, []trial{
		{"written", tree{"internal/a/a.go": "package a\nfunc f() { rec.State = x }\n"}, "internal/a/a.go:2 writes the state of a record"},
		{"among others", tree{"internal/a/a.go": "package a\nfunc f() { i.rec.Live, i.rec.State = x, y }\n"}, "internal/a/a.go:2 "},
		{"of its progress", tree{"internal/a/a.go": "package a\nfunc f() { rec.Progress.State = x }\n"}, "internal/a/a.go:2 "},
		{"of something else", tree{"internal/a/a.go": "package a\nfunc f() { a.State = rec.State; rec.Crashes = 1 }\n"}, ""},
		{"in the ledger", tree{"internal/ledger/a.go": "package ledger\nfunc f() { rec.State = x }\n"}, ""},
	}},
	{"excuse", "an excuse that no rule reads excuses nothing", badExcuses, []trial{
		{"right", tree{"a/a.go": "package a\n//house:init because the runtime must be told first\n"}, ""},
		{"unknown", tree{"a/a.go": "package a\n//house:tired because it was late that day\n"}, "unknown excuse \"tired\""},
		{"no reason", tree{"a/a.go": "package a\n//house:init\n"}, "//house:NAME because"},
	}},
	{"places", "a path of one machine or the host of one registry means nothing elsewhere", places, []trial{
		{"home", tree{"docs/a.md": "see /ro" + "ot/ferry\n"}, "docs/a.md:1: "},
		{"work", tree{"Makefile": "x:\n\tcd /wo" + "rk/main\n"}, "Makefile:2: "},
		{"inside another path", tree{"docs/a.md": "internal/wo" + "rk/x and merkle/ro" + "ot/x\n"}, ""},
		{"registry", tree{"a/a.go": "package a\n// https://pro" + "xy.example.org/x\n"}, "a/a.go:2: "},
		{"module proxy", tree{".ci/run": "GOPROXY=pro" + "xy.golang.org\n"}, ".ci/run:1: "},
		{"an ordinary host", tree{"docs/a.md": "https://www.apache.org/licenses/\n"}, ""},
		{"checksums", tree{"go.sum": "https://pro" + "xy.example.org\n"}, ""},
	}},
	{"forms", "other interfaces cannot import the command line, and show the same JSON forms: those of package view", forms, []trial{
		{"in the command line", tree{"internal/cli/a/a.go": "package a\ntype t struct { A int `json:\"a\"` }\n"}, "internal/cli/a/a.go:2 "},
		{"in a test", tree{"internal/cli/a/a_test.go": "package a\ntype t struct { A int `json:\"a\"` }\n"}, ""},
		{"elsewhere", tree{"internal/client/view/a.go": "package view\ntype t struct { A int `json:\"a\"` }\n"}, ""},
	}},
	{"seeds", "a fuzz target without a seed starts from nothing, and in go test runs nothing at all", seeds, []trial{
		{"added", tree{"a/a_test.go": "package a\nfunc FuzzA(f *testing.F) { f.Add(1); f.Fuzz(nil) }\n"}, ""},
		{"kept", tree{"a/a_test.go": "package a\nfunc FuzzA(f *testing.F) { f.Fuzz(nil) }\n", "a/testdata/fuzz/FuzzA/1": "x"}, ""},
		{"none", tree{"a/a_test.go": "package a\nfunc FuzzA(f *testing.F) { f.Fuzz(nil) }\n", "a/testdata/fuzz/FuzzB/1": "x"}, "a/a_test.go:2: FuzzA has no seed"},
	}},
}

func TestStyle(t *testing.T) {
	for _, s := range styles {
		t.Run(s.name, func(t *testing.T) {
			hold(t, s.rule)
			if t.Failed() {
				t.Log("because " + s.because)
			}
		})
	}
}

func TestStyleRulesCanFail(t *testing.T) {
	for _, s := range styles {
		t.Run(s.name, func(t *testing.T) { try(t, s.rule, s.trials) })
	}
}

func manyMethods(n int) string {
	text := "package a\ntype t int\n"
	for k := range n {
		text += fmt.Sprintf("func (*t) m%d() {}\n", k)
	}
	return text
}

func sleeper(comment string) string {
	return "package a\nimport \"time\"\n\nfunc TestA(t *testing.T) {\n\t" + comment + "\n\ttime.Sleep(1)\n}\n"
}

func packageComments(files tree) []string {
	type state struct {
		source, comment bool
	}
	packages := map[string]state{}
	var bad, dirs []string
	for _, f := range files.goFiles() {
		s, ok := packages[f.dir]
		if !ok {
			dirs = append(dirs, f.dir)
		}
		if !f.test && !s.source {
			s = state{source: true}
		}
		if f.test && s.source {
			continue
		}
		if doc := f.ast.Doc.Text(); doc != "" {
			s.comment = true
			if name := f.ast.Name.Name; name != "main" && !strings.HasPrefix(doc, "Package "+name+" ") {
				bad = append(bad, fmt.Sprintf("%s: the package comment begins with \"Package %s \"", f.path, name))
			}
		}
		packages[f.dir] = s
	}
	for _, dir := range dirs {
		if !packages[dir].comment {
			bad = append(bad, dir+" has no package comment")
		}
	}
	return bad
}

func packageNames(files tree) []string {
	empty := []string{"util", "utils", "common", "helper", "helpers", "types", "manager", "misc"}
	var bad []string
	for _, f := range files.goFiles() {
		for _, name := range []string{path.Base(f.dir), strings.TrimSuffix(f.ast.Name.Name, "_test")} {
			if slices.Contains(empty, name) {
				bad = append(bad, fmt.Sprintf("%s: the package name %q says nothing", f.path, name))
				break
			}
		}
	}
	return bad
}

// called is the receiver and the name of a call X.Name(…) on a plain name.
func called(n ast.Node) (receiver, name string) {
	if call, ok := n.(*ast.CallExpr); ok {
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok {
				return x.Name, sel.Sel.Name
			}
		}
	}
	return "", ""
}

func sleeping(n ast.Node) bool {
	x, name := called(n)
	return x == "time" && name == "Sleep"
}

func sleeps(files tree) []string {
	var bad []string
	for _, f := range files.goFiles() {
		if !f.test {
			continue
		}
		realTime := strings.HasPrefix(f.dir+"/", "test/faults/")
		bubbles := slices.ContainsFunc(f.ast.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"testing/synctest"` })
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if x, name := called(n); x == "synctest" && name == "Test" {
				return false // in the bubble, sleeping is how time passes
			}
			if n != nil && sleeping(n) && !((realTime || bubbles) && f.excused("sleep", n)) {
				bad = append(bad, f.at(n)+": time.Sleep in a test; wait for what is to happen instead (test/faults may sleep with //house:sleep because …)")
			}
			return true
		})
	}
	return bad
}

var scriptSkip = regexp.MustCompile(`^(\[[^\]]*\]\s*)*skip(\s|$)`)

func skips(files tree) []string {
	var bad []string
	for _, f := range files.goFiles() {
		if !f.test {
			continue
		}
		testers := map[string]bool{}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok && isTester(field.Type) {
				for _, name := range field.Names {
					testers[name.Name] = true
				}
			}
			return true
		})
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if x, name := called(n); testers[x] && (name == "Skip" || name == "Skipf" || name == "SkipNow") {
				bad = append(bad, fmt.Sprintf("%s: %s.%s; fail and name the missing precondition", f.at(n), x, name))
			}
			return true
		})
	}
	for _, name := range files.paths() {
		if strings.HasPrefix(name, "test/") && (strings.HasSuffix(name, ".txt") || strings.HasSuffix(name, ".txtar")) {
			for i, line := range strings.Split(files[name], "\n") {
				if scriptSkip.MatchString(line) {
					bad = append(bad, fmt.Sprintf("%s:%d: a script that skips; fail and name the missing precondition", name, i+1))
				}
			}
		}
	}
	return bad
}

// isTester says whether a type is *testing.T, B or F, or testing.TB.
func isTester(e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == "testing" && slices.Contains([]string{"T", "B", "F", "TB"}, sel.Sel.Name)
}

func inits(files tree) []string {
	var bad []string
	for _, f := range files.goFiles() {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !f.excused("init", fn.Name) {
				bad = append(bad, f.at(fn.Name)+": func init; give the value to whoever needs it (or //house:init because …)")
			}
		}
	}
	return bad
}

var unfinishedWord = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

func unfinished(files tree) []string {
	return grep(files, unfinishedWord, "is left unfinished")
}

// grep complains about each line of text that matches. Checksums are not text.
func grep(files tree, pattern *regexp.Regexp, sentence string) []string {
	var bad []string
	for _, name := range files.paths() {
		if path.Base(name) == "go.sum" {
			continue
		}
		for i, line := range strings.Split(files[name], "\n") {
			if found := pattern.FindString(line); found != "" {
				bad = append(bad, fmt.Sprintf("%s:%d: %q %s", name, i+1, strings.TrimSpace(found), sentence))
			}
		}
	}
	return bad
}

var (
	nolint       = regexp.MustCompile(`^//\s*nolint`)
	nolintReason = regexp.MustCompile(`^//nolint:[\w,-]+ // \S.{4,}`)
	ignore       = regexp.MustCompile(`^//lint:(file-)?ignore`)
	ignoreReason = regexp.MustCompile(`^//lint:(file-)?ignore \S+ \S.{4,}`)
)

func nolints(files tree) []string {
	var bad []string
	for _, f := range files.goFiles() {
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if nolint.MatchString(c.Text) && !nolintReason.MatchString(c.Text) ||
					ignore.MatchString(c.Text) && !ignoreReason.MatchString(c.Text) {
					bad = append(bad, f.at(c)+": a check is silenced without its name and a reason")
				}
			}
		}
	}
	return bad
}

func longFiles(files tree) []string {
	const limit = 700
	var bad []string
	for _, f := range files.goFiles() {
		if n := strings.Count(files[f.path], "\n"); n > limit && !f.excusedAnywhere("long") {
			bad = append(bad, fmt.Sprintf("%s has %d lines, over %d; split it (or //house:long because …)", f.path, n, limit))
		}
	}
	return bad
}

func badExcuses(files tree) []string {
	var bad []string
	for _, f := range files.goFiles() {
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if !strings.HasPrefix(c.Text, "//house:") {
					continue
				}
				switch m := excuse.FindStringSubmatch(c.Text); {
				case m == nil:
					bad = append(bad, f.at(c)+": an excuse is written //house:NAME because …")
				case excuses[m[1]] == "":
					bad = append(bad, fmt.Sprintf("%s: unknown excuse %q", f.at(c), m[1]))
				}
			}
		}
	}
	return bad
}

// place is built from pieces so that it does not find itself.
var place = regexp.MustCompile(`(?:^|[^\w.~-])/(?:ro` + `ot|wo` + `rk)/` +
	`|https?://(?:pro` + `xy|regis` + `try|index|repo[0-9]*|mir` + `ror)\.` +
	`|\b(?:pro` + `xy|sum|index)\.golang\.org`)

func places(files tree) []string {
	return grep(files, place, "is of one machine or one registry")
}

// forms complains about JSON forms in the command line.
func forms(files tree) []string {
	var bad []string
	for _, f := range files.goFiles() {
		if f.test || folderOf(f.dir) != "internal/cli" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok && field.Tag != nil && strings.Contains(field.Tag.Value, "json:") {
				bad = append(bad, f.at(field)+" is a field of a JSON form in the command line")
			}
			return true
		})
	}
	return bad
}

func seeds(files tree) []string {
	var bad []string
	for _, f := range files.goFiles() {
		if !f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Fuzz") || len(fn.Type.Params.List) != 1 || !isTester(fn.Type.Params.List[0].Type) {
				continue
			}
			found := false
			ast.Inspect(fn, func(n ast.Node) bool {
				if _, name := called(n); name == "Add" {
					found = true
				}
				return true
			})
			corpus := path.Join(f.dir, "testdata", "fuzz", fn.Name.Name) + "/"
			found = found || slices.ContainsFunc(files.paths(), func(p string) bool { return strings.HasPrefix(p, corpus) })
			if !found {
				bad = append(bad, fmt.Sprintf("%s: %s has no seed; call f.Add, or keep one in %s", f.at(fn), fn.Name.Name, corpus))
			}
		}
	}
	return bad
}
