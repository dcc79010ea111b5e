package policy

import (
	"os"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// documented returns the rules in docs/security.md.
func documented(t *testing.T) (all []*Rules) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	const begin = "```\n{\"v\": 1"
	for _, block := range strings.Split(string(text), begin)[1:] {
		rules, _, closed := strings.Cut(block, "```")
		if !closed {
			t.Fatal("docs/security.md does not end its rules")
		}
		r, err := Parse([]byte(`{"v": 1` + rules))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// The rules in the documentation can be applied.
func TestDocumentedRules(t *testing.T) {
	if n := len(documented(t)); n != 2 {
		t.Errorf("docs/security.md shows %d sets of rules", n)
	}
	if _, err := Parse(Default); err != nil {
		t.Error(err)
	}
}

// TestTheExampleOfOneDirectory: carol may do exactly the one thing that docs/security.md describes.
func TestTheExampleOfOneDirectory(t *testing.T) {
	all := documented(t)
	r := all[len(all)-1]
	allowed := map[Question]string{}
	for _, agent := range []transfer.AgentName{"ALPHA", "BETA", "GAMMA", ""} {
		for _, right := range transfer.Authorities() {
			for _, path := range []string{"", "/srv/out/carol/a", "/srv/out/carol/b/c", "/srv/out/a", "/srv/out", "/srv/in/carol/a", "/srv/in/a", "/etc/passwd"} {
				q := Question{Who: Principal{Kind: "user", Name: "carol", Role: RoleMember}, Right: right, Agent: agent, Path: path}
				if d := r.Decide(q); d.Allowed {
					allowed[q] = d.Rule
				}
			}
		}
	}
	for q, rule := range allowed {
		sends := q.Right == transfer.AuthSource && q.Agent == "ALPHA" && (q.Path == "" || strings.HasPrefix(q.Path, "/srv/out/carol/"))
		arrives := q.Right == transfer.AuthDest && q.Agent == "BETA" && (q.Path == "" || strings.HasPrefix(q.Path, "/srv/in/carol/"))
		if !sends && !arrives {
			t.Errorf("rule %q allows %+v", rule, q)
		}
	}
	if len(allowed) != 5 {
		t.Errorf("%d questions are allowed: %v", len(allowed), allowed)
	}
	for _, right := range transfer.Authorities() {
		member := Principal{Kind: "user", Name: "mary", Role: RoleMember}
		d, err := Parse(Default)
		if err != nil {
			t.Fatal(err)
		}
		if d.Ever(member, right) {
			t.Errorf("the rules of a new network give a member %s", right)
		}
	}
}
