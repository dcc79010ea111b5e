package authority

import (
	"maps"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/policy"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
)

// Rules are stored, signed and recorded. Rules that could never be undone, or that agents could not use, are refused
// and change nothing.
func TestRules(t *testing.T) {
	s := newStage(t)
	ann, bob := s.name(identity.User, "ann"), s.name(identity.User, "bob")
	_, err := s.Issue(ann, roles.Admin, newJoiner(t).wish, "")
	must(t, err)
	_, err = s.Issue(bob, roles.User, newJoiner(t).wish, "")
	must(t, err)
	s.enrolled(s.name(identity.User, "mary"), roles.Member)
	document := func() *trust.Document {
		t.Helper()
		data, err := s.Trust(trust.Rules)
		must(t, err)
		d, err := trust.Open(s.trust.Verifier, s.Network(), data)
		must(t, err)
		if _, err := policy.Parse(d.Policy); err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := document()
	if !maps.Equal(first.Users, map[string]string{"ann": policy.RoleAdmin, "bob": policy.RoleSender, "mary": policy.RoleMember}) {
		t.Errorf("users are %v", first.Users)
	}
	rules := func(deny string) []byte {
		return []byte(`{"v":1,"rules":[{"name":"admins","who":["role:admin"],"may":["admin"]},{"name":"d","who":["*"],"deny":["/` + deny + `"]}]}`)
	}
	must(t, s.SetPolicy(rules("x&y"), ann))
	second := document()
	if second.Number <= first.Number || !strings.Contains(string(second.Policy), "y") {
		t.Errorf("document %d after %d has %s", second.Number, first.Number, second.Policy)
	}
	for what, bad := range map[string][]byte{
		"none":                     nil,
		"nobody is an admin":       []byte(`{"v":1,"rules":[]}`),
		"too many that are longer": []byte(`{"v":1,"rules":[{"name":"admins","who":["role:admin"],"may":["admin"]},{"name":"` + strings.Repeat("&", 60_000) + `","who":["*"]}]}`),
	} {
		if err := s.SetPolicy(bad, ann); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%s: %v", what, err)
		}
		if d := document(); d.Number != second.Number {
			t.Errorf("%s: document %d", what, d.Number)
		}
	}
	if err := s.May(bob, transfer.AuthAdmin); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("bob may: %v", err)
	}
	must(t, s.May(ann, transfer.AuthAdmin))
	must(t, s.Revoke(bob, ""))
	if d := document(); d.Users["bob"] != policy.RoleRevoked {
		t.Errorf("users are %v", d.Users)
	}
	s.now = s.now.Add(60 * 24 * time.Hour)
	if d := document(); d.Users["bob"] != policy.RoleRevoked {
		t.Errorf("after two months users are %v", d.Users)
	}
	s.now = s.now.Add(2 * revokedUsersListed)
	if d := document(); d.Users["bob"] != "" || d.Users["mary"] != policy.RoleMember {
		t.Errorf("long after the revocation users are %v", d.Users)
	}
	s.again()
	if string(s.Policy()) != string(second.Policy) {
		t.Errorf("after a restart the rules are %s", s.Policy())
	}
}

// The rules document lists the present key of each user with former keys, also over a restart.
func TestKeysOfNamesThatWereEnrolledAgain(t *testing.T) {
	s := newStage(t)
	ann, bob := s.name(identity.User, "ann"), s.name(identity.User, "bob")
	issue := func(name identity.Name) {
		t.Helper()
		_, err := s.Issue(name, roles.User, newJoiner(t).wish, "")
		must(t, err)
	}
	keys := func(form trust.Form) map[string]string {
		t.Helper()
		data, err := s.Trust(form)
		must(t, err)
		d, err := trust.Open(s.trust.Verifier, s.Network(), data)
		must(t, err)
		return d.Keys
	}
	issue(ann)
	issue(bob)
	if all := keys(trust.Rules); len(all) != 0 {
		t.Errorf("of names with their first keys, the document has %v", all)
	}
	must(t, s.Revoke(ann, ""))
	issue(ann)
	want := map[string]string{"ann": shortFingerprint(s.state.names[ann.String()].keys.TLS)}
	if all := keys(trust.Rules); !maps.Equal(all, want) {
		t.Errorf("the document has %v, not %v", all, want)
	}
	if all := keys(trust.Keys); len(all) != 0 {
		t.Errorf("the document for users has %v", all)
	}
	s.again()
	if all := keys(trust.Rules); !maps.Equal(all, want) {
		t.Errorf("after a restart the document has %v, not %v", all, want)
	}
	issue(ann)
	if all := keys(trust.Rules); len(all) != 1 || all["ann"] == want["ann"] || all["ann"] != shortFingerprint(s.state.names[ann.String()].keys.TLS) {
		t.Errorf("after another enrolment the document has %v", all)
	}
}

// TestWhatIsNotRenewedEnds: an identity has ended once its last certificate has expired, and not before.
func TestWhatIsNotRenewedEnds(t *testing.T) {
	s := newStage(t)
	alpha := s.name(identity.Agent, "ALPHA")
	s.enrolled(alpha, roles.Agent)
	if Ended(s.Authority, alpha) {
		t.Error("an identity that was just issued has ended")
	}
	s.now = s.now.Add(identity.Validity + grace)
	if !Ended(s.Authority, alpha) {
		t.Error("an identity that was not renewed has not ended")
	}
}

// Rules that cannot be recorded do not apply, and no second document has the number of the first.
func TestRulesThatAreNotOnRecord(t *testing.T) {
	s := newStage(t)
	ann := s.name(identity.User, "ann")
	s.enrolled(ann, roles.Admin)
	before, err := s.Trust(trust.Rules)
	must(t, err)
	must(t, s.acts.f.Close()) // like a full disk
	if err := s.SetPolicy([]byte(`{"v":1,"rules":[{"name":"a","who":["role:admin"],"may":["admin"]}]}`), ann); err == nil {
		t.Fatal("rules are taken that are not on record")
	}
	if after, err := s.Trust(trust.Rules); err != nil || string(after) != string(before) {
		t.Errorf("the document is another one, %v", err)
	}
	if err := s.May(ann, transfer.AuthAudit); err != nil {
		t.Errorf("the rules are others: %v", err)
	}
}
