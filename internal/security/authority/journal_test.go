package authority

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/policy"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
)

// journal returns the size of the journal in bytes.
func (s *stage) journal() int64 {
	s.t.Helper()
	fi, err := os.Stat(filepath.Join(s.dir, fileActs))
	must(s.t, err)
	return fi.Size()
}

// until returns the end of the validity of a grant's certificate.
func until(t *testing.T, g identity.Grant) time.Time {
	t.Helper()
	block, _ := pem.Decode(g.Chain)
	c, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	return c.NotAfter
}

// TestRenewalsDoNotFillTheJournal: a member adds one act a day, in any way and however often it asks.
func TestRenewalsDoNotFillTheJournal(t *testing.T) {
	s := newStage(t)
	alpha := s.name(identity.Agent, "ALPHA")
	secret, err := s.NewToken(alpha, roles.Agent, 30*24*time.Hour, "")
	must(t, err)
	me, other := newJoiner(t), newJoiner(t)
	first, err := s.Enrol(secret, identity.Name{Role: identity.Agent}, me.wish)
	must(t, err)
	ask := func() {
		t.Helper()
		for range 100 {
			g, err := s.Renew(alpha, me.wish)
			if transfer.KindOf(err) == transfer.KindBusy {
				break
			}
			must(t, err)
			if got, record := until(t, g), s.state.names[alpha.String()].until; got.After(record) {
				t.Fatalf("a certificate is good until %s, and on record is %s", got, record)
			}
		}
		for range 3 {
			_, err := s.Enrol(secret, identity.Name{Role: identity.Agent}, me.wish)
			must(t, err)
			_, err = s.Issue(alpha, roles.Agent, me.wish, "")
			must(t, err)
		}
	}
	before := s.journal()
	for hour := range 23 {
		ask()
		if hour == 12 {
			s.again()
		}
		s.now = s.now.Add(time.Hour)
	}
	if grown := s.journal() - before; grown != 0 {
		t.Errorf("within a day the journal has grown by %d bytes", grown)
	}
	s.now = s.now.Add(2 * time.Hour)
	g, err := s.Renew(alpha, me.wish)
	must(t, err)
	if s.journal() == before || !until(t, g).After(until(t, first)) {
		t.Errorf("after a day a renewal is good until %s, as before, and is not on record", until(t, g))
	}

	before = s.journal()
	for range 10 {
		for range 20 {
			if _, err := s.Renew(alpha, other.wish); err == nil {
				t.Fatal("other keys are renewed")
			}
			if _, err := s.Renew(s.name(identity.Manager, "NONE"), other.wish); transfer.KindOf(err) != transfer.KindDenied {
				t.Fatalf("a name that has nothing is renewed: %v", err)
			}
		}
		s.now = s.now.Add(2 * time.Hour)
	}
	if grown := s.journal() - before; grown > 1000 || grown == 0 {
		t.Errorf("200 refusals within a day have %d bytes in the journal", grown)
	}
}

// TestARenewalAfterARotationIsOnRecord: a grant signed by the old keys is not repeated.
func TestARenewalAfterARotationIsOnRecord(t *testing.T) {
	s := newStage(t)
	alpha, me := s.name(identity.Agent, "ALPHA"), newJoiner(t)
	_, err := s.Issue(alpha, roles.Agent, me.wish, "")
	must(t, err)
	s.now = s.now.Add(time.Hour)
	must(t, s.Rotate(""))
	for _, later := range []time.Duration{time.Hour, settleAfter - time.Hour, time.Hour} {
		s.now = s.now.Add(later)
		before := s.journal()
		_, err = s.Renew(alpha, me.wish)
		must(t, err)
		if s.journal() == before {
			t.Errorf("a renewal %s after the rotation is not on record", s.now.Sub(s.state.rotation.at))
		}
	}
}

