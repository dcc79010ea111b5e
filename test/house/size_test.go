package house_test

import (
	"fmt"
	"go/ast"
	"slices"
)

// The most that one type has.
const (
	mostFields    = 25 // of a struct, those of its own
	mostMethods   = 40
	mostInterface = 10 // methods of an interface, those of embedded ones not counted
)

// sizes counts the fields and methods of types in the product. A double in faulty has all methods of its original, and
// its own.
func sizes(files tree) []string {
	counts, limits := map[string]int{}, map[string]int{}
	seen := map[string]bool{} // methods: each platform may have its own
	note := func(what, dir, name string, n, limit int) {
		key := what + " of " + dir + "." + name
		counts[key] += n
		limits[key] = limit
	}
	for _, f := range files.goFiles() {
		if f.test || underTest(f.dir) || f.dir == "internal/faulty" {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if name := receiverOf(d); name != "" && !seen[f.dir+"."+name+"."+d.Name.Name] {
					seen[f.dir+"."+name+"."+d.Name.Name] = true
					note("methods", f.dir, name, 1, mostMethods)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					t, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					switch of := t.Type.(type) {
					case *ast.StructType:
						note("fields", f.dir, t.Name.Name, fieldsOf(of.Fields), mostFields)
					case *ast.InterfaceType:
						note("methods", f.dir, t.Name.Name, len(of.Methods.List), mostInterface)
					}
				}
			}
		}
	}
	var bad []string
	for key, n := range counts {
		if n > limits[key] {
			bad = append(bad, fmt.Sprintf("there are %d %s, and the most is %d", n, key, limits[key]))
		}
	}
	slices.Sort(bad)
	return bad
}

// receiverOf is the type that a method is of; "" for a function.
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func fieldsOf(l *ast.FieldList) (n int) {
	for _, f := range l.List {
		n += max(1, len(f.Names))
	}
	return n
}
