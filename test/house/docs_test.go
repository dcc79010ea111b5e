package house_test

import (
	"fmt"
	"go/ast"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

const flowPage = "docs/flow.md"

func TestDocumentsNameWhatExists(t *testing.T) { hold(t, symbols) }

func TestDocumentsNameFilesThatExist(t *testing.T) { hold(t, namedFiles) }

func TestLinksResolve(t *testing.T) { hold(t, links) }

func TestDependenciesAreExplained(t *testing.T) { hold(t, dependencies) }

func TestDocumentRulesCanFail(t *testing.T) {
	code := tree{
		"internal/wire/a.go": "package wire\nimport \"os\"\ntype Frame struct{ Size int }\nfunc (f *Frame) Encode() {}\n" +
			"type Link interface{ Send() }\ntype Ring[T any] struct{}\nfunc (r Ring[T]) Put() {}\nconst Magic = 1\nvar _ = os.Root{}\n",
		"internal/wire/a_test.go": "package wire\nfunc TestMade() {}\n",
		"internal/mft/xml/a.go":   "package xml\ntype Document int\n",
		"internal/agent/a.go":     "package agent\nimport mftxml \"ferry/internal/mft/xml\"\nvar _ mftxml.Document\n",
	}
	page := func(name, text string) tree {
		files := tree{flowPage: "`wire.Magic`\n"}
		for k, v := range code {
			files[k] = v
		}
		files[name] = text
		return files
	}
	try(t, symbols, []trial{
		{"right", page(flowPage, "1. `wire.Frame`, `wire.Frame.Encode`, `wire.Frame.Size`, `wire.Link.Send(x)`, `wire.Ring.Put`, `wire.Magic`, `os.Root`.\n"), ""},
		{"as others import it", page(flowPage, "`mftxml.Document`, `xml.Document`\n"), ""},
		{"not there, as others import it", page(flowPage, "`mftxml.Documents`\n"), "mftxml.Documents does not exist"},
		{"no symbol", page(flowPage, "See `wire.Frames`.\n"), "docs/flow.md:1: wire.Frames does not exist"},
		{"no method", page(flowPage, "\nSee `wire.Frame.Decode`.\n"), "docs/flow.md:2: wire.Frame.Decode does not exist"},
		{"in a test only", page(flowPage, "`wire.TestMade`\n"), "wire.TestMade does not exist"},
		{"no package", page(flowPage, "`wires.Frame`\n"), "wires is no package of ours, nor one that we import"},
		{"in a figure", page(flowPage, "```\nwire.Frames ──▶\n```\n"), "docs/flow.md:2: wire.Frames does not exist"},
		{"in prose", page(flowPage, "`wire.Frame` is not wire.Frames\n"), ""},
		{"a file", page(flowPage, "`wire.Frame`, `internal/wire.Go`\n"), ""},
		{"another page", page("docs/a.md", "`wire.Frames`\n"), "docs/a.md:1: wire.Frames does not exist"},
		{"another page, another project", page("docs/a.md", "`restic.Save`\n"), ""},
		{"history", page("CHANGELOG.md", "`wire.Frames`\n"), ""},
		{"no names", page(flowPage, "nothing\n"), "docs/flow.md names no package.Symbol"},
		{"no page", tree{"README.md": ""}, "docs/flow.md is missing"},
	})
	try(t, links, []trial{
		{"right", tree{"a.md": "[b](docs/b.md#top) [d](docs) [w](https://example.org/x) [m](mailto:a@example.org) [s](#here)\n[r]: docs/b.md\n", "docs/b.md": "[a](../a.md \"up\")\n"}, ""},
		{"broken", tree{"a.md": "\n[b](docs/c.md)\n"}, "a.md:2: docs/c.md leads nowhere"},
		{"broken reference", tree{"a.md": "[b]: docs/c.md\n"}, "a.md:1: docs/c.md leads nowhere"},
		{"picture", tree{"a.md": "![b](b.png)\n"}, "a.md:1: b.png leads nowhere"},
		{"outside", tree{"a.md": "[b](../b.md)\n", "b.md": ""}, "a.md:1: ../b.md leads nowhere"},
		{"in code", tree{"a.md": "`[b](docs/c.md)`\n```\n[b](docs/c.md)\n```\n"}, ""},
		{"with a blank", tree{"a.md": "[b](x%20y.md)\n", "x y.md": ""}, ""},
	})
	try(t, namedFiles, []trial{
		{"there", tree{"docs/a.md": "See place/land/a.go, and a.go.\n", "internal/place/land/a.go": ""}, ""},
		{"gone", tree{"docs/a.md": "\nSee land/b.go.\n", "internal/place/land/a.go": ""}, "docs/a.md:2: land/b.go does not exist"},
		{"another folder", tree{"docs/a.md": "See and/a.go.\n", "internal/place/land/a.go": ""}, "and/a.go does not exist"},
		{"a site", tree{"docs/a.md": "[x](https://pkg.go.dev/x)\n"}, ""},
		{"the history", tree{"docs/adr/a.md": "See land/b.go.\n"}, ""},
	})
	const mod = "module m\n\nrequire (\n\texample.org/a v1.0.0\n\texample.org/b v1.0.0 // indirect\n)\n"
	try(t, dependencies, []trial{
		{"right", tree{"go.mod": mod, "docs/dependencies.md": "| `example.org/a` | why |\n"}, ""},
		{"missing", tree{"go.mod": mod, "docs/dependencies.md": "example.org/a\n"}, "has no line for example.org/a"},
		{"indirect", tree{"go.mod": mod, "docs/dependencies.md": "| `example.org/a` | why |\n| `example.org/b` | why |\n"}, "example.org/b is no direct dependency"},
		{"of the benchmark", tree{"go.mod": mod, "bench/go.mod": "module m/bench\n\nrequire (\n\tferry v0.0.0\n\texample.org/c v1.0.0\n)\n",
			"docs/dependencies.md": "| `example.org/a` | why |\n"}, "has no line for example.org/c"},
		{"of both", tree{"go.mod": mod, "bench/go.mod": mod, "docs/dependencies.md": "| `example.org/a` | why |\n"}, ""},
		{"twice", tree{"go.mod": mod, "docs/dependencies.md": "| `example.org/a` | why |\n| `example.org/a` | why |\n"}, "has 2 lines for example.org/a"},
		{"no reason", tree{"go.mod": mod, "docs/dependencies.md": "| `example.org/a` |  |\n"}, "does not give the purpose of example.org/a"},
	})
}

// A textLine is a line of a page, split into prose and code.
type textLine struct {
	number      int
	prose, code string
	fenced      bool
}

var codeSpan = regexp.MustCompile("`[^`]*`")

func lines(text string) []textLine {
	var all []textLine
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		l := textLine{number: i + 1, fenced: fenced}
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
			l.fenced = true
		case fenced:
			l.code = line
		default:
			l.prose = codeSpan.ReplaceAllString(line, "``")
			l.code = strings.Join(codeSpan.FindAllString(line, -1), " ")
		}
		all = append(all, l)
	}
	return all
}

