package house_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"strconv"
	"strings"
	"testing"
)

// ciRun is the script with the checks of each change.
const ciRun = ".ci/run"

// TestRootCampaignsAreNamed checks that the first line of .ci/run without root names each campaign that needs root and has a
// short form.
func TestRootCampaignsAreNamed(t *testing.T) { hold(t, rootCampaigns) }

func TestRootCampaignRuleCanFail(t *testing.T) {
	spec := func(fields string) string {
		return "package a\nfunc TestCampaign() { campaign.Run(t, campaign.Spec{" + fields + "}, nil) }\n"
	}
	files := func(fields string) tree {
		return tree{"test/faults/a/a_test.go": spec(fields), ciRun: "rooted='the campaigns slow and full'\n"}
	}
	try(t, rootCampaigns, []trial{
		{"named", files(`Name: "slow", Short: 7, Root: true`), ""},
		{"without root", files(`Name: "other", Short: 7`), ""},
		{"without a short form", files(`Name: "other", Root: true`), ""},
		{"not named", files(`Name: "other", Short: 7, Root: true`), "test/faults/a/a_test.go:2: .ci/run does not name the campaign other"},
		{"a part of a name", files(`Name: "ful", Short: 7, Root: true`), "does not name the campaign ful"},
		{"no literal", files(`Name: name, Short: 7, Root: true`), "has no literal name"},
		{"no script", tree{"test/faults/a/a_test.go": spec(`Name: "slow", Short: 7, Root: true`)}, "does not name the campaign slow"},
	})
}

// rootCampaigns complains about campaigns that .ci/run leaves out without naming them.
func rootCampaigns(files tree) (bad []string) {
	named := map[string]bool{}
	for line := range strings.Lines(files[ciRun]) {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), "rooted='"); ok {
			for word := range strings.FieldsSeq(list) {
				named[strings.Trim(word, ",'")] = true
			}
		}
	}
	for _, f := range files.goFiles() {
		if !strings.HasPrefix(f.dir+"/", "test/") || path.Base(f.dir) == "house" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || !isSpec(lit.Type) {
				return true
			}
			fields := map[string]ast.Expr{}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if key, ok := kv.Key.(*ast.Ident); ok {
						fields[key.Name] = kv.Value
					}
				}
			}
			if fields["Root"] == nil || fields["Short"] == nil {
				return true
			}
			name, ok := fields["Name"].(*ast.BasicLit)
			if !ok || name.Kind != token.STRING {
				bad = append(bad, f.at(lit)+": a campaign that needs root has no literal name")
				return true
			}
			if text, err := strconv.Unquote(name.Value); err != nil || !named[text] {
				bad = append(bad, fmt.Sprintf("%s: %s does not name the campaign %s, which needs root; add it to rooted", f.at(lit), ciRun, text))
			}
			return true
		})
	}
	return bad
}

// isSpec reports whether a type is campaign.Spec.
func isSpec(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == "campaign" && sel.Sel.Name == "Spec"
}
