package authority

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// A token presented with another name, or as another kind of identity, is refused with an explanation and stays valid,
// also over a restart of the authority. One line an hour is recorded.
func TestATokenWithAnotherNameStaysGood(t *testing.T) {
	s := newStage(t)
	alpha, alice := s.name(identity.Agent, "ALPHA"), s.name(identity.User, "alice")
	agent, err := s.NewToken(alpha, roles.Agent, 2*time.Hour, "")
	must(t, err)
	user, err := s.NewToken(alice, roles.User, 2*time.Hour, "")
	must(t, err)
	refused := func() int {
		b, err := os.ReadFile(filepath.Join(s.dir, fileActs))
		must(t, err)
		return strings.Count(string(b), `"refused"`)
	}
	s.enrolled(alpha, roles.Agent) // with keys that end when the token is used
	other := newJoiner(t)
	if name, ok := s.Replaces(agent, alpha, other.wish); !ok || name != alpha {
		t.Errorf("the token replaces the keys of %v, %v", name, ok)
	}
	for _, c := range []struct {
		secret string
		as     identity.Name
		is     identity.Name
	}{
		{agent, s.name(identity.Agent, "BETA"), alpha},
		{agent, s.name(identity.Agent, "alpha"), alpha},
		{agent, identity.Name{Role: identity.User}, alpha},
		{agent, s.name(identity.Manager, "ALPHA"), alpha},
		{agent, identity.Name{}, alpha},
		{user, s.name(identity.User, "bob"), alice},
		{user, identity.Name{Role: identity.Agent}, alice},
	} {
		if _, ok := s.Replaces(c.secret, c.as, other.wish); ok {
			t.Errorf("%v replaces the keys of %s", c.as, c.is)
		}
		g, err := s.Enrol(c.secret, c.as, other.wish)
		if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), c.is.String()) || g.JWTs.User != "" {
			t.Errorf("a token of %s for %v: %+v, %v", c.is, c.as, g, err)
		}
	}
	if n := refused(); n != 2 { // one for each token
		t.Errorf("%d refusals are on record", n)
	}
	if n := len(s.Tokens()); n != 2 {
		t.Errorf("%d tokens are open", n)
	}
	s.again()
	s.now = s.now.Add(time.Hour)
	if _, err := s.Enrol(agent, s.name(identity.Agent, "BETA"), other.wish); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("an hour later: %v", err)
	}
	if n := refused(); n != 3 {
		t.Errorf("%d refusals are on record an hour later", n)
	}
	for secret, as := range map[string]identity.Name{agent: alpha, user: {Role: identity.User}} {
		if _, err := s.Enrol(secret, as, newJoiner(t).wish); err != nil {
			t.Errorf("its own name, %v: %v", as, err)
		}
	}
}

// A joiner may ask that its token change no role: a token that would is refused and stays good, until the name's identity is
// revoked.
func TestATokenForAnotherRoleStaysGood(t *testing.T) {
	s := newStage(t)
	alice := s.name(identity.User, "alice")
	s.enrolled(alice, roles.Admin)
	secret, err := s.NewToken(alice, roles.User, time.Hour, "")
	must(t, err)
	careful := newJoiner(t).wish
	careful.SameRole = true
	g, err := s.Enrol(secret, alice, careful)
	if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), "the role sender") || !strings.Contains(err.Error(), "the role admin") || g.JWTs.User != "" {
		t.Errorf("a token that makes an admin a sender: %+v, %v", g, err)
	}
	if s.Role(alice) != roles.Admin || len(s.Tokens()) != 1 {
		t.Errorf("alice is %s, and %d tokens are open", s.Role(alice), len(s.Tokens()))
	}
	same, err := s.NewToken(alice, roles.Admin, time.Hour, "")
	must(t, err)
	again := newJoiner(t).wish
	again.SameRole = true
	if _, err := s.Enrol(same, alice, again); err != nil {
		t.Errorf("a token for the same role: %v", err)
	}
	must(t, s.Revoke(alice, ""))
	if _, err := s.Enrol(secret, alice, careful); err != nil {
		t.Errorf("a token for a revoked name: %v", err)
	}
}
