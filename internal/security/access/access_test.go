package access_test

import (
	"strings"
	"testing"
	"time"

	"ferry/internal/security/access"
	"ferry/internal/security/policy"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
)

const network = "abcdefgh12"

func document(rules string, users map[string]string) *trust.Document {
	return &trust.Document{Network: network, Number: 1, Issued: time.Unix(1_800_000_000, 0), Policy: []byte(rules), Users: users}
}

const rules = `{"v":1,"rules":[
 {"name":"team","who":["user:bob"],"agents":["ALPHA"],"may":["source","destination"],"read":["/srv/out/**"],"write":["/srv/in/**"]},
 {"name":"watch","who":["role:operator"],"may":["operate"]},
 {"name":"never","who":["*"],"deny":["/srv/out/Salaries/**"]},
 {"name":"peers","who":["agent:A*","agent:PIPE*"],"may":["peer"]}]}`

// TestAsk compares answers to questions. A refusal names principal, authority, agent, path and rule.
func TestAsk(t *testing.T) {
	j := access.NewJudge(network, nil, false)
	if err := j.Ready(); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("without a document it is ready: %v", err)
	}
	if _, err := j.Ask(access.Question{Principal: "bob", Right: transfer.AuthSource, Agent: "ALPHA"}); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("without a document it decides: %v", err)
	}
	if err := j.Take(document(rules, map[string]string{"bob": "member", "alpha": "sender", "olga": "operator", "rex": "revoked"})); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		principal string
		right     transfer.Authority
		agent     transfer.AgentName
		path      string
		rule      string // that allows it; empty: refused
		says      string
	}{
		{"bob", transfer.AuthSource, "ALPHA", "/srv/out/a", "team", ""},
		{"bob", transfer.AuthSource, "ALPHA", "", "team", ""},
		{"bob", transfer.AuthSource, "BETA", "/srv/out/a", "", "user bob does not have the authority source at agent BETA for /srv/out/a: no rule gives it"},
		{"bob", transfer.AuthSource, "ALPHA", "/srv/out/salaries/x", "", `rule "never" denies /srv/out/Salaries/**`},
		{"bob", transfer.AuthDest, "ALPHA", "/srv/out/a", "", "no rule"},
		{"bob", transfer.AuthOverwrite, "ALPHA", "/srv/in/a", "", "authority overwrite"},
		{"bob", transfer.AuthNone, "ALPHA", "", "", ""},
		{"olga", transfer.AuthOperate, "ALPHA", "", "watch", ""},
		{"bob", transfer.AuthOperate, "ALPHA", "", "", "no rule"},
		{"bob", transfer.AuthOperate, "", "", "", "user bob does not have the authority operate in the network: no rule gives it"},
		{"rex", transfer.AuthSource, "ALPHA", "/srv/out/a", "", "everything"},
		{"ALPHA", transfer.AuthPeer, "BETA", "", "peers", ""},
		{"PIPE-0123456789000000000001", transfer.AuthPeer, "BETA", "", "", "only its user has authorities"},
		{"BETA", transfer.AuthPeer, "ALPHA", "", "", "agent BETA"},
		{"alpha", transfer.AuthPeer, "BETA", "", "", "user alpha"},
		{"qmgr", transfer.AuthOperate, "ALPHA", "", "", "no rule"},
		{"authority", transfer.AuthOperate, "ALPHA", "", "", "no rule"},
		{"bob%0aeve", transfer.AuthSource, "ALPHA", "", "", "no principal"},
		{"", transfer.AuthSource, "ALPHA", "", "", "no principal"},
	} {
		rule, err := j.Ask(access.Question{Principal: x.principal, Right: x.right, Agent: x.agent, Path: x.path})
		if rule != x.rule || (err == nil) != (x.rule != "" || x.says == "") {
			t.Errorf("%+v: %q, %v", x, rule, err)
		}
		if err != nil && (transfer.KindOf(err) != transfer.KindDenied || !strings.Contains(err.Error(), x.says)) {
			t.Errorf("%+v: %v", x, err)
		}
	}
}

