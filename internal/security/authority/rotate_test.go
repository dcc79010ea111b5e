package authority

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
)

// one issues an identity to an agent.
func (s *stage) one(name string) *identity.Identity {
	s.t.Helper()
	return s.enrolled(s.name(identity.Agent, name), roles.Agent)
}

func (s *stage) renewed(i *identity.Identity) {
	s.t.Helper()
	w, err := IdentityRequestOf(i.Keys())
	must(s.t, err)
	g, err := s.Renew(i.Name(), w)
	must(s.t, err)
	must(s.t, i.Renew(g))
}

// verifies reports whether one identity accepts the chain of another.
func (s *stage) verifies(i, shown *identity.Identity) bool {
	s.t.Helper()
	var chain []*x509.Certificate
	for _, raw := range shown.Certificate().Certificate {
		c, err := x509.ParseCertificate(raw)
		must(s.t, err)
		chain = append(chain, c)
	}
	name, err := i.Roots().Verify(chain, s.now)
	return err == nil && name == shown.Name()
}

// told gives an identity the authority's trust document.
func (s *stage) told(i *identity.Identity) {
	s.t.Helper()
	doc, err := s.Trust(trust.Keys)
	must(s.t, err)
	d, err := trust.Open(i.Trust(), s.Network(), doc)
	must(s.t, err)
	i.Trusting(d.Roots)
}

// Identities signed before a rotation, after it, and without any news of it accept each other, until the earlier
// signatures have expired.
func TestRotation(t *testing.T) {
	s := newStageAt(t, time.Now().Truncate(time.Second))
	away, here := s.one("AWAY"), s.one("HERE")
	first := s.Roots().Hash()
	s.told(here)
	if len(here.Soon()) > 0 || !here.Due().After(s.now) {
		t.Error("an identity is due where nothing has changed")
	}
	before, err := s.Claims()
	must(t, err)
	must(t, s.Rotate("ferry://x"))
	s.again()
	if r := s.Roots(); r.Hash() == first || !slices.Equal(r.Hashes()[1:], []string{first}) {
		t.Errorf("the roots are %v", r.Hashes())
	}
	if claims, err := s.Claims(); err != nil || claims.Account == before.Account {
		t.Errorf("queue managers are not told of new keys: %v", err)
	}

	s.told(here)
	if len(here.Soon()) != 1 || here.Due().After(s.now) {
		t.Error("an identity told of a rotation is not due")
	}
	s.renewed(here)
	if s.told(here); !here.Due().After(s.now) {
		t.Error("a renewed identity is due again")
	}
	fresh := s.one("FRESH")
	all := []*identity.Identity{away, here, fresh}
	agree := func() {
		t.Helper()
		for _, a := range all {
			for _, b := range all {
				if !s.verifies(a, b) {
					t.Errorf("%s does not take %s", a.Name(), b.Name())
				}
			}
		}
	}
	agree()
	if err := s.Rotate(""); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("a second rotation at once: %v", err)
	}

	s.now = s.now.Add(identity.Validity - time.Hour)
	agree()
	s.renewed(away) // at the last moment
	s.renewed(here)
	s.renewed(fresh)
	agree()
	if changed, err := s.RotateIfDue(); changed || err != nil {
		t.Errorf("the old keys are given up after 30 days: %v, %v", changed, err)
	}
	s.now = s.now.Add(finishAfter - identity.Validity + time.Hour)
	if changed, err := s.RotateIfDue(); !changed || err != nil {
		t.Errorf("the old keys are not given up: %v, %v", changed, err)
	}
	agree()
	if r := s.Roots(); len(r.Old) != 0 || len(r.Issuers) != 2 || slices.Contains(r.Hashes(), first) {
		t.Errorf("left are %v", r.Hashes())
	}
	s.again()
	s.renewed(here)
	agree()
	s.told(away)
	if slices.Contains(away.Roots().Hashes(), first) {
		t.Error("an identity told of the end of the old root trusts it")
	}
	for who, r := range map[string]*identity.Roots{"the authority": s.Roots(), "who is away": away.Roots(), "who was renewed": here.Roots(), "who is new": s.one("NEW").Roots()} {
		if ever := r.Ever().Hashes(); !slices.Contains(ever, first) || slices.Contains(r.Hashes(), first) {
			t.Errorf("%s holds old records against %v, and others against %v; the first was %s", who, ever, r.Hashes(), first)
		}
		again, err := identity.ReadRoots(r.PEM())
		if err != nil || !slices.Equal(again.Ever().Hashes(), r.Ever().Hashes()) || len(again.Old) != len(r.Old) {
			t.Errorf("%s: written and read they are others: %v", who, err)
		}
	}
	for _, file := range []string{fileRoot, fileManagers, fileOthers} {
		if _, err := s.Authority.dir.Read(file); err == nil {
			t.Errorf("%s of the old keys is still there", file)
		}
	}
}

// Once all identities have been renewed with the new keys the next rotation may begin.
func TestRotationsInARow(t *testing.T) {
	s := newStageAt(t, time.Now().Truncate(time.Second))
	alpha := s.one("ALPHA")
	gone := s.one("GONE")
	for n := range 3 {
		must(t, s.Rotate(""))
		s.renewed(alpha)
		s.now = s.now.Add(settleAfter)
		if err := s.Rotate(""); transfer.KindOf(err) != transfer.KindBusy {
			t.Fatalf("rotation %d, and another while an identity has not been renewed: %v", n, err)
		}
		s.renewed(alpha)
		if n == 0 {
			must(t, s.Revoke(gone.Name(), ""))
		}
	}
	s.again()
	if s.state.rotation.now != 4 || s.state.rotation.old != 3 {
		t.Errorf("the generations are %+v", s.state.rotation)
	}
}

// Issuers are replaced long before they expire, without any effect on members.
func TestRotationByItself(t *testing.T) {
	s := newStageAt(t, time.Now().Truncate(time.Second))
	first := s.Roots().Hash()
	if changed, err := s.RotateIfDue(); changed || err != nil {
		t.Errorf("a new authority rotates: %v, %v", changed, err)
	}
	s.now = s.now.Add(issuerValidity - rotateBefore + time.Hour)
	alpha := s.one("ALPHA")
	if changed, err := s.RotateIfDue(); !changed || err != nil {
		t.Errorf("the issuers are not replaced: %v, %v", changed, err)
	}
	if changed, err := s.RotateIfDue(); changed || err != nil {
		t.Errorf("they are replaced again: %v, %v", changed, err)
	}
	s.now = s.now.Add(finishAfter)
	s.renewed(alpha)
	if changed, err := s.RotateIfDue(); !changed || err != nil || slices.Contains(s.Roots().Hashes(), first) {
		t.Errorf("the old ones are not given up: %v, %v", changed, err)
	}
}

// A rotation that a crash interrupted before its record has not happened.
func TestRotationCutOff(t *testing.T) {
	s := newStageAt(t, time.Now().Truncate(time.Second))
	alpha := s.one("ALPHA")
	_, err := newGeneration(s.Authority.dir, s.Network(), 2, s.now, s.Authority.now)
	must(t, err)
	s.again()
	if r := s.Roots(); len(r.Old) != 0 || r.Hash() != alpha.Roots().Hash() {
		t.Errorf("the roots are %v", r.Hashes())
	}
	must(t, s.Rotate(""))
	s.again()
	s.renewed(alpha)
	if len(s.Roots().Old) != 1 || !s.verifies(alpha, s.one("BETA")) {
		t.Error("it does not rotate after that")
	}
}