var symbol = regexp.MustCompile(`(?:^|[^\w./-])([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)

// symbols complains about names in the documents that the code does not have. The history (CHANGELOG, decisions) may
// name removed symbols. Figures are checked on the flow page only.
func symbols(files tree) []string {
	if _, ok := files[flowPage]; !ok {
		return []string{flowPage + " is missing: it tells the life of one file in the names of the code"}
	}
	known, others := declared(files)
	var bad []string
	named := 0
	for _, name := range files.paths() {
		if !strings.HasSuffix(name, ".md") || name == "CHANGELOG.md" || strings.HasPrefix(name, "docs/adr/") {
			continue
		}
		for _, l := range lines(files[name]) {
			if l.fenced && name != flowPage {
				continue
			}
			for _, m := range symbol.FindAllStringSubmatch(l.code, -1) {
				pkg, full := m[1], m[2]
				if m[3] != "" {
					full += "." + m[3]
				}
				switch {
				case known[pkg] != nil:
					if name == flowPage {
						named++
					}
					if !known[pkg][full] {
						bad = append(bad, fmt.Sprintf("%s:%d: %s.%s does not exist", name, l.number, pkg, full))
					}
				case name == flowPage && !others[pkg]:
					named++
					bad = append(bad, fmt.Sprintf("%s:%d: %s is no package of ours, nor one that we import", name, l.number, pkg))
				}
			}
		}
	}
	if named == 0 {
		bad = append(bad, flowPage+" names no package.Symbol")
	}
	return bad
}

var namedFile = regexp.MustCompile("(?:^|[\\s(`])((?:\\w+/)*\\w+\\.go)\\b")

// namedFiles complains about source files in the documents that do not exist. A document gives the end of a path. The
// decisions may name removed files.
func namedFiles(files tree) []string {
	var bad []string
	for _, name := range files.paths() {
		if !strings.HasSuffix(name, ".md") || name == "CHANGELOG.md" || strings.HasPrefix(name, "docs/adr/") {
			continue
		}
		for n, line := range strings.Split(files[name], "\n") {
			for _, m := range namedFile.FindAllStringSubmatch(line, -1) {
				if !slices.ContainsFunc(files.paths(), func(p string) bool { return p == m[1] || strings.HasSuffix(p, "/"+m[1]) }) {
					bad = append(bad, fmt.Sprintf("%s:%d: %s does not exist", name, n+1, m[1]))
				}
			}
		}
	}
	return bad
}

