package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

const bank = `{"v":1,
 "groups":{"treasury":["alice","bob"],"night":["batch"]},
 "rules":[
  {"name":"treasury reads reports","who":["group:treasury"],"agents":["ALPHA","B*"],"may":["source"],"read":["/srv/out/**"]},
  {"name":"nobody reads salaries","who":["*"],"deny":["/srv/out/salaries/**"]},
  {"name":"the night runs everything","who":["group:night"],"may":["source","destination","overwrite","delete-source"],"read":["/**"],"write":["/**"]},
  {"name":"operators","who":["role:operator"],"may":["operate","audit"]},
  {"name":"alpha and beta are peers","who":["agent:ALPHA"],"agents":["BETA"],"may":["peer"]}
 ]}`

func TestDecisions(t *testing.T) {
	r, err := Parse([]byte(bank))
	if err != nil {
		t.Fatal(err)
	}
	user := func(name, role string) Principal { return Principal{"user", name, role} }
	for _, x := range []struct {
		q    Question
		want Decision
	}{
		{Question{Who: user("alice", "user"), Right: transfer.AuthSource, Agent: "ALPHA", Path: "/srv/out/a"}, Decision{true, "treasury reads reports", ""}},
		{Question{Who: user("alice", "user"), Right: transfer.AuthSource, Agent: "BETA", Path: "/srv/out/a"}, Decision{true, "treasury reads reports", ""}},
		{Question{Who: user("alice", "user"), Right: transfer.AuthSource, Agent: "GAMMA", Path: "/srv/out/a"}, Decision{}},
		{Question{Who: user("alice", "user"), Right: transfer.AuthSource, Agent: "ALPHA", Path: "/srv/other"}, Decision{}},
		{Question{Who: user("alice", "user"), Right: transfer.AuthDest, Agent: "ALPHA", Path: "/srv/out/a"}, Decision{}},
		{Question{Who: user("alice", "user"), Right: transfer.AuthDeleteSource, Agent: "ALPHA", Path: "/srv/out/a"}, Decision{}},
		{Question{Who: user("alice", "user"), Right: transfer.AuthSource, Agent: "ALPHA", Path: "/srv/out/salaries/x"}, Decision{false, "nobody reads salaries", "/srv/out/salaries/**"}},
		{Question{Who: user("batch", "user"), Right: transfer.AuthSource, Agent: "ALPHA", Path: "/srv/out/salaries/x"}, Decision{false, "nobody reads salaries", "/srv/out/salaries/**"}},
		{Question{Who: user("batch", "user"), Right: transfer.AuthOverwrite, Agent: "OMEGA", Path: "/x"}, Decision{true, "the night runs everything", ""}},
		{Question{Who: user("carol", "user"), Right: transfer.AuthOperate, Agent: "ALPHA"}, Decision{}},
		{Question{Who: user("carol", "operator"), Right: transfer.AuthOperate, Agent: "ALPHA"}, Decision{true, "operators", ""}},
		{Question{Who: user("carol", "operator"), Right: transfer.AuthAdmin, Agent: "ALPHA"}, Decision{}},
		{Question{Who: Principal{Kind: "agent", Name: "ALPHA"}, Right: transfer.AuthPeer, Agent: "BETA"}, Decision{true, "alpha and beta are peers", ""}},
		{Question{Who: Principal{Kind: "agent", Name: "alice"}, Right: transfer.AuthSource, Agent: "ALPHA", Path: "/srv/out/a"}, Decision{}},
		{Question{Who: Principal{Kind: "user", Name: "ALPHA"}, Right: transfer.AuthPeer, Agent: "BETA"}, Decision{}},
		{Question{Who: Principal{Kind: "agent", Name: "GAMMA", Role: "operator"}, Right: transfer.AuthOperate, Agent: "BETA"}, Decision{}},
	} {
		if got := r.Decide(x.q); got != x.want {
			t.Errorf("%+v: %+v; want %+v", x.q, got, x.want)
		}
	}
	if d := (&Rules{}).Decide(Question{Who: user("alice", "operator"), Right: transfer.AuthAudit}); d.Allowed {
		t.Error("without a rule somebody may do something")
	}
}

