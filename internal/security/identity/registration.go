package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"time"

	"ferry/internal/transfer"
)

// A Registration is the registration of an identity: its signed statement that it is at a queue manager. An agent, a user or a
// service is at the queue manager that it is connected to. A queue manager is at each other queue manager that a
// channel or a cluster joins to it. A queue manager on the way passes a Registration on and cannot make one. CheckRegistration must
// check a Registration before its use.
type Registration struct {
	V       int      `json:"v"`
	Who     Name     `json:"who"`
	At      string   `json:"at"`                // the name of a queue manager
	Left    string   `json:"left,omitempty"`    // the queue manager that the identity has left
	Made    int64    `json:"made"`              // milliseconds since 1970; the later one of two Registrations of an identity counts
	Cluster string   `json:"cluster,omitempty"` // of a queue manager: the name of its cluster
	Member  bool     `json:"member,omitempty"`  // of a queue manager: At is another member of that cluster
	JWT     string   `json:"jwt,omitempty"`     // of a user: its role
	Chain   [][]byte `json:"chain"`             // certificates in DER: the identity's, then those that others may not know
	Sig     []byte   `json:"sig"`               // with the certificate's key, over lines
}

const (
	registrationVersion = 1
	maxChain            = 4
	// maxCluster bounds the name of a cluster in a Registration, in bytes.
	maxCluster = 256
)

// lines returns the signed text.
func (p *Registration) lines() []byte {
	return fmt.Appendf(nil, "ferry place v1\n%s\n%s\n%s\n%d\n%s\n%t\n%x\n", p.Who, p.At, p.Left, p.Made, p.Cluster, p.Member, sha256.Sum256([]byte(p.JWT)))
}

func (p *Registration) check() error {
	managers := []string{p.At}
	if p.Left != "" {
		managers = append(managers, p.Left)
	}
	bad := p.V != registrationVersion || p.Who.Check() != nil || p.Made <= 0 || len(p.Chain) == 0 || len(p.Chain) > maxChain || len(p.Cluster) > maxCluster ||
		(p.Cluster != "" || p.Member) && p.Who.Role != Manager || p.Member && p.Cluster == "" || p.JWT != "" && p.Who.Role != User
	for _, name := range managers {
		bad = bad || (Name{Network: p.Who.Network, Role: Manager, Name: name}).Check() != nil
	}
	for _, c := range p.Cluster {
		bad = bad || c < ' '
	}
	if bad {
		return transfer.Errorf(transfer.KindMalformed, "the registration of %s is of another version, or out of its ranges", p.Who)
	}
	return nil
}

// SignRegistration signs a Registration of this identity.
func (i *Identity) SignRegistration(p Registration) (*Registration, error) {
	now := i.now.Load()
	p.V, p.Who = registrationVersion, now.name
	p.Chain = now.cert.Certificate[:1]
	if len(now.cert.Certificate) > 2 { // a root is being replaced, and a reader may only know the old one
		p.Chain = now.cert.Certificate
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(p.lines())
	var err error
	p.Sig, err = i.keys.TLS.Sign(rand.Reader, sum[:], crypto.SHA256)
	return &p, err
}

// CheckRegistration verifies that the named identity has signed a Registration. The certificate must have been valid when the Registration
// was made, and must not be revoked. CheckRegistration returns the KeyHash of the certificate. The error is of KindMalformed
// or KindDenied.
func (i *Identity) CheckRegistration(p *Registration) (key string, err error) {
	if err := p.check(); err != nil {
		return "", err
	}
	known, err := i.proves(p)
	if err != nil {
		return "", transfer.Errorf(transfer.KindDenied, "the registration of %s is not signed by it: %w", p.Who, err)
	}
	sum := sha256.Sum256(p.lines())
	if !ecdsa.VerifyASN1(known.Public, sum[:], p.Sig) {
		return "", transfer.Errorf(transfer.KindDenied, "the registration of %s is not signed by it", p.Who)
	}
	return known.Key, nil
}

// registrationSlack is the clock error that CheckRegistration allows between the time of a Registration and the validity of a certificate.
const registrationSlack = time.Hour

// proves returns the verified certificate of a Registration.
func (i *Identity) proves(p *Registration) (*Leaf, error) {
	leaf, err := i.leaves.Verify(i.Roots(), p.Chain, time.UnixMilli(p.Made), registrationSlack)
	switch {
	case err != nil:
		return nil, err
	case leaf.Name != p.Who:
		return nil, fmt.Errorf("the certificate is that of %s", leaf.Name)
	case i.Revoked(leaf.Key):
		return nil, fmt.Errorf("its certificate was revoked")
	}
	return leaf, nil
}
