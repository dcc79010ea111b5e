package identity

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"ferry/internal/transfer"
)

// Organizational units of issuers. TLS between queue managers checks no more than the chain,
// so what others are given must not be of the chain that queue managers have.
const (
	UnitManagers = "queue managers"
	UnitOthers   = "agents and users"
)

// Roots are the certificates that a network's identities are held against: its root, which
// signs issuers, and those. Nothing of it is secret.
type Roots struct {
	Root    *x509.Certificate
	Issuers []*x509.Certificate
}

// maxCertificates bounds what is read as Roots or as somebody's chain.
const maxCertificates = 16

// ReadRoots reads the PEM of a root and its issuers, the root first. Its errors are of
// KindMalformed.
func ReadRoots(data []byte) (*Roots, error) {
	all, err := ReadCertificates(data)
	if err != nil {
		return nil, err
	}
	r := &Roots{Root: all[0], Issuers: all[1:]}
	if err := r.Root.CheckSignatureFrom(r.Root); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the first certificate is no root: %w", err)
	}
	for _, c := range r.Issuers {
		if _, ok := unit(c); !ok || !c.IsCA {
			return nil, transfer.Errorf(transfer.KindMalformed, "the certificate %q is no issuer of a network", c.Subject)
		}
		if err := c.CheckSignatureFrom(r.Root); err != nil {
			return nil, transfer.Errorf(transfer.KindMalformed, "the issuer %q is not the root's: %w", c.Subject, err)
		}
	}
	return r, nil
}

// ReadCertificates reads one certificate or several. Its errors are of KindMalformed.
func ReadCertificates(data []byte) (all []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" || len(all) == maxCertificates {
			return nil, transfer.Errorf(transfer.KindMalformed, "a %.40q stands among the certificates, or there are more than %d", block.Type, maxCertificates)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, transfer.Errorf(transfer.KindMalformed, "a certificate cannot be read: %w", err)
		}
		all = append(all, c)
	}
	if len(all) == 0 || len(bytes.TrimSpace(data)) > 0 {
		return nil, transfer.Errorf(transfer.KindMalformed, "these are no certificates in PEM")
	}
	return all, nil
}

// PEM writes certificates.
func PEM(all ...*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range all {
		pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // to memory
	}
	return b.Bytes()
}

// PEM writes what ReadRoots reads.
func (r *Roots) PEM() []byte { return PEM(append([]*x509.Certificate{r.Root}, r.Issuers...)...) }

// Hash is what a token has of the root: the SHA-256 of the certificate, in hexadecimal.
func (r *Roots) Hash() string {
	sum := sha256.Sum256(r.Root.Raw)
	return hex.EncodeToString(sum[:])
}

// Of are the issuers of a unit.
func (r *Roots) Of(name string) (of []*x509.Certificate) {
	for _, c := range r.Issuers {
		if u, _ := unit(c); u == name {
			of = append(of, c)
		}
	}
	return of
}

func unit(c *x509.Certificate) (string, bool) {
	u := c.Subject.OrganizationalUnit
	if len(u) != 1 || u[0] != UnitManagers && u[0] != UnitOthers {
		return "", false
	}
	return u[0], true
}

// Verify gives the name of whoever shows a chain: its own certificate first, which an issuer
// of this network has signed, and which is good now. What it shows beside it counts for
// nothing: the issuers are those of r.
func (r *Roots) Verify(chain []*x509.Certificate, now time.Time) (Name, error) {
	if len(chain) == 0 {
		return Name{}, errors.New("no certificate was shown")
	}

	roots, issuers := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(r.Root)
	for _, c := range r.Issuers {
		issuers.AddCert(c)
	}
	paths, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: issuers, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return Name{}, err
	}

	name, err := NameOf(chain[0])
	if err != nil {
		return Name{}, err
	}
	for _, path := range paths {
		if len(path) != 3 {
			return Name{}, fmt.Errorf("the certificate of %s is not signed by an issuer of the network", name)
		}
		if u, _ := unit(path[1]); (u == UnitManagers) != (name.Role == Manager) {
			return Name{}, fmt.Errorf("the certificate of %s was signed by the issuer of %s", name, u)
		}
	}
	return name, nil
}

// NameOf is the name in a certificate, whoever has signed it.
func NameOf(c *x509.Certificate) (Name, error) {
	if c.IsCA || len(c.URIs) != 1 || len(c.DNSNames)+len(c.EmailAddresses)+len(c.IPAddresses) > 0 {
		return Name{}, transfer.Errorf(transfer.KindMalformed, "a certificate does not name one identity")
	}
	return Parse(c.URIs[0].String())
}
