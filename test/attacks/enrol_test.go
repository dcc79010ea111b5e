package attacks

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/policy"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// withRules returns the default rules of a network with additions.
func withRules(t *testing.T, more ...policy.Rule) []byte {
	t.Helper()
	var p policy.Policy
	must(t, json.Unmarshal(policy.Default, &p))
	p.Rules = append(p.Rules, more...)
	data, err := json.Marshal(p)
	must(t, err)
	return data
}

// A registry is a network where operators may enrol, with an administrator and two operators.
type registry struct {
	*network
	admin, clerk, other enrol.Client
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	n, _ := attended(t)
	r := &registry{network: n, admin: n.asker(n.identity(identity.User, "ann", roles.Admin)),
		clerk: n.asker(n.identity(identity.User, "olga", roles.Operator)), other: n.asker(n.identity(identity.User, "otto", roles.Operator))}
	must(t, r.admin.SetPolicy(n.ctx, withRules(t,
		policy.Rule{Name: "clerks", Who: []string{"role:operator"}, May: []transfer.Authority{transfer.AuthEnrol}},
		policy.Rule{Name: "site", Who: []string{"user:sam"}, Agents: []string{"GAMMA*"}, May: []transfer.Authority{transfer.AuthEnrol}},
		policy.Rule{Name: "desk", Who: []string{"user:eve"}, May: []transfer.Authority{transfer.AuthEnrol}},
		policy.Rule{Name: "boss", Who: []string{"user:boss", "user:bill"}, May: []transfer.Authority{transfer.AuthAdmin}},
		policy.Rule{Name: "runs", Who: []string{"user:rita"}, Agents: []string{"ALPHA"}, May: []transfer.Authority{transfer.AuthProgram}},
		policy.Rule{Name: "acts", Who: []string{"agent:ROBOT"}, May: []transfer.Authority{transfer.AuthAdmin}})))
	return r
}

func (r *registry) name(role identity.Role, name string) identity.Name {
	return identity.Name{Network: r.Network(), Role: role, Name: name}
}

// denied expects an operation to need more than the authority enrol.
func (r *registry) denied(does string, err error) {
	r.t.Helper()
	if transfer.KindOf(err) != transfer.KindDenied {
		r.t.Errorf("the holder of enrol %s: %v", does, err)
	}
}

// TestEnrolGivesNoMoreThanItsHolderHas holds that the authority enrol is enough for agents, senders and members alone.
// This holds for any operation, and for any rights that rules give to a name.
func TestEnrolGivesNoMoreThanItsHolderHas(t *testing.T) {
	r := newRegistry(t)
	for what, x := range map[string]struct {
		name identity.Name
		role roles.Role
	}{
		"a queue manager":                 {r.name(identity.Manager, "QM2"), roles.Manager},
		"coordination":                    {r.name(identity.Coordination, ""), roles.Coordination},
		"the authority":                   {r.name(identity.Authority, ""), roles.Authority},
		"an administrator":                {r.name(identity.User, "carl"), roles.Admin},
		"an operator":                     {r.name(identity.User, "cora"), roles.Operator},
		"an auditor":                      {r.name(identity.User, "curt"), roles.Auditor},
		"a channel":                       {r.name(identity.Manager, "QM3"), roles.Channel},
		"a user with admin by a rule":     {r.name(identity.User, "boss"), roles.User},
		"a member with admin by a rule":   {r.name(identity.User, "bill"), roles.Member},
		"a user with program at an agent": {r.name(identity.User, "rita"), roles.User},
		"an agent with admin by a rule":   {r.name(identity.Agent, "ROBOT"), roles.Agent},
	} {
		_, err := r.clerk.NewToken(r.ctx, x.name, x.role, time.Hour)
		r.denied("makes a token for "+what, err)
		for _, anew := range []bool{false, true} {
			_, _, w := wish(t)
			_, err = r.clerk.Enrol(r.ctx, x.name, x.role, w, anew)
			r.denied("enrols "+what, err)
		}
		if r.Role(x.name) != "" && x.role != roles.Authority {
			t.Errorf("%s is enrolled", what)
		}
		_, _, w := wish(t)
		if _, err := r.Issue(x.name, x.role, w, ""); err != nil {
			continue // such a name and role do not exist
		}
		r.denied("revokes "+what, r.clerk.Revoke(r.ctx, x.name))
		line, err := r.admin.NewToken(r.ctx, x.name, x.role, time.Hour)
		must(t, err)
		_, err = r.clerk.DropToken(r.ctx, x.name.String())
		r.denied("takes back a token for "+what, err)
		if _, err := r.Enrol(strings.TrimPrefix(line, "line of "), x.name, w); err != nil {
			t.Errorf("the token for %s was taken back: %v", what, err)
		}
	}
	r.denied("removes a queue manager", r.clerk.RemoveMember(r.ctx, "QM"))
	r.denied("revokes the queue manager", r.clerk.Revoke(r.ctx, r.qm.Name()))
	r.denied("revokes the administrator", r.clerk.Revoke(r.ctx, r.name(identity.User, "ann")))

	for _, x := range []struct {
		name identity.Name
		role roles.Role
	}{{r.name(identity.Agent, "NEW"), roles.Agent}, {r.name(identity.User, "sally"), roles.User}, {r.name(identity.User, "mary"), roles.Member}} {
		_, err := r.clerk.NewToken(r.ctx, x.name, x.role, time.Hour)
		must(t, err)
		_, err = r.clerk.DropToken(r.ctx, x.name.String())
		must(t, err)
		_, _, w := wish(t)
		_, err = r.clerk.Enrol(r.ctx, x.name, x.role, w, false)
		must(t, err)
		must(t, r.clerk.Revoke(r.ctx, x.name))
	}
}