// TestRevokedKeysAreNotGivenAgain: after a revocation a renewal does not repeat the grant.
func TestRevokedKeysAreNotGivenAgain(t *testing.T) {
	s := newStage(t)
	alpha, me := s.name(identity.Agent, "ALPHA"), newJoiner(t)
	_, err := s.Issue(alpha, roles.Agent, me.wish, "")
	must(t, err)
	_, err = s.Renew(alpha, me.wish)
	must(t, err)
	must(t, s.Revoke(alpha, ""))
	if _, err := s.Renew(alpha, me.wish); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a revoked identity is renewed: %v", err)
	}
	if _, err := s.Issue(alpha, roles.Agent, me.wish, ""); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("revoked keys are enrolled: %v", err)
	}
}

// TestAStartDropsRenewals: the journal does not keep each renewal for ever, and a start without them restores the same
// state.
func TestAStartDropsRenewals(t *testing.T) {
	s := newStage(t)
	me := map[identity.Name]*joiner{}
	for n := range 4 {
		name := s.name(identity.Agent, fmt.Sprint("A", n))
		me[name] = newJoiner(t)
		_, err := s.Issue(name, roles.Agent, me[name].wish, "")
		must(t, err)
	}
	ahead := s.name(identity.Agent, "A0") // issued while the clock was ahead
	for day := range 100 {
		s.now = s.now.Add(25 * time.Hour)
		if day == 97 {
			s.now = s.now.Add(20 * 24 * time.Hour)
			_, err := s.Renew(ahead, me[ahead].wish)
			must(t, err)
			s.now = s.now.Add(-20 * 24 * time.Hour)
		}
		for name, j := range me {
			_, err := s.Renew(name, j.wish)
			must(t, err)
		}
	}
	must(t, s.Revoke(s.name(identity.Agent, "A3"), ""))
	before, state := s.journal(), fmt.Sprintf("%+v", s.Identities())
	number := s.state.claims
	s.again()
	if after := s.journal(); before < compactFrom || after > before/5 {
		t.Errorf("the journal had %d bytes, and has %d after a start", before, after)
	}
	if now := fmt.Sprintf("%+v", s.Identities()); now != state || s.state.claims != number {
		t.Errorf("after the start the authority knows\n%s, and before it knew\n%s", now, state)
	}
	kept := s.journal()
	s.again()
	if s.journal() != kept {
		t.Error("a second start changes the journal again")
	}
	for name, j := range me {
		_, err := s.Renew(name, j.wish)
		if gone := name.Name == "A3"; gone != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheRulesDocumentHasRoom: users are refused before the document that lists them is too large to sign.
func TestTheRulesDocumentHasRoom(t *testing.T) {
	s := newStage(t)
	_, err := s.Issue(s.name(identity.User, "first"), roles.User, newJoiner(t).wish, "")
	must(t, err)
	for n := range (maxListed - reenrolledRoom) / len(`"user-0000":"sender",`) {
		uri := s.name(identity.User, fmt.Sprintf("user-%04d", n)).String()
		s.state.names[uri] = &issued{role: roles.User, keys: Keys{uri, uri}, at: s.now, until: s.now.Add(time.Hour)}
	}
	if _, err := s.Issue(s.name(identity.User, "one-more"), roles.Member, newJoiner(t).wish, ""); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("%d users are listed, and one more: %v", len(s.users(s.now)), err)
	}
	s.enrolled(s.name(identity.Agent, "ALPHA"), roles.Agent)
	s.enrolled(s.name(identity.User, "first"), roles.Member) // is listed already
	s.policy = []byte(`"` + strings.Repeat("p", policy.MaxSize-2) + `"`)
	for n := range trust.MaxRevoked - 1 {
		s.state.revoked[Keys{fmt.Sprintf("%064x", n), fmt.Sprint(n)}] = s.now.Add(time.Hour)
	}
	if doc, err := s.Trust(trust.Rules); err != nil {
		t.Errorf("the largest document of %d bytes: %v", len(doc), err)
	}
}