// declared returns the declarations of each package of the project (Name, Type.Method, Type.Field), under its name and
// under those by which others import it. It also returns the imported packages of others.
func declared(files tree) (known map[string]map[string]bool, others map[string]bool) {
	known, others = map[string]map[string]bool{}, map[string]bool{}
	type from struct{ dir, name string }
	all, imported := map[from]map[string]bool{}, map[string]string{}
	for _, f := range files.goFiles() {
		for _, spec := range f.ast.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if dir, ours := strings.CutPrefix(p, "ferry/"); ours && spec.Name != nil {
				imported[spec.Name.Name] = dir
			} else if err == nil && !ours {
				others[strings.TrimSuffix(path.Base(p), ".go")] = true
			}
		}
		if f.test {
			continue
		}
		key := from{f.dir, f.ast.Name.Name}
		names := all[key]
		if names == nil {
			names = map[string]bool{}
			all[key] = names
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil && len(d.Recv.List) == 1 {
					name = receiver(d.Recv.List[0].Type) + "." + name
				}
				names[name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					declare(names, spec)
				}
			}
		}
	}
	add := func(as string, names map[string]bool) {
		if known[as] == nil {
			known[as] = map[string]bool{}
		}
		maps.Copy(known[as], names)
	}
	for key, names := range all {
		add(key.name, names)
		for as, dir := range imported {
			if dir == key.dir {
				add(as, names)
			}
		}
	}
	return known, others
}

func declare(names map[string]bool, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names[n.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		var fields *ast.FieldList
		switch typ := s.Type.(type) {
		case *ast.StructType:
			fields = typ.Fields
		case *ast.InterfaceType:
			fields = typ.Methods
		default:
			return
		}
		for _, field := range fields.List {
			for _, n := range field.Names {
				names[s.Name.Name+"."+n.Name] = true
			}
		}
	}
}

// receiver is the name of a method's type, without * and type parameters.
func receiver(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

var (
	inlineLink    = regexp.MustCompile(`\]\(<?([^)>\s]+)>?(?:\s+"[^"]*")?\)`)
	referenceLink = regexp.MustCompile(`^\s*\[[^\]]+\]:\s*<?([^>\s]+)`)
)

// links complains about relative links of the documents that lead nowhere.
func links(files tree) []string {
	var bad []string
	for _, name := range files.paths() {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, l := range lines(files[name]) {
			found := inlineLink.FindAllStringSubmatch(l.prose, -1)
			found = append(found, referenceLink.FindAllStringSubmatch(l.prose, -1)...)
			for _, m := range found {
				if !files.leads(path.Dir(name), m[1]) {
					bad = append(bad, fmt.Sprintf("%s:%d: %s leads nowhere", name, l.number, m[1]))
				}
			}
		}
	}
	return bad
}

// leads says whether a link from a page in dir leads somewhere. Links to other
// hosts are not followed.
func (files tree) leads(dir, target string) bool {
	u, err := url.Parse(target)
	if err != nil || strings.HasPrefix(u.Path, "/") {
		return err == nil && u.Host != ""
	}
	if u.Scheme != "" || u.Path == "" {
		return true
	}
	to := path.Join(dir, u.Path)
	if _, ok := files[to]; ok {
		return true
	}
	return slices.ContainsFunc(files.paths(), func(p string) bool { return strings.HasPrefix(p, to+"/") })
}

var dependencyLine = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|(.*)$")

// dependencies complains about direct dependencies that the page does not explain, and about lines for modules that are
// no direct dependency.
func dependencies(files tree) []string {
	const page = "docs/dependencies.md"
	direct := map[string]bool{}
	for _, name := range []string{"go.mod", "bench/go.mod"} {
		mod, err := modfile.Parse(name, []byte(files[name]), nil)
		if err != nil {
			return []string{err.Error()}
		}
		for _, r := range mod.Require {
			if !r.Indirect && r.Mod.Path != "ferry" {
				direct[r.Mod.Path] = true
			}
		}
	}
	count := map[string]int{}
	var bad []string
	for _, m := range dependencyLine.FindAllStringSubmatch(files[page], -1) {
		count[m[1]]++
		if strings.Trim(m[2], " |") == "" {
			bad = append(bad, fmt.Sprintf("%s does not give the purpose of %s", page, m[1]))
		}
	}
	for _, module := range slices.Sorted(maps.Keys(direct)) {
		switch n := count[module]; {
		case n == 0:
			bad = append(bad, fmt.Sprintf("%s has no line for %s", page, module))
		case n > 1:
			bad = append(bad, fmt.Sprintf("%s has %d lines for %s", page, n, module))
		}
		delete(count, module)
	}
	var extra []string
	for p := range count {
		extra = append(extra, fmt.Sprintf("%s: %s is no direct dependency in go.mod", page, p))
	}
	slices.Sort(extra)
	return append(bad, extra...)
}
