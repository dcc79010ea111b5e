package word

import (
	"fmt"
	"time"

	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// A Checker checks words that are addressed to a name. It is safe for concurrent use.
type Checker struct {
	to      identity.Name
	leaf    func(chain [][]byte, at time.Time) (*identity.Leaf, error)
	revoked func(key string) bool // by its identity.KeyHash
	may     func(by, principal identity.Name) error
}

// NewChecker makes the Checker of an addressee in the network of an identity, which knows the certificates. The addressee may have another name than
// the identity: the agent of a command's standard input has that of its user.
func NewChecker(self *identity.Identity, role identity.Role, name string) *Checker {
	return &Checker{to: identity.Name{Network: self.Name().Network, Role: role, Name: name}, leaf: self.Leaf, revoked: self.Revoked}
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
	case l.Name != w.By:
		return denied("the certificate is that of %s, and not of %s", l.Name, w.By)
	case c.revoked(l.Key):
		return denied("the identity of %s was revoked", w.By)
	}
	a := &Author{Statement: w.Statement, Size: len(body), Sum: sumOf(body), Key: l.Key, Signature: w.Signature}
	if !a.SignedWith(l.Public) {
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