// TestAHolderOfEnrolWithoutPathsMakesNoSenders holds that the role sender needs a holder with all rights that the rules
// give to the role. The role member and agents need the authority enrol alone.
func TestAHolderOfEnrolWithoutPathsMakesNoSenders(t *testing.T) {
	r := newRegistry(t)
	eve := r.asker(r.identity(identity.User, "eve", roles.Member))
	sally := r.name(identity.User, "sally")
	_, err := eve.NewToken(r.ctx, sally, roles.User, time.Hour)
	r.denied("makes a token for a sender", err)
	_, _, w := wish(t)
	_, err = eve.Enrol(r.ctx, sally, roles.User, w, false)
	r.denied("enrols a sender", err)
	_, err = eve.NewToken(r.ctx, r.name(identity.User, "eve"), roles.User, time.Hour)
	r.denied("makes a sender of itself", err)
	_, err = r.clerk.Enrol(r.ctx, sally, roles.User, w, false)
	must(t, err)
	r.denied("revokes a sender", eve.Revoke(r.ctx, sally))
	_, err = eve.NewToken(r.ctx, r.name(identity.User, "mary"), roles.Member, time.Hour)
	must(t, err)
	_, err = eve.NewToken(r.ctx, r.name(identity.Agent, "NEW"), roles.Agent, time.Hour)
	must(t, err)
}

// TestANameBelongsToTheMemberThatEnrolledIt holds that no other holder of enrol gives a name new keys, even after the
// name was revoked. New keys have all rights of the name.
func TestANameBelongsToTheMemberThatEnrolledIt(t *testing.T) {
	r := newRegistry(t)
	take := func(by enrol.Client, name identity.Name, role roles.Role) error {
		t.Helper()
		_, err := by.NewToken(r.ctx, name, role, time.Hour)
		_, _, w := wish(t)
		_, second := by.Enrol(r.ctx, name, role, w, true)
		if transfer.KindOf(err) == transfer.KindDenied != (transfer.KindOf(second) == transfer.KindDenied) {
			t.Errorf("%s: a token gives %v, and an enrolment %v", name, err, second)
		}
		return err
	}
	alpha, bob := r.name(identity.Agent, "ALPHA"), r.name(identity.User, "bob")
	r.identity(identity.Agent, "ALPHA", roles.Agent)
	for _, at := range []string{"good", "revoked"} {
		r.denied("gives an agent of the host other keys, which is "+at, take(r.clerk, alpha, roles.Agent))
		must(t, r.clerk.Revoke(r.ctx, alpha))
	}
	must(t, take(r.admin, alpha, roles.Agent))
	r.denied("gives an agent of an administrator other keys", take(r.clerk, alpha, roles.Agent))

	_, _, keys := wish(t)
	_, err := r.clerk.Enrol(r.ctx, bob, roles.User, keys, false)
	must(t, err)
	r.denied("gives a user of another holder other keys", take(r.other, bob, roles.User))
	_, err = r.clerk.Enrol(r.ctx, bob, roles.User, keys, false) // the answer was lost
	must(t, err)
	must(t, r.other.Revoke(r.ctx, bob))
	r.denied("gives a revoked user of another holder other keys", take(r.other, bob, roles.Member))
	must(t, take(r.clerk, bob, roles.User))

	// The maker of a token is the member that has enrolled the name.
	carol := r.name(identity.User, "carol")
	line, err := r.clerk.NewToken(r.ctx, carol, roles.User, time.Hour)
	must(t, err)
	_, _, w := wish(t)
	_, err = r.Enrol(strings.TrimPrefix(line, "line of "), carol, w)
	must(t, err)
	r.denied("gives other keys to a user that came with a token of another holder", take(r.other, carol, roles.User))
	must(t, take(r.clerk, carol, roles.User))
}