// A sandbox takes away and gives nothing; it holds without identities, too.
func TestSandboxOnlyNarrows(t *testing.T) {
	box, err := policy.Parse([]byte(`{"v":1,"rules":[{"name":"box","who":["*"],"may":["source","operate"],"read":["/srv/out/public/**","/etc/**"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	j := access.NewJudge(network, box, false)
	if err := j.Take(document(rules, map[string]string{"bob": "sender"})); err != nil {
		t.Fatal(err)
	}
	ask := func(j *access.Judge, who, path string, right transfer.Authority) error {
		_, err := j.Ask(access.Question{Principal: who, Right: right, Agent: "ALPHA", Path: path})
		return err
	}
	if err := ask(j, "bob", "/srv/out/public/a", transfer.AuthSource); err != nil {
		t.Error(err)
	}
	for path, right := range map[string]transfer.Authority{"/srv/out/a": transfer.AuthSource, "/etc/passwd": transfer.AuthSource, "": transfer.AuthOperate} {
		if err := ask(j, "bob", path, right); transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("%s %s: %v", right, path, err)
		}
	}
	plain := access.NewJudge("", box, false)
	if err := ask(plain, "bob@host", "/srv/out/a", transfer.AuthSource); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("without identities: %v", err)
	}
	if err := ask(plain, "bob@host", "/etc/x", transfer.AuthSource); err != nil {
		t.Error(err)
	}
	if err := ask(nil, "anybody", "/x", transfer.AuthSource); err != nil {
		t.Error(err)
	}
}

// A document with rules that cannot be read changes nothing.
func TestRulesThatCannotBeRead(t *testing.T) {
	j := access.NewJudge(network, nil, false)
	users := map[string]string{"bob": "sender"}
	if err := j.Take(document(rules, users)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "{}", `{"v":9,"rules":[]}`, `{"v":1,"rules":[{"name":"a"}]}`} {
		if err := j.Take(document(bad, users)); transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("%q is taken: %v", bad, err)
		}
	}
	if _, err := j.Ask(access.Question{Principal: "bob", Right: transfer.AuthSource, Agent: "ALPHA", Path: "/srv/out/a"}); err != nil {
		t.Error(err)
	}
	if j.Plain() {
		t.Error("a plain direct lane is allowed by rules that do not say so")
	}
}

// TestMembersAndUnknownUsers holds that a member has the rights alone that rules give it by name, and that a user
// that the document does not list has none, even by name.
func TestMembersAndUnknownUsers(t *testing.T) {
	const named = `{"v":1,"rules":[{"name":"all","who":["*"],"may":["monitor"]},{"name":"two","who":["user:mary","users:p.*"],"may":["source"],"read":["/srv/out/**"]}]}`
	for _, x := range []struct {
		rules, user, role string
		right             transfer.Authority
		says              string // empty: allowed
	}{
		{string(policy.Default), "mary", policy.RoleSender, transfer.AuthSource, ""},
		{string(policy.Default), "mary", policy.RoleMember, transfer.AuthSource, "no rule gives it"},
		{string(policy.Default), "mary", policy.RoleMember, transfer.AuthMonitor, "no rule gives it"},
		{string(policy.Default), "mary", "", transfer.AuthSource, "the network's authority lists no such user"},
		{named, "mary", policy.RoleMember, transfer.AuthSource, ""},
		{named, "mary", "", transfer.AuthSource, "the network's authority lists no such user"},
		{named, "paul", "", transfer.AuthSource, "the network's authority lists no such user"},
		{named, "zoe", "", transfer.AuthMonitor, "the network's authority lists no such user"},
	} {
		users := map[string]string{"olga": policy.RoleOperator}
		if x.role != "" {
			users[x.user] = x.role
		}
		j := access.NewJudge(network, nil, false)
		if err := j.Take(document(x.rules, users)); err != nil {
			t.Fatal(err)
		}
		_, err := j.Ask(access.Question{Principal: x.user, Right: x.right, Agent: "ALPHA", Path: "/srv/out/a"})
		if x.says == "" && err != nil || x.says != "" && (transfer.KindOf(err) != transfer.KindDenied || !strings.Contains(err.Error(), x.says)) {
			t.Errorf("%s with the role %q: %v", x.user, x.role, err)
		}
	}
}

// TestADocumentWithoutRules holds that nothing is allowed by it, and that nothing waits for rules.
func TestADocumentWithoutRules(t *testing.T) {
	j := access.NewJudge(network, nil, false)
	if err := j.Take(&trust.Document{Network: network, Number: 1, Issued: time.Unix(1_800_000_000, 0)}); err != nil {
		t.Fatal(err)
	}
	if err := j.Ready(); err != nil {
		t.Error(err)
	}
	for _, principal := range []string{"bob", "ALPHA"} {
		if _, err := j.Ask(access.Question{Principal: principal, Right: transfer.AuthPeer}); transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("%s: %v", principal, err)
		}
	}
}

// TestWithoutRulesThereIsNoPermit holds that a place need not ask where a file lies when nothing is ever refused.
func TestWithoutRulesThereIsNoPermit(t *testing.T) {
	sandbox, err := policy.Parse(policy.Default)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		judge *access.Judge
		none  bool
	}{
		{"no judge", nil, true},
		{"no identities", access.NewJudge("", nil, false), true},
		{"a sandbox", access.NewJudge("", sandbox, false), false},
		{"identities", access.NewJudge(network, nil, false), false},
	} {
		if got := c.judge.For("ann", "ALPHA") == nil; got != c.none {
			t.Errorf("%s: without a permit: %t, not %t", c.name, got, c.none)
		}
	}
}
