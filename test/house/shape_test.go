package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostOf are the limits of every package of the product, by kind of figure.
var mostOf = map[string]int{
	"lines":   5000, // of a package, without tests and generated files
	"circle":  6,    // files of a package that all call into one another
	"methods": 45,   // of a type, with those of its embedded types and of its one-field wrappers
}

// A listed package is one package as the go command lists it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// TestShapes keeps packages, circles of files and types below their limits.
func TestShapes(t *testing.T) {
	all, err := productShapes(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range shapesAbove(all) {
		t.Error(complaint)
	}
}

// shapesAbove complains about figures above their limit. The keys are a package, a tab and a kind.
func shapesAbove(all map[string]int) (complaints []string) {
	for _, k := range slices.Sorted(maps.Keys(all)) {
		dir, kind, _ := strings.Cut(k, "\t")
		if n, most := all[k], mostOf[kind]; n > most {
			complaints = append(complaints, fmt.Sprintf("%s: %d %s, and the most is %d; split it", dir, n, kind, most))
		}
	}
	return complaints
}

func TestShapesTrials(t *testing.T) {
	for _, c := range []struct {
		name string
		all  map[string]int
		want string
	}{
		{"within the limit", map[string]int{"a\tcircle": 6}, ""},
		{"above the limit", map[string]int{"a\tcircle": 7}, "a: 7 circle"},
	} {
		got := shapesAbove(c.all)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: says %q, want one sentence with %q", c.name, got, c.want)
		}
	}
}

// productShapes measures the packages of the product.
func productShapes(root string) (map[string]int, error) {
	ours, check, err := packages(root)
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for _, p := range ours {
		if dir := strings.TrimPrefix(p.ImportPath, "ferry/"); underTest(dir) || dir == "internal/faulty" {
			continue
		}
		sources, err := p.read()
		if err != nil {
			return nil, err
		}
		c, err := check(p.ImportPath, sources)
		if err != nil {
			return nil, err
		}
		for kind, n := range c.shape() {
			all[strings.TrimPrefix(p.ImportPath, "ferry/")+"\t"+kind] = n
		}
	}
	return all, nil
}

// A checked package has its syntax and its types.
type checked struct {
	fset  *token.FileSet
	files []*ast.File
	pkg   *types.Package
	info  *types.Info
}

// A checker checks the types of a package with these files.
type checker func(importPath string, sources map[string]string) (*checked, error)

// packages lists the packages of the project, and returns a checker for them and for changed copies of them. It takes
// the types of imported packages from the files that the compiler has written.
func packages(root string) ([]listed, checker, error) {
	cmd := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles", "./cmd/...", "./internal/...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("list packages: %w: %s", err, stderr.String())
	}
	exports, ours := map[string]string{}, []listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, err
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, "ferry/") {
			ours = append(ours, p)
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("package %s has no export data", path)
		}
		return os.Open(exports[path])
	})
	return ours, func(importPath string, sources map[string]string) (*checked, error) {
		return check(fset, importPath, sources, imports)
	}, nil
}

// read returns the texts of the package's files by their names.
func (p listed) read() (map[string]string, error) {
	sources := map[string]string{}
	for _, name := range p.GoFiles {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		sources[name] = string(text)
	}
	return sources, nil
}

// check checks the types of one package. The sources are its files by name.
func check(fset *token.FileSet, importPath string, sources map[string]string, imports types.Importer) (*checked, error) {
	c := &checked{fset: fset, info: &types.Info{Uses: map[*ast.Ident]types.Object{}}}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		f, err := parser.ParseFile(fset, name, sources[name], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, f)
	}
	var err error
	c.pkg, err = (&types.Config{Importer: imports}).Check(importPath, fset, c.files, c.info)
	return c, err
}

// shape measures the package in each kind.
func (c *checked) shape() map[string]int {
	lines := 0
	for _, f := range c.files {
		if !ast.IsGenerated(f) {
			lines += c.fset.File(f.Pos()).LineCount()
		}
	}
	return map[string]int{"lines": lines, "circle": largestCircle(calls(c.fset, c.pkg, c.info)), "methods": mostMethodsOf(c.pkg)}
}