// TestATokenDiesWithTheRightToMakeIt holds that a token becomes invalid when its maker may no longer make it.
func TestATokenDiesWithTheRightToMakeIt(t *testing.T) {
	r := newRegistry(t)
	token := func(by enrol.Client, name string) string {
		t.Helper()
		line, err := by.NewToken(r.ctx, r.name(identity.Agent, name), roles.Agent, time.Hour)
		must(t, err)
		return strings.TrimPrefix(line, "line of ")
	}
	use := func(secret string) error {
		_, _, w := wish(t)
		_, err := r.Enrol(secret, identity.Name{Role: identity.Agent}, w)
		return err
	}
	taken, revoked, stays := token(r.clerk, "TAKEN"), token(r.clerk, "FIRST"), token(r.other, "SECOND")
	_, _, w := wish(t)
	_, err := r.admin.Enrol(r.ctx, r.name(identity.Agent, "TAKEN"), roles.Agent, w, false)
	must(t, err)
	r.denied("has a name taken over that was enrolled meanwhile", use(taken))
	must(t, r.admin.Revoke(r.ctx, r.name(identity.User, "olga")))
	r.denied("is revoked, and its token is used", use(revoked))
	must(t, use(stays))
	line := token(r.other, "THIRD")
	must(t, r.admin.SetPolicy(r.ctx, policy.Default))
	r.denied("lost the authority, and its token is used", use(line))
}

// TestEnrolAtSomeAgents holds that a rule may give the authority enrol for the names of some agents.
func TestEnrolAtSomeAgents(t *testing.T) {
	r := newRegistry(t)
	sam := r.asker(r.identity(identity.User, "sam", roles.Member))
	_, err := sam.NewToken(r.ctx, r.name(identity.Agent, "GAMMA7"), roles.Agent, time.Hour)
	must(t, err)
	_, err = sam.NewToken(r.ctx, r.name(identity.Agent, "DELTA"), roles.Agent, time.Hour)
	r.denied("makes a token for an agent elsewhere", err)
	if err != nil && !strings.Contains(err.Error(), "user sam does not have the authority enrol at agent DELTA: no rule gives it") {
		t.Errorf("the refusal does not name the agent: %v", err)
	}
	_, err = sam.NewToken(r.ctx, r.name(identity.User, "mary"), roles.Member, time.Hour)
	r.denied("makes a token for a user", err)
	_, err = sam.Identities(r.ctx)
	r.denied("lists all identities", err)
}

