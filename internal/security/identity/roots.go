package identity

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"ferry/internal/transfer"
)

// Organizational units of issuers. TLS between queue managers checks only the chain. So certificates of other members
// must not have the issuer of queue managers.
const (
	UnitManagers = "queue managers"
	UnitOthers   = "agents and users"
)

// Roots are the certificates that verify a network's identities: its root, which signs issuers, and the issuers. While
// a network changes its root there are two roots. Certificates under the old one are valid until they expire. Roots
// have no secrets.
type Roots struct {
	Root    *x509.Certificate
	Issuers []*x509.Certificate // of all roots
	Old     []*x509.Certificate // roots that no longer sign
	// Former are roots that only verify data signed while they were in use: records of earlier years.
	Former []*x509.Certificate
}

// formerType is the type of the PEM blocks of Former. Other readers do not take such a block for a root.
const formerType = "FORMER CERTIFICATE"

// Ever returns the roots for the verification of old data, including the former ones.
func (r *Roots) Ever() *Roots {
	return &Roots{Root: r.Root, Issuers: r.Issuers, Old: slices.Concat(r.Old, r.Former)}
}

// maxCertificates bounds the number of certificates in Roots or in a chain.
const maxCertificates = 16

// ReadRoots reads the PEM of a root, old roots and their issuers, the root first. Its errors are of KindMalformed.
func ReadRoots(data []byte) (*Roots, error) {
	present, former, err := splitFormer(data)
	if err != nil {
		return nil, err
	}
	all, err := ReadCertificates(present)
	if err != nil {
		return nil, err
	}
	r := &Roots{Root: all[0], Former: former}
	if err := r.Root.CheckSignatureFrom(r.Root); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the first certificate is no root: %w", err)
	}
	for _, c := range all[1:] {
		_, issuer := unit(c)
		switch {
		case issuer && c.IsCA:
			r.Issuers = append(r.Issuers, c)
		case !issuer && c.CheckSignatureFrom(c) == nil:
			r.Old = append(r.Old, c)
		default:
			return nil, transfer.Errorf(transfer.KindMalformed, "the certificate %q is no issuer of a network", c.Subject)
		}
	}
	for _, c := range r.Issuers {
		if !slices.ContainsFunc(r.roots(), func(root *x509.Certificate) bool { return c.CheckSignatureFrom(root) == nil }) {
			return nil, transfer.Errorf(transfer.KindMalformed, "the issuer %q is not the root's", c.Subject)
		}
	}
	return r, nil
}

