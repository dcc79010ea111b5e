package witness

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

const version = 1

// Bounds of a binding.
const (
	MaxBinding = 16 << 10 // bytes of JSON
	maxChain   = 4        // certificates
)

// A Binding names the key that signs for an identity in the audit log. It must be checked before its content counts.
type Binding struct {
	V         int           `json:"v"`
	Identity  identity.Name `json:"identity"`
	Key       []byte        `json:"key"`       // Ed25519
	Time      int64         `json:"time"`      // seconds since 1970
	Chain     [][]byte      `json:"chain"`     // certificates in DER: the identity's, then its issuer's
	Signature []byte        `json:"signature"` // with the certificate's key, over the lines in the package comment
}

// A Party is an identity with a checked binding.
type Party struct {
	Name   identity.Name
	ID     string // of the binding
	Issued string // identity.KeyHash of the certificate that signed it
	key    ed25519.PublicKey
}

// bind makes the binding of a key.
func bind(self *identity.Identity, key ed25519.PublicKey, now time.Time) (*Binding, error) {
	cert := self.Certificate()
	// A wrong clock must not make a binding that was never valid.
	if now.Before(cert.Leaf.NotBefore) {
		now = cert.Leaf.NotBefore
	}
	if now.After(cert.Leaf.NotAfter) {
		now = cert.Leaf.NotAfter
	}
	b := &Binding{V: version, Identity: self.Name(), Key: key, Time: now.Unix(), Chain: cert.Certificate}
	sum := sha256.Sum256(b.lines())
	var err error
	b.Signature, err = self.Key().Sign(rand.Reader, sum[:], cryptoSHA256)
	return b, err
}

// lines returns the signed text.
func (b *Binding) lines() []byte {
	return fmt.Appendf(nil, "ferry audit key v1\n%s\n%s\n%d\n", b.Identity, base64.StdEncoding.EncodeToString(b.Key), b.Time)
}

// ID returns the binding's name in a seal.
func (b *Binding) ID() string {
	sum := sha256.Sum256(b.lines())
	return hex.EncodeToString(sum[:16])
}

// Encode writes a binding as one line of JSON.
func (b *Binding) Encode() []byte {
	data, err := json.Marshal(b)
	if err != nil {
		panic("internal error: a binding that cannot be written: " + err.Error())
	}
	return data
}

// DecodeBinding reads a binding. The error is of KindMalformed.
func DecodeBinding(data []byte) (*Binding, error) {
	b := new(Binding)
	if len(data) > MaxBinding {
		return nil, transfer.Errorf(transfer.KindMalformed, "the binding of an audit key has %d bytes; the limit is %d", len(data), MaxBinding)
	}
	if err := json.Unmarshal(data, b); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the binding of an audit key cannot be read: %w", err)
	}
	return b, b.fits()
}

func (b *Binding) fits() error {
	if b.V != version || len(b.Key) != ed25519.PublicKeySize || len(b.Chain) == 0 || len(b.Chain) > maxChain || b.Identity.Check() != nil {
		return transfer.Errorf(transfer.KindMalformed, "the binding of an audit key is of another version, or out of its ranges")
	}
	return nil
}

// Check verifies a binding against a network's certificates: the certificate was valid at the binding's time, names the
// binding's identity, and has signed the binding. The error is of KindMalformed.
func (b *Binding) Check(roots *identity.Roots) (*Party, error) {
	bad := func(err error) error {
		return transfer.Errorf(transfer.KindMalformed, "the audit key of %s is not bound to it: %w", b.Identity, err)
	}
	if err := b.fits(); err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	for _, der := range b.Chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, bad(err)
		}
		chain = append(chain, c)
	}
	name, err := roots.Ever().Verify(chain, time.Unix(b.Time, 0))
	if err != nil {
		return nil, bad(err)
	}
	public, ok := chain[0].PublicKey.(*ecdsa.PublicKey)
	sum := sha256.Sum256(b.lines())
	switch {
	case name != b.Identity:
		return nil, bad(fmt.Errorf("the certificate is that of %s", name))
	case !ok || !ecdsa.VerifyASN1(public, sum[:], b.Signature):
		return nil, bad(fmt.Errorf("the certificate's key has not signed it"))
	}
	return &Party{Name: name, ID: b.ID(), Issued: identity.KeyHash(chain[0]), key: b.Key}, nil
}

// As returns the party of a role. It refuses a name with another role.
func (b *Binding) As(role identity.Role, roots *identity.Roots) (*Party, error) {
	p, err := b.Check(roots)
	if err == nil && p.Name.Role != role {
		return nil, transfer.Errorf(transfer.KindMalformed, "%s signs as %s", p.Name, role)
	}
	return p, err
}

// AsSealer returns a party that seals batches: an agent, or a user for pipes.
func (b *Binding) AsSealer(roots *identity.Roots) (*Party, error) {
	p, err := b.Check(roots)
	if err == nil && p.Name.Role != identity.Agent && p.Name.Role != identity.User {
		return nil, transfer.Errorf(transfer.KindMalformed, "%s seals no audit records", p.Name)
	}
	return p, err
}