// TestReadersOfTheRules holds that the rules, which name users and paths, are shown only to administrators and
// auditors, and to the agents and services that decide by them. A user is shown its own rights alone.
func TestReadersOfTheRules(t *testing.T) {
	r := newRegistry(t)
	const secret = "GAMMA*" // is in a rule
	for _, x := range []struct {
		i            *identity.Identity
		shown, keeps bool
	}{
		{r.identity(identity.User, "adam", roles.Admin), true, false},
		{r.identity(identity.User, "anna", roles.Auditor), true, false},
		{r.identity(identity.User, "oscar", roles.Operator), true, false},
		{r.identity(identity.User, "sue", roles.User), false, false},
		{r.identity(identity.User, "mary", roles.Member), false, false},
		{r.identity(identity.Agent, "ALPHA", roles.Agent), false, true},
		{r.identity(identity.Coordination, "", roles.Coordination), false, true},
	} {
		who, a := x.i.Name(), r.asker(x.i)
		doc, err := a.Rules(r.ctx)
		if shown := strings.Contains(string(doc), secret); shown != x.shown || !shown && transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("%s is shown the rules: %t, %v", who, shown, err)
		}
		doc, err = a.Trust(r.ctx)
		must(t, err)
		if keeps := strings.Contains(string(doc), secret); keeps != x.keeps || strings.Contains(string(doc), `"users"`) != x.keeps {
			t.Errorf("%s keeps the rules: %t", who, keeps)
		}
		own := enrol.Question{Principal: who.Token(), Right: transfer.AuthSource, Agent: "ALPHA", Path: "/srv/a"}
		answers, err := a.Test(r.ctx, []enrol.Question{own, {Principal: "ALPHA", Right: transfer.AuthPeer, Agent: "BETA"}})
		must(t, err)
		if allowed := answers[0].Error == nil; allowed != slices.Contains([]string{"sue", "adam", "oscar"}, who.Name) || answers[1].Rule != "peers" {
			t.Errorf("%s asks about itself: %+v", who, answers)
		}
		_, err = a.Test(r.ctx, []enrol.Question{own, {Principal: "boss", Right: transfer.AuthAdmin}})
		if shown := err == nil; shown != x.shown || !shown && transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("%s asks about another user: %v", who, err)
		}
		for _, other := range []string{"sue2", "no token"} { // which would say whether there is one
			_, err = a.Test(r.ctx, []enrol.Question{own, {Principal: other, Right: transfer.AuthPeer, Agent: "BETA"}})
			if shown := err == nil; shown != x.shown || !shown && transfer.KindOf(err) != transfer.KindDenied {
				t.Errorf("%s asks whether %s is a peer: %v", who, other, err)
			}
		}
		_, err = a.Test(r.ctx, slices.Repeat([]enrol.Question{own}, 17))
		if transfer.KindOf(err) != transfer.KindTooLarge {
			t.Errorf("%s asks 17 questions: %v", who, err)
		}
	}
}

// TestAPipeIsShownNoRules holds that the authority gives a pipe the trust document without the rules, and answers no
// other question of it.
func TestAPipeIsShownNoRules(t *testing.T) {
	p := newPiped(t)
	const secret = "GAMMA*" // is in a rule
	must(t, p.asker(p.identity(identity.User, "ann", roles.Admin)).SetPolicy(p.ctx,
		withRules(t, policy.Rule{Name: "site", Who: []string{"user:sam"}, Agents: []string{secret}, May: []transfer.Authority{transfer.AuthEnrol}})))
	a := enrol.Client{Conn: p.connect(p.config(p.bob, p.name, p.jwts))}
	doc, err := a.Trust(p.ctx)
	must(t, err)
	if len(doc) == 0 || strings.Contains(string(doc), secret) || strings.Contains(string(doc), `"users"`) {
		t.Errorf("a pipe keeps the document %s", doc)
	}
	if doc, err = a.Rules(p.ctx); transfer.KindOf(err) != transfer.KindDenied || strings.Contains(string(doc), secret) {
		t.Errorf("a pipe is shown the rules: %v", err)
	}
	for _, principal := range []string{"bob", p.name.Token(), "ann"} {
		_, err = a.Test(p.ctx, []enrol.Question{{Principal: principal, Right: transfer.AuthSource, Agent: "ALPHA", Path: "/srv/a"}})
		if transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("a pipe asks about %s: %v", principal, err)
		}
	}
}

// TestRulesAreHeardByAgents holds that users cannot subscribe to the published rules.
func TestRulesAreHeardByAgents(t *testing.T) {
	n := newNetwork(t)
	for _, x := range []struct {
		i    *identity.Identity
		may  bool
		what string
	}{
		{n.identity(identity.User, "ann", roles.Admin), false, "an administrator"},
		{n.identity(identity.User, "bob", roles.User), false, "a sender"},
		{n.identity(identity.User, "mary", roles.Member), false, "a member"},
		{n.identity(identity.Agent, "ALPHA", roles.Agent), true, "an agent"},
	} {
		c := n.library(x.i)
		_, err := c.SubscribeSync(wire.Rules)
		must(t, err)
		must(t, c.Flush())
		if heard := c.LastError() == nil; heard != x.may {
			t.Errorf("%s hears the rules: %t, %v", x.what, heard, c.LastError())
		}
	}
}