// splitFormer separates the blocks of Former, which must be at the end.
func splitFormer(data []byte) (present []byte, former []*x509.Certificate, err error) {
	at := bytes.Index(data, []byte("-----BEGIN "+formerType))
	if at < 0 {
		return data, nil, nil
	}
	present, data = data[:at], data[at:]
	for len(bytes.TrimSpace(data)) > 0 {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil || block.Type != formerType || len(former) == maxCertificates {
			return nil, nil, transfer.Errorf(transfer.KindMalformed, "something else stands among the former roots of a network, or there are more than %d", maxCertificates)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || c.CheckSignatureFrom(c) != nil {
			return nil, nil, transfer.Errorf(transfer.KindMalformed, "a former root of a network cannot be read, or is none")
		}
		former = append(former, c)
	}
	return present, former, nil
}

// roots returns all of them, the signing one first.
func (r *Roots) roots() []*x509.Certificate { return append([]*x509.Certificate{r.Root}, r.Old...) }

// ReadCertificates reads one or more certificates. Its errors are of KindMalformed.
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

// PEM encodes certificates.
func PEM(all ...*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range all {
		pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a write to memory
	}
	return b.Bytes()
}

// PEM encodes the roots for ReadRoots.
func (r *Roots) PEM() []byte {
	b := bytes.NewBuffer(PEM(slices.Concat(r.roots(), r.Issuers)...))
	for _, c := range r.Former {
		pem.Encode(b, &pem.Block{Type: formerType, Bytes: c.Raw}) // a write to memory
	}
	return b.Bytes()
}

// Hash returns the root's hash, as in tokens: the SHA-256 of the certificate, in hexadecimal.
func (r *Roots) Hash() string { return RootHash(r.Root) }

// Hashes returns the hashes of all roots, the signing one first.
func (r *Roots) Hashes() (all []string) {
	for _, c := range r.roots() {
		all = append(all, RootHash(c))
	}
	return all
}

// RootHash returns the name of a root: the SHA-256 of its certificate, in hexadecimal.
func RootHash(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// Only returns the roots with the old and former ones limited to those with one of the hashes.
func (r *Roots) Only(hashes []string) *Roots {
	of := func(all []*x509.Certificate) (left []*x509.Certificate) {
		for _, c := range all {
			if slices.Contains(hashes, RootHash(c)) {
				left = append(left, c)
			}
		}
		return left
	}
	return (&Roots{Root: r.Root, Issuers: r.Issuers, Old: of(r.Old), Former: of(r.Former)}).tidied()
}

// tidied removes the issuers of missing roots.
func (r *Roots) tidied() *Roots {
	var issuers []*x509.Certificate
	for _, c := range r.Issuers {
		if slices.ContainsFunc(r.roots(), func(root *x509.Certificate) bool { return c.CheckSignatureFrom(root) == nil }) {
			issuers = append(issuers, c)
		}
	}
	r.Issuers = issuers
	return r
}

// only returns the roots with the old ones that keep rejects turned into former ones.
func (r *Roots) only(keep func(hash string) bool) *Roots {
	left := &Roots{Root: r.Root, Issuers: r.Issuers, Former: slices.Clone(r.Former)}
	for _, c := range r.Old {
		if keep(RootHash(c)) {
			left.Old = append(left.Old, c)
		} else {
			left.Former = append(left.Former, c)
		}
	}
	return left.tidied()
}

// Of returns the issuers of a unit.
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

// maxShown is the most issuers of a chain that are examined: one, and the same as signed by the old root.
const maxShown = 4

// Verify returns the name of the owner of a chain. The chain begins with the owner's certificate, which an issuer of
// this network has signed, and which is valid now. The issuers are those of r, and those in the rest of the chain if a
// root of r has signed them. A peer that does not know a new root gets the issuers as signed by the old one.
func (r *Roots) Verify(chain []*x509.Certificate, now time.Time) (Name, error) {
	name, _, err := r.Path(chain, now)
	return name, err
}

// Path is Verify, and also returns the verified certificates: the first of the chain, its issuer, a root.
func (r *Roots) Path(chain []*x509.Certificate, now time.Time) (name Name, path []*x509.Certificate, err error) {
	if len(chain) == 0 {
		return Name{}, nil, errors.New("no certificate was shown")
	}

	roots, issuers := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range r.roots() {
		roots.AddCert(c)
	}
	for _, c := range slices.Concat(r.Issuers, chain[1:min(len(chain), 1+maxShown)]) {
		if _, issuer := unit(c); issuer && c.IsCA {
			issuers.AddCert(c)
		}
	}
	paths, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: issuers, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return Name{}, nil, err
	}

	if name, err = NameOf(chain[0]); err != nil {
		return Name{}, nil, err
	}
	for _, path := range paths {
		if len(path) != 3 {
			return Name{}, nil, fmt.Errorf("the certificate of %s is not signed by an issuer of the network", name)
		}
		if u, _ := unit(path[1]); (u == UnitManagers) != (name.Role == Manager) {
			return Name{}, nil, fmt.Errorf("the certificate of %s was signed by the issuer of %s", name, u)
		}
	}
	return name, paths[0], nil
}

// NameOf returns the name in a certificate, without any verification.
func NameOf(c *x509.Certificate) (Name, error) {
	if c.IsCA || len(c.URIs) != 1 || len(c.DNSNames)+len(c.EmailAddresses)+len(c.IPAddresses) > 0 {
		return Name{}, transfer.Errorf(transfer.KindMalformed, "a certificate does not name one identity")
	}
	return Parse(c.URIs[0].String())
}