// What is denied is denied with all that is beneath.
func TestDenyReachesBeneath(t *testing.T) {
	r, err := Parse([]byte(`{"v":1,"rules":[{"name":"all","who":["*"],"may":["source"],"read":["**"]},{"name":"d","who":["*"],"deny":["/x"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, allowed := range map[string]bool{"/x": false, "/X/y/z": false, "/xy": true, "/": true} {
		if d := r.Decide(Question{Who: Principal{"user", "u", ""}, Right: transfer.AuthSource, Path: path}); d.Allowed != allowed {
			t.Errorf("%s: %+v", path, d)
		}
	}
}

// Deny wins wherever its rule stands.
func TestDenyWins(t *testing.T) {
	for _, order := range []string{`[{"name":"a","who":["*"],"may":["source"],"read":["/**"]},{"name":"d","who":["*"],"deny":["/x"]}]`,
		`[{"name":"d","who":["*"],"deny":["/x"]},{"name":"a","who":["*"],"may":["source"],"read":["/**"]}]`,
		`[{"name":"d","who":["*"],"may":["source"],"read":["/**"],"deny":["/x"]}]`} {
		r, err := Parse([]byte(`{"v":1,"rules":` + order + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if d := r.Decide(Question{Who: Principal{"user", "u", ""}, Right: transfer.AuthSource, Path: "/x"}); d != (Decision{false, "d", "/x"}) {
			t.Errorf("%s: %+v", order, d)
		}
		if d := r.Decide(Question{Who: Principal{"user", "u", ""}, Right: transfer.AuthSource, Path: "/y"}); !d.Allowed {
			t.Errorf("%s: /y is refused", order)
		}
	}
}

func TestPoliciesThatAreNone(t *testing.T) {
	for text, word := range map[string]string{
		``: "cannot be read", `[]`: "cannot be read", `{"v":2,"rules":[]}`: "version 2", `{"v":1,"rules":[]}{}`: "behind its end",
		`{"v":1,"rulse":[]}`:                                                                                  "rulse",
		`{"v":1,"rules":[{"who":["*"]}]}`:                                                                     "rule 1 has no name",
		`{"v":1,"rules":[{"name":"a"}]}`:                                                                      "for nobody",
		`{"v":1,"rules":[{"name":"a","who":["alice"]}]}`:                                                      `who "alice"`,
		`{"v":1,"rules":[{"name":"a","who":["group:x"]}]}`:                                                    `no group "x"`,
		`{"v":1,"rules":[{"name":"a","who":["user:"]}]}`:                                                      `who "user:"`,
		`{"v":1,"rules":[{"name":"a","who":["*"],"may":["x"]}]}`:                                              `no authority "x"`,
		`{"v":1,"rules":[{"name":"a","who":["*"],"read":["x"]}]}`:                                             `rule "a": the pattern "x"`,
		`{"v":1,"rules":[{"name":"a","who":["*"]},{"name":"a","who":["*"]}]}`:                                 `two rules are called "a"`,
		`{"v":1,"rules":[` + strings.Repeat(`{"name":"a","who":["*"]},`, 1000) + `{"name":"b","who":["*"]}]}`: "1001 rules",
		`{"v":1,"rules":[{"name":"a","who":["user:*"]}]}`:                                                     "no wildcards",
		`{"v":1,"rules":[{"name":"a","who":["user:Bob"]}]}`:                                                   "small letters",
		`{"v":1,"groups":{"g":["user:bob"]},"rules":[]}`:                                                      `group "g"`,
		`{"v":1,"rules":[{"name":"a","who":["*"],"agents":["agent:ALPHA"]}]}`:                                 "no name of an agent",
		`{"v":1,"rules":[{"name":"a","who":["*"],"agents":[""]}]}`:                                            "no name of an agent",
		`{"v":1,"rules":[{"name":"a","who":["*"],"deny":["/x"],"deny":[]}]}`:                                  `"deny" twice`,
		`{"v":1,"rules":[{"name":"a","who":["*"],"deny":["/x"],"Deny":[]}]}`:                                  `"deny" twice`,
		`{"v":1,"groups":{"g":["a"],"g":["b"]},"rules":[]}`:                                                   `"g" twice`,
		`{"v":1,"rules":[]}}`:                                                                                 "behind its end",
		`{"v":1,"rules":[{"name":"a","who":["*"],"read":["/a"` + strings.Repeat(`,"/a"`, 4000) + `]}]}`:       "patterns",
		strings.Repeat(" ", MaxSize+1):                                                                        "bytes",
	} {
		r, err := Parse([]byte(text))
		if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), word) {
			t.Errorf("%.80s is %v, %v; want %q", text, r, err, word)
		}
	}
}

// Whatever a policy says, nobody gets what no rule of it has among its rights.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(bank), "alice", "/srv/out/a")
	f.Add([]byte(`{"v":1,"rules":[{"name":"a","who":["*"],"may":["source"],"read":["/**"]}]}`), "u", "/x")
	f.Fuzz(func(t *testing.T, data []byte, who, path string) {
		r, err := Parse(data)
		if err != nil {
			return
		}
		var p Policy
		if err := json.Unmarshal(data, &p); err != nil {
			t.Fatal(err)
		}
		for _, right := range transfer.Authorities() {
			d := r.Decide(Question{Who: Principal{"user", who, ""}, Right: right, Agent: "ALPHA", Path: path})
			if !d.Allowed {
				continue
			}
			found := false
			for _, rule := range p.Rules {
				for _, may := range rule.May {
					found = found || rule.Name == d.Rule && may == right
				}
			}
			if !found {
				t.Errorf("%s may %s by rule %q, which does not say so", who, right, d.Rule)
			}
		}
	})
}
