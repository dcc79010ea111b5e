package authority

import (
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
)

// A state is the result of the acts.
type state struct {
	tokens  map[string]*token  // by the hash of the secret
	names   map[string]*issued // by URI
	revoked map[Keys]time.Time // end of the validity of everything signed for the keys
	owner   map[string]string  // the name of each public key that was signed
	asked   map[transfer.ID]time.Time
	signed  signed
	policy  string // the hash of the rules

	rotation rotation
	claims   uint64 // number of the claims for queue managers; it grows with each change
}

// ofUser reports whether a role is a role of users.
func ofUser(r roles.Role) bool {
	switch r {
	case roles.Admin, roles.Operator, roles.Auditor, roles.User, roles.Member:
		return true
	}
	return false
}

// signed is the last trust document.
type signed struct {
	number uint64
	at     time.Time
	stale  bool // its content has changed since, or there is none
}

// A token is valid for one name, once, or again with the same keys.
type token struct {
	name         string
	role         roles.Role
	until        time.Time
	by           string    // the member that made it, as a URI; empty: the authority's host
	maker        Keys      // of by, at the time of the token
	keys         Keys      // keys that used it; zero: unused
	refusalNoted time.Time // time of the last recorded refusal
}

// An issued has the keys of a name. They are valid unless they are revoked.
type issued struct {
	role  roles.Role
	keys  Keys
	at    time.Time
	until time.Time // the latest end of validity ever signed for these keys
	token string    // of the last enrolment
	// replaced says that the name had other keys before.
	replaced     bool
	by           string    // the member that enrolled these keys, as a URI; empty: the authority's host
	refusalNoted time.Time // time of the last recorded refusal of a renewal
}

// take applies an act of the journal.
func (s *state) take(a *Act) {
	if s.tokens == nil {
		s.signed.stale = true
		s.tokens, s.names, s.revoked, s.owner = map[string]*token{}, map[string]*issued{}, map[Keys]time.Time{}, map[string]string{}
		s.asked = map[transfer.ID]time.Time{}
	}
	switch a.Act {
	case actRotated:
		s.rotation = rotation{now: int(a.Number), old: s.rotation.number(), at: a.Time}
		s.change(a)
	case actFinished:
		s.rotation.old = 0
		s.change(a)
	case actToken:
		t := &token{name: a.Name, role: a.Role, until: a.Until, by: a.By}
		if maker := s.names[a.By]; maker != nil {
			t.maker = maker.keys
		}
		s.tokens[a.Token] = t
	case actDropped:
		delete(s.tokens, a.Token)
	case actEnrolled, actRenewed:
		by := a.By
		if t := s.tokens[a.Token]; t != nil {
			t.keys, by = a.Keys, t.by
		}
		n := s.names[a.Name]
		if n == nil && ofUser(a.Role) || n != nil && (n.role != a.Role || n.keys != a.Keys) {
			s.signed.stale = true // the document lists the roles of users
		}
		replaced := n != nil && (n.replaced || n.keys != a.Keys)
		if n != nil && n.keys != a.Keys {
			s.revoke(n) // a name has one pair of keys
			s.change(a)
			n = nil
		}
		if n == nil {
			n = &issued{replaced: replaced}
			s.names[a.Name] = n
		}
		n.role, n.keys, n.at = a.Role, a.Keys, a.Time
		if a.Until.After(n.until) { // a clock may go back, but a signed validity stays
			n.until = a.Until
		}
		if a.Act == actEnrolled {
			n.token, n.by = a.Token, by
		}
		s.owner[a.TLS], s.owner[a.Nkey] = a.Name, a.Name
	case actRevoked:
		if n := s.names[a.Name]; n != nil {
			s.revoke(n)
			s.change(a)
		}
	case actRefused:
		if t := s.tokens[a.Token]; t != nil {
			t.refusalNoted = a.Time
		} else if n := s.names[a.Name]; n != nil {
			n.refusalNoted = a.Time
		}
	case actAsked:
		if a.Author != nil {
			s.asked[a.Author.ID] = a.Time
		}
	case actPolicy:
		s.policy, s.signed.stale = a.Token, true
	case actSigned:
		s.signed = signed{number: a.Number, at: a.Time}
	}
}

func (s *state) revoke(n *issued) { s.revoked[n.keys] = n.until }

// change causes new trust documents and claims. The number follows the clock, so that it also grows after an older
// journal was restored.
func (s *state) change(a *Act) {
	s.signed.stale = true
	s.claims = max(s.claims+1, uint64(max(a.Time.Unix(), 0)))
}

// grace is how long keys are listed beyond the end of their certificates' validity: the clocks of the readers may be
// behind.
const grace = 48 * time.Hour

// revokedKeysListed is how long revoked keys are listed beyond that end. Requests and commands signed by them may be valid for 15
// days (package word).
const revokedKeysListed = grace + 15*24*time.Hour

// revocations returns the revoked keys for queue managers. Keys are never valid again, so everything ever signed for
// them is invalid. Expired ones need no entry.
func (s *state) revocations(now time.Time) (all []roles.Revocation) {
	for k, until := range s.revoked {
		if now.Before(until.Add(revokedKeysListed)) {
			all = append(all, roles.Revocation{Key: k.Nkey, Until: until})
		}
	}
	return all
}

// unused returns the number of tokens that may still be used.
func (s *state) unused(now time.Time) (n int) {
	for _, t := range s.tokens {
		if t.keys == (Keys{}) && now.Before(t.until) {
			n++
		}
	}
	return n
}

// taken reports whether one of two keys was signed for another name, or beside another key. The request proves that its
// sender has the key of the certificate, but not the nkey.
func (s *state) taken(name string, keys Keys) bool {
	tls, nkey := s.owner[keys.TLS], s.owner[keys.Nkey]
	return tls != nkey || tls != "" && tls != name
}

// isRevoked reports whether keys, or one of them, were revoked.
func (s *state) isRevoked(keys Keys) bool {
	for k := range s.revoked {
		if k.TLS == keys.TLS || k.Nkey == keys.Nkey {
			return true
		}
	}
	return false
}

// A rotation is the state of the authority's rotation.
type rotation struct {
	now int // the generation that signs; 0: the first
	old int // the previous one, perhaps still in use; 0: none
	at  time.Time
}

func (r rotation) number() int { return max(r.now, 1) }

// unrenewed returns the number of valid identities that were issued before the new keys signed everything. It ignores
// the authority's own identity, which the authority renews itself.
func (s *state) unrenewed(now time.Time) (n int) {
	settled := s.rotation.at.Add(settleAfter)
	for _, has := range s.names {
		if has.role != roles.Authority && has.at.Before(settled) && now.Before(has.until) && !s.isRevoked(has.keys) {
			n++
		}
	}
	return n
}
