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
		t.Error("a principal has a right without a rule")
	}
}

// A denied path is denied with everything beneath.
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

// Deny overrides the other rules, in any order.
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

// A rule gives nothing that exactly matches its except. Other rules may give it.
func TestExcept(t *testing.T) {
	r, err := Parse([]byte(`{"v":1,"rules":[
	 {"name":"a","who":["*"],"may":["source","destination"],"read":["/a/**"],"write":["/a/**"],"except":["/a/x","/a/y/**"]},
	 {"name":"b","who":["user:bob"],"may":["source"],"read":["/a/y/bob"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		who, path string
		fold      bool
		want      string
	}{
		{"alice", "/a/b", false, "a"}, {"alice", "/a/x", false, ""}, {"alice", "/a/X", false, "a"}, {"alice", "/a/X", true, ""}, {"alice", "/a/x/beneath", false, "a"},
		{"alice", "/a/y", false, ""}, {"alice", "/a/y/bob", false, ""}, {"bob", "/a/y/bob", false, "b"}, {"alice", "", false, "a"},
	} {
		q := Question{Who: Principal{"user", x.who, ""}, Right: transfer.AuthSource, Path: x.path, Fold: x.fold}
		if d := r.Decide(q); d.Rule != x.want || d.Allowed != (x.want != "") {
			t.Errorf("%+v: %+v", x, d)
		}
	}
	if d := r.Decide(Question{Who: Principal{"user", "alice", ""}, Right: transfer.AuthDest, Path: "/a/x"}); d.Allowed {
		t.Error("except holds for reading alone")
	}
}

// After the last rule for a principal, later rules neither give nor deny it anything. Other principals are not
// affected.
func TestLastAndUsers(t *testing.T) {
	r, err := Parse([]byte(`{"v":1,"rules":[
	 {"name":"acc","who":["users:acc[0-9]+|a"],"last":true},
	 {"name":"acc1","who":["user:acc1"],"may":["source"],"read":["/**"]},
	 {"name":"b","who":["user:bob"],"may":["source"],"read":["/b/**"],"last":true},
	 {"name":"rest","who":["*"],"may":["source","peer"],"read":["/**"],"deny":["/b/secret"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ kind, who, path, want string }{
		{"user", "acc1", "/x", ""}, {"user", "a", "/x", ""}, {"user", "xacc1", "/x", "rest"}, {"user", "acc1x", "/x", "rest"}, {"user", "acc", "/x", "rest"}, {"agent", "acc1", "/x", "rest"},
		{"user", "bob", "/x", ""}, {"user", "bob", "/b/secret", "b"}, {"user", "eve", "/b/y", "rest"},
	} {
		d := r.Decide(Question{Who: Principal{x.kind, x.who, ""}, Right: transfer.AuthSource, Path: x.path})
		if d.Rule != x.want || d.Allowed != (x.want != "") {
			t.Errorf("%+v: %+v", x, d)
		}
	}
}

func TestPoliciesThatAreNone(t *testing.T) {
	for text, word := range map[string]string{
		``: "cannot be read", `[]`: "cannot be read", `{"v":2,"rules":[]}`: "version 2", `{"v":1,"rules":[]}{}`: "behind its end",
		`{"v":1,"rulse":[]}`:                                                                                  "rulse",
		`{"v":1,"rules":[{"who":["*"]}]}`:                                                                     "rule 1 has no name",
		`{"v":1,"rules":[{"name":"a"}]}`:                                                                      "names no principal",
		`{"v":1,"rules":[{"name":"a","who":["alice"]}]}`:                                                      `"alice" is none`,
		`{"v":1,"rules":[{"name":"a","who":["group:x"]}]}`:                                                    `no group "x"`,
		`{"v":1,"rules":[{"name":"a","who":["user:"]}]}`:                                                      `"user:" is none`,
		`{"v":1,"rules":[{"name":"a","who":["*"],"may":["x"]}]}`:                                              `no authority "x"`,
		`{"v":1,"rules":[{"name":"a","who":["*"],"read":["x"]}]}`:                                             `rule "a": the pattern "x"`,
		`{"v":1,"rules":[{"name":"a","who":["*"]},{"name":"a","who":["*"]}]}`:                                 `two rules are called "a"`,
		`{"v":1,"rules":[` + strings.Repeat(`{"name":"a","who":["*"]},`, 1000) + `{"name":"b","who":["*"]}]}`: "1001 rules",
		`{"v":1,"rules":[{"name":"a","who":["user:*"]}]}`:                                                     "no wildcards",
		`{"v":1,"rules":[{"name":"a","who":["users:a)(b"]}]}`:                                                 "no regular expression",
		`{"v":1,"rules":[{"name":"a","who":["users:(a{99}){9}{2}"]}]}`:                                        "no regular expression",
		`{"v":1,"rules":[{"name":"a","who":["users:a{999}b{999}c{999}"]}]}`:                                   "repeats too much",
		`{"v":1,"rules":[{"name":"a","who":["users:` + strings.Repeat("a", 257) + `"]}]}`:                     "257 bytes",
		`{"v":1,"rules":[{"name":"a","who":["users:a"` + strings.Repeat(`,"users:a"`, 500) + `]}]}`:           "500 expressions",
		`{"v":1,"rules":[{"name":"a","who":["*"],"except":["x"]}]}`:                                           `rule "a": the pattern "x"`,
		`{"v":1,"rules":[{"name":"a","who":["user:Bob"]}]}`:                                                   "small letters",
		`{"v":1,"groups":{"g":["user:bob"]},"rules":[]}`:                                                      `group "g"`,
		`{"v":1,"rules":[{"name":"a","who":["*"],"agents":["agent:ALPHA"]}]}`:                                 "no name of an agent",
		`{"v":1,"rules":[{"name":"a","who":["*"],"agents":[""]}]}`:                                            "no name of an agent",
		`{"v":1,"rules":[{"name":"a","who":["*"],"deny":["/x"],"deny":[]}]}`:                                  `"deny" twice`,
		`{"v":1,"rules":[{"name":"a","who":["*"],"deny":["/x"],"Deny":[]}]}`:                                  `"deny" twice`,
		`{"v":1,"groups":{"g":["a"],"g":["b"]},"rules":[]}`:                                                   `"g" twice`,
		`{"v":1,"rules":[]}}`: "behind its end",
		`{"v":1,"rules":[{"name":"a","who":["*"],"read":["/a"` + strings.Repeat(`,"/a"`, 4000) + `]}]}`: "patterns",
		strings.Repeat(" ", MaxSize+1): "bytes",
	} {
		r, err := Parse([]byte(text))
		if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), word) {
			t.Errorf("%.80s is %v, %v; want %q", text, r, err, word)
		}
	}
}

// The authority delegate is for the users that the rule names in for.
func TestDelegate(t *testing.T) {
	r, err := Parse([]byte(`{"v":1,"groups":{"treasury":["alice"]},"rules":[
 {"name":"console","who":["user:console"],"agents":["ALPHA"],"may":["delegate"],"for":["group:treasury","users:t-[0-9]+"]},
 {"name":"robot","who":["user:robot"],"may":["delegate"],"for":["*"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	user := func(name string) Principal { return Principal{Kind: "user", Name: name, Role: RoleMember} }
	for _, c := range []struct {
		by, principal string
		at            transfer.AgentName
		want          string
	}{
		{"console", "alice", "ALPHA", "console"}, {"console", "t-12", "ALPHA", "console"}, {"console", "bob", "ALPHA", ""}, {"console", "alice", "BETA", ""},
		{"alice", "console", "ALPHA", ""}, {"alice", "alice", "ALPHA", ""}, {"robot", "bob", "BETA", "robot"},
	} {
		d := r.Decide(Question{Who: user(c.by), For: user(c.principal), Right: transfer.AuthDelegate, Agent: c.at})
		if d.Allowed != (c.want != "") || d.Rule != c.want {
			t.Errorf("%s for %s at %s: %+v", c.by, c.principal, c.at, d)
		}
	}
	for _, right := range transfer.Authorities() {
		if d := r.Decide(Question{Who: user("console"), Right: right, Agent: "ALPHA"}); d.Allowed {
			t.Errorf("console has the authority %s itself: %+v", right, d)
		}
	}
	for _, rule := range []string{`"may":["delegate"]`, `"may":["source"],"for":["*"]`, `"may":["delegate"],"for":["bob"]`, `"may":["delegate"],"for":["group:none"]`, `"may":["delegate"],"for":["user:Bob"]`} {
		if _, err := Parse([]byte(`{"v":1,"rules":[{"name":"a","who":["*"],` + rule + `}]}`)); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

// For any policy, no principal gets a right that no rule of the policy has.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(bank), "alice", "/srv/out/a")
	f.Add([]byte(`{"v":1,"rules":[{"name":"a","who":["*"],"may":["source"],"read":["/**"]}]}`), "u", "/x")
	f.Add([]byte(`{"v":1,"rules":[{"name":"a","who":["users:[a-z]*"],"may":["source"],"read":["/**"],"except":["/y/*"],"last":true}]}`), "u", "/x")
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
				t.Errorf("%s may %s by rule %q, which does not give it", who, right, d.Rule)
			}
		}
	})
}

// A path with a / at its end asks whether any path beneath it is allowed. A deny or an except that covers all of them
// refuses.
func TestBeneath(t *testing.T) {
	r, err := Parse([]byte(`{"v":1,"rules":[
 {"name":"out","who":["*"],"may":["source"],"read":["/srv/out/*.csv","/srv/all/**"],"except":["/srv/all/hidden/**","/srv/all/part/*.txt"]},
 {"name":"never","who":["*"],"deny":["/srv/all/secret"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/srv/out": false, "/srv/out/": true, "/srv/out/a.csv": true, "/srv/out/a.csv/": true, "/srv/out/d/": false, "/srv/": true, "/": true, "/etc/": false,
		"/srv/all/": true, "/srv/all/x/": true, "/srv/all/hidden/": false, "/srv/all/hidden/x/": false, "/srv/all/part/": true,
		"/srv/all/secret/": false, "/srv/all/SECRET/x/": false, "/srv/all/secrets/": true,
	} {
		if d := r.Decide(Question{Who: Principal{Kind: "user", Name: "bob"}, Right: transfer.AuthSource, Agent: "ALPHA", Path: path}); d.Allowed != want {
			t.Errorf("%s: %+v", path, d)
		}
	}
}
