package word

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"ferry/internal/identity"
	"ferry/internal/transfer"
)

// A Checker checks words that are addressed to a name. It is safe for concurrent use.
type Checker struct {
	to      identity.Name
	roots   func() *identity.Roots
	revoked func(key string) bool // by its identity.KeyHash
	may     func(by, principal identity.Name) error
	known   leaves
}

// NewChecker makes the Checker of an addressee in the network of an identity, which knows the certificates. The addressee may have another name than
// the identity: the agent of a command's standard input has that of its user.
func NewChecker(self *identity.Identity, role identity.Role, name string) *Checker {
	return &Checker{to: identity.Name{Network: self.Name().Network, Role: role, Name: name}, roots: self.Roots, revoked: self.Revoked}
}

// Delegate has the Checker ask may if an author may speak for another user. Without it no author may. Delegate is called
// before the Checker is used.
func (c *Checker) Delegate(may func(by, principal identity.Name) error) { c.may = may }

// Check gives the author of a body. The message says that the word is of a kind and has an ID; the subject says that
// its author is speaker. w is nil for a message that is not signed.
//
// The errors are of KindDenied where the author is not proved, of KindMalformed where word and message
// differ, and of KindClock where the word is not good at this time.
func (c *Checker) Check(w *Word, body []byte, kind Kind, id transfer.ID, speaker string, now time.Time) (*Author, error) {
	if w == nil {
		return nil, transfer.Errorf(transfer.KindDenied, "the %s is not signed by its author, as the network %s demands", kind.noun(), c.to.Network).
			WithHint("give it with a ferry command that has an identity of the network")
	}

	denied := func(format string, args ...any) (*Author, error) {
		return nil, transfer.Errorf(transfer.KindDenied, "the %s is not taken: %w", kind.noun(), fmt.Errorf(format, args...))
	}
	switch {
	case w.To != c.to:
		return denied("it is addressed to %s, and this is %s", w.To, c.to)
	case w.Kind != kind || w.ID != id:
		return nil, transfer.Errorf(transfer.KindMalformed, "the %s %s is signed as the %s %s", kind.noun(), id, w.Kind.noun(), w.ID)
	case w.By.Network != c.to.Network || w.By.Token() != speaker:
		return denied("%s has signed it, and %s speaks", w.By, speaker)
	case w.For != (identity.Name{}) && (c.may == nil || w.For.Network != c.to.Network || w.For.Role != identity.User || w.By.Role != identity.User):
		return denied("%s speaks for %s, and no rule can allow it here", w.By, w.For)
	}

	made, until := time.UnixMilli(w.Made), time.UnixMilli(w.Until)
	if made.After(now.Add(Ahead)) {
		return nil, transfer.Errorf(transfer.KindClock, "the %s was signed at %s, ahead of the clock of %s (%s)", kind.noun(), stamp(made), c.to, stamp(now)).
			WithHint("set your clock right and give it again")
	}
	if now.After(until) {
		return nil, transfer.Errorf(transfer.KindClock, "the %s was good until %s, and the clock of %s says %s", kind.noun(), stamp(until), c.to, stamp(now)).
			WithHint("set your clock right and give it again")
	}

	l, err := c.leaf(w.Chain, made)
	switch {
	case err != nil:
		return denied("the certificate of %s does not prove it: %w", w.By, err)
	case l.name != w.By:
		return denied("the certificate is that of %s, and not of %s", l.name, w.By)
	case c.revoked(identity.KeyHash(l.cert)):
		return denied("the identity of %s was revoked", w.By)
	}
	a := &Author{Statement: w.Statement, Size: len(body), Sum: sumOf(body), Key: identity.KeyHash(l.cert), Signature: w.Signature}
	if !a.Holds(l.key) {
		return denied("the signature is not that of %s over this message", w.By)
	}
	if w.For != (identity.Name{}) {
		if err := c.may(w.By, w.For); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// A leaf is a certificate that was verified.
type leaf struct {
	name identity.Name
	cert *x509.Certificate
	key  *ecdsa.PublicKey

	from, until time.Time // its path is good
}

// leaf verifies a chain at a time, or finds that it was verified under the same roots.
func (c *Checker) leaf(chain [][]byte, at time.Time) (*leaf, error) {
	roots := c.roots()
	h := sha256.New()
	for _, der := range chain {
		fmt.Fprintf(h, "%d\n", len(der))
		h.Write(der)
	}
	for _, root := range roots.Hashes() {
		fmt.Fprintf(h, "%s\n", root)
	}
	id := [sha256.Size]byte(h.Sum(nil))
	if l := c.known.get(id); l != nil && !at.Before(l.from) && !at.After(l.until) {
		return l, nil
	}

	var certs []*x509.Certificate
	for _, der := range chain {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		certs = append(certs, cert)
	}
	name, path, err := roots.Path(certs, at)
	if err != nil {
		return nil, err
	}
	key, ok := certs[0].PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("it has a key of another kind")
	}
	l := &leaf{name: name, cert: certs[0], key: key, from: path[0].NotBefore, until: path[0].NotAfter}
	for _, cert := range path[1:] {
		if cert.NotBefore.After(l.from) {
			l.from = cert.NotBefore
		}
		if cert.NotAfter.Before(l.until) {
			l.until = cert.NotAfter
		}
	}
	c.known.put(id, l)
	return l, nil
}

// maxLeaves bounds the certificates that a Checker remembers, about 1 KiB each.
const maxLeaves = 1024

// The leaves that were verified, in two halves: those that were used since the younger half was begun, and those before.
type leaves struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]*leaf
}

func (l *leaves) get(id [sha256.Size]byte) *leaf {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.young[id]; found != nil {
		return found
	}
	found := l.old[id]
	if found != nil {
		l.keep(id, found)
	}
	return found
}

func (l *leaves) put(id [sha256.Size]byte, v *leaf) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep(id, v)
}

// keep is called with the lock held.
func (l *leaves) keep(id [sha256.Size]byte, v *leaf) {
	if l.young == nil || len(l.young) >= maxLeaves/2 {
		l.young, l.old = map[[sha256.Size]byte]*leaf{}, l.young
	}
	l.young[id] = v
}
