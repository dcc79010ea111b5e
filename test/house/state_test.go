package house_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// states finds code that writes the state of a ledger entry without Move, which checks it against the table.
func states(files tree) []string {
	var bad []string
	for _, f := range files.goFiles() {
		if f.test || f.dir == "internal/ledger" || !strings.HasPrefix(f.dir, "internal/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			a, ok := n.(*ast.AssignStmt)
			if !ok || a.Tok != token.ASSIGN {
				return true
			}
			for _, to := range a.Lhs {
				if s, ok := to.(*ast.SelectorExpr); ok && s.Sel.Name == "State" && isRecord(s.X) {
					bad = append(bad, fmt.Sprintf("%s writes the state of a record; use its Move", f.at(a)))
				}
			}
			return true
		})
	}
	return bad
}

// isRecord reports whether an expression is called as records of the ledger are, or is
// the progress of one.
func isRecord(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "rec"
	case *ast.SelectorExpr:
		return x.Sel.Name == "rec" || x.Sel.Name == "Progress" && isRecord(x.X)
	}
	return false
}
