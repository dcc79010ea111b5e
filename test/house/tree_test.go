// Package house_test holds the project to its own rules: the allowed imports of packages, the form of source files, and
// documents that agree with the code. A rule is a function from a tree of files to complaints, so that each one is also
// tried on a small tree that breaks it.
package house_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A tree is the project's files: path with slashes, text. A file that is not
// text is there with none.
type tree map[string]string

// A rule returns complaints about violations, one sentence each.
type rule func(tree) []string

// project is the tree that this test stands in.
var project = sync.OnceValues(func() (tree, error) { return load(filepath.Join("..", "..")) })

func load(root string) (tree, error) {
	files := tree{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil || rel == "." {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && rel != ".ci"
			if hidden || rel == "bin" || rel == "build" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
			data = nil
		}
		files[rel] = string(data)
		return nil
	})
	if err == nil && files["go.mod"] == "" {
		err = fmt.Errorf("%s is not the project: it has no go.mod", root)
	}
	return files, err
}

// hold fails the test for each complaint about the project.
func hold(t *testing.T, r rule) {
	t.Helper()
	files, err := project()
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range r(files) {
		t.Error(complaint)
	}
}

// A trial is a small tree and the expected complaint of a rule; "": none.
type trial struct {
	name  string
	files tree
	want  string
}

// try shows that a rule can fail, and that it accepts a correct tree.
func try(t *testing.T, r rule, trials []trial) {
	t.Helper()
	for _, c := range trials {
		t.Run(c.name, func(t *testing.T) {
			got := r(c.files)
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("complains without cause: %q", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
				t.Errorf("says %q, want one sentence with %q", got, c.want)
			}
		})
	}
}

// paths are the files of a tree in order.
func (files tree) paths() []string { return slices.Sorted(maps.Keys(files)) }

// A goFile is a parsed source file.
type goFile struct {
	path, dir string
	test      bool
	fset      *token.FileSet
	ast       *ast.File
}

func (f goFile) line(n ast.Node) int { return f.fset.Position(n.Pos()).Line }

func (f goFile) at(n ast.Node) string { return fmt.Sprintf("%s:%d", f.path, f.line(n)) }

// goFiles parses every source file of any build tags, except test data. Files that do not parse are left to the
// compiler.
func (files tree) goFiles() []goFile {
	var all []goFile
	for _, name := range files.paths() {
		if !strings.HasSuffix(name, ".go") || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, name, files[name], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		all = append(all, goFile{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), fset, parsed})
	}
	return all
}

// excuses are the rules that a source file may ask to be let off, with a
// reason: //house:NAME because …
var excuses = map[string]string{
	"sleep": "a test that waits for real time",
	"init":  "a function that runs before main",
	"long":  "a file that is long and still one thing",
}

var excuse = regexp.MustCompile(`^//house:(\w+) because \S.{8,}`)

// excused says whether the line of n, the line above it or a comment that ends
// there has the excuse.
func (f goFile) excused(name string, n ast.Node) bool {
	line := f.line(n)
	for _, group := range f.ast.Comments {
		last := f.fset.Position(group.End()).Line
		for _, c := range group.List {
			if m := excuse.FindStringSubmatch(c.Text); m != nil && m[1] == name {
				if at := f.line(c); at == line || last == line-1 && at <= line {
					return true
				}
			}
		}
	}
	return false
}

// excusedAnywhere is for a rule about the whole file.
func (f goFile) excusedAnywhere(name string) bool {
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			if m := excuse.FindStringSubmatch(c.Text); m != nil && m[1] == name {
				return true
			}
		}
	}
	return false
}
