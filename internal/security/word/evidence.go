package word

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"ferry/internal/security/identity"
)

// Evidence has the body of a signed message and the author's certificates. With the Author it proves that the author has
// signed the body, to a reader that has only the network's root certificates.
type Evidence struct {
	Body  []byte   `json:"body"`
	Chain [][]byte `json:"chain"` // certificates in DER, the author's first
}

// EvidenceOf returns the evidence of a word that a Checker has checked. issuers are those of the network now: a later
// reader may have others.
func EvidenceOf(w *Word, body []byte, issuers []*x509.Certificate) *Evidence {
	e := &Evidence{Body: body, Chain: w.Chain}
	if len(e.Chain) == 1 {
		for _, c := range issuers[:min(len(issuers), maxChain-1)] {
			e.Chain = append(e.Chain[:len(e.Chain):len(e.Chain)], c.Raw)
		}
	}
	return e
}

// Check returns nil if the author has signed the body of the evidence. Its certificate must be one of the roots' network.
// Without roots the certificate need only have the author's name.
func (a *Author) Check(e *Evidence, roots *identity.Roots) error {
	if e == nil || len(e.Chain) == 0 || len(e.Chain) > maxChain {
		return errors.New("the certificate of its author is missing")
	}
	var chain []*x509.Certificate
	for _, der := range e.Chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		chain = append(chain, c)
	}
	name, err := identity.NameOf(chain[0])
	if roots != nil {
		name, err = roots.Ever().Verify(chain, time.UnixMilli(a.Made))
	}
	public, ok := chain[0].PublicKey.(*ecdsa.PublicKey)
	switch {
	case err != nil:
		return fmt.Errorf("the certificate does not prove %s: %w", a.By, err)
	case name != a.By || !ok || identity.KeyHash(chain[0]) != a.Key:
		return fmt.Errorf("the certificate is that of %s, or has another key", name)
	case !a.SignedWith(public):
		return fmt.Errorf("the signature is not that of %s", a.By)
	case len(e.Body) != a.Size || sumOf(e.Body) != a.Sum:
		return fmt.Errorf("%s has signed another message", a.By)
	}
	return nil
}
