package policy

import (
	"fmt"
	"testing"

	"ferry/internal/transfer"
)

// TestBeyond: a giver lacks all that the rules do not plainly give it: all agents, all paths, and nothing denied.
func TestBeyond(t *testing.T) {
	const senders = `{"name":"senders","who":["role:sender"],"agents":["ALPHA"],"may":["source","monitor"],"read":["/out/**","/more"],"except":["/out/x"]}`
	for _, c := range []struct {
		rules string // of eve, beside those of senders
		role  string // of eve
		right transfer.Authority
	}{
		{`{"name":"e","who":["user:eve"],"may":["enrol"]}`, RoleMember, "source"},
		{`{"name":"e","who":["user:eve"],"may":["enrol"]}`, RoleSender, ""},
		{`{"name":"e","who":["user:eve"],"may":["source"],"read":["**"]}`, RoleMember, "monitor"},
		{`{"name":"e","who":["user:eve"],"may":["source","monitor"],"read":["**"]}`, RoleMember, ""},
		{`{"name":"e","who":["user:eve"],"agents":["ALPHA"],"may":["source","monitor"],"read":["/more","/out/**"],"except":["/out/x"]}`, RoleMember, ""},
		{`{"name":"e","who":["user:eve"],"agents":["BETA"],"may":["source","monitor"],"read":["**"]}`, RoleMember, "source"},
		{`{"name":"e","who":["user:eve"],"may":["source","monitor"],"read":["/out/**"]}`, RoleMember, "source"},
		{`{"name":"e","who":["user:eve"],"may":["source","monitor"],"read":["**"],"except":["/out/y"]}`, RoleMember, "source"},
		{`{"name":"e","who":["user:eve"],"may":["source"],"read":["**"],"last":true},{"name":"f","who":["user:eve"],"may":["monitor"]}`, RoleMember, "monitor"},
		{`{"name":"e","who":["user:eve"],"may":["source","monitor"],"read":["**"]},{"name":"d","who":["user:eve"],"deny":["/out/y"]}`, RoleMember, "source"},
		{`{"name":"e","who":["user:eve"],"may":["source","monitor"],"read":["**"]},{"name":"d","who":["*"],"deny":["/out/y"]}`, RoleMember, ""},
	} {
		r, err := Parse(fmt.Appendf(nil, `{"v":1,"rules":[%s,%s]}`, c.rules, senders))
		if err != nil {
			t.Fatal(err)
		}
		of := func(name, role string) Principal { return Principal{"user", name, role} }
		right, rule := r.Beyond(of("eve", c.role), of("bob", RoleSender), of("bob", RoleMember))
		if right != c.right || right != "" && rule != "senders" {
			t.Errorf("with %s a %s lacks %q of %q; want %q", c.rules, c.role, right, rule, c.right)
		}
		if right, _ := r.Beyond(of("eve", c.role), of("bob", RoleMember), of("bob", RoleMember)); right != "" {
			t.Errorf("the role member takes %s", right)
		}
	}
}