// calls returns, for each file, the files with functions and methods that it uses.
func calls(fset *token.FileSet, pkg *types.Package, info *types.Info) map[string]map[string]bool {
	edges := map[string]map[string]bool{}
	for id, o := range info.Uses {
		f, ok := o.(*types.Func)
		if !ok || f.Pkg() != pkg {
			continue
		}
		from, to := fset.Position(id.Pos()).Filename, fset.Position(f.Origin().Pos()).Filename
		if edges[from] == nil {
			edges[from] = map[string]bool{}
		}
		if from != to {
			edges[from][to] = true
		}
	}
	return edges
}

// largestCircle returns the size of the largest set of nodes that all reach one another (Tarjan 1972: strongly connected
// components).
func largestCircle(edges map[string]map[string]bool) (largest int) {
	index, low, open := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(string)
	visit = func(n string) {
		index[n] = len(index) + 1
		low[n], open[n] = index[n], true
		stack = append(stack, n)
		for m := range edges[n] {
			if index[m] == 0 {
				visit(m)
				low[n] = min(low[n], low[m])
			} else if open[m] {
				low[n] = min(low[n], index[m])
			}
		}
		if low[n] != index[n] {
			return
		}
		at := slices.Index(stack, n)
		for _, m := range stack[at:] {
			open[m] = false
		}
		largest = max(largest, len(stack)-at)
		stack = stack[:at]
	}
	for n := range edges {
		if index[n] == 0 {
			visit(n)
		}
	}
	return largest
}

// mostMethodsOf returns the methods of the largest type: its own, those of the types of the package that it embeds, and
// the methods of structs with that type as their only field.
func mostMethodsOf(pkg *types.Package) (most int) {
	var named []*types.Named
	for _, name := range pkg.Scope().Names() {
		if tn, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && !tn.IsAlias() {
			if n, ok := tn.Type().(*types.Named); ok {
				named = append(named, n)
			}
		}
	}
	wrappers := map[*types.Named][]*types.Named{}
	for _, n := range named {
		if s, ok := n.Underlying().(*types.Struct); ok && s.NumFields() == 1 {
			if of := localType(pkg, s.Field(0).Type()); of != nil {
				wrappers[of] = append(wrappers[of], n)
			}
		}
	}
	for _, n := range named {
		if types.IsInterface(n) {
			continue
		}
		parts := map[*types.Named]bool{}
		var add func(*types.Named)
		add = func(n *types.Named) {
			if parts[n] {
				return
			}
			parts[n] = true
			for _, w := range wrappers[n] {
				add(w)
			}
			s, ok := n.Underlying().(*types.Struct)
			for i := 0; ok && i < s.NumFields(); i++ {
				if of := localType(pkg, s.Field(i).Type()); s.Field(i).Embedded() && of != nil && !types.IsInterface(of) {
					add(of)
				}
			}
		}
		add(n)
		sum := 0
		for p := range parts {
			sum += p.NumMethods()
		}
		most = max(most, sum)
	}
	return most
}

// localType returns the named type of the package behind a type or a pointer to it, or nil.
func localType(pkg *types.Package, t types.Type) *types.Named {
	if p, ok := t.Underlying().(*types.Pointer); ok && t == t.Underlying() {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok && n.Obj().Pkg() == pkg {
		return n.Origin()
	}
	return nil
}

func TestShape(t *testing.T) {
	circle := map[string]string{
		"a.go": "package p\n\nfunc a() { b() }\n",
		"b.go": "package p\n\ntype t struct{}\n\nfunc b() { t{}.c() }\n",
		"c.go": "package p\n\nfunc (t) c() { a() }\n",
		"d.go": "package p\n\nfunc d() { a() }\n",
	}
	methods := map[string]string{"a.go": `package p

type inner struct{}

func (inner) a() {}

type outer struct {
	*inner
	n int
}

func (outer) b() {}

type wrapper struct{ o *outer }

func (wrapper) c() {}
func (wrapper) d() {}
`}
	for _, c := range []struct {
		name    string
		sources map[string]string
		kind    string
		want    int
	}{
		{"three files in a circle", circle, "circle", 3},
		{"lines", circle, "lines", 3 + 5 + 3 + 3},
		{"embedded and wrapped", methods, "methods", 4},
		{"generated", map[string]string{"a.go": "// Code generated by x. DO NOT EDIT.\n\npackage p\n"}, "lines", 0},
	} {
		checked, err := check(token.NewFileSet(), "p", c.sources, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := checked.shape()[c.kind]; n != c.want {
			t.Errorf("%s: %s is %d, want %d", c.name, c.kind, n, c.want)
		}
	}
}
