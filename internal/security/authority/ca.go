package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"time"

	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// Validity of the authority's own certificates. An issuer is replaced long before its root.
const (
	rootValidity   = 20 * 365 * 24 * time.Hour
	issuerValidity = 5 * 365 * 24 * time.Hour
)

// A signer is a certificate and its key.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newRoot makes the root of a network.
func newRoot(network string, now time.Time) (*signer, error) {
	return newSigner(&x509.Certificate{
		Subject:  pkix.Name{CommonName: "Ferry network " + network},
		NotAfter: now.Add(rootValidity), MaxPathLen: 1,
	}, now, nil)
}

// newIssuer makes one of the two issuers.
func newIssuer(network, unit string, now time.Time, root *signer) (*signer, error) {
	return newSigner(&x509.Certificate{
		Subject:  pkix.Name{CommonName: "Ferry network " + network + ", " + unit, OrganizationalUnit: []string{unit}},
		NotAfter: now.Add(issuerValidity), MaxPathLenZero: true,
	}, now, root)
}

// newSigner makes a key, and a certificate for it that may sign others. With a nil parent the certificate signs itself.
func newSigner(template *x509.Certificate, now time.Time, parent *signer) (*signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template.SerialNumber, template.NotBefore = serial(), now.Add(-identity.Backdate)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	by := signer{template, key}
	if parent != nil {
		by = *parent
	}
	cert, err := by.sign(template, key.Public())
	return &signer{cert, key}, err
}

func (s *signer) sign(template *x509.Certificate, public crypto.PublicKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, s.cert, public, s.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// issue signs the key of a name, with a validity that ends at until at the latest.
func (s *signer) issue(name identity.Name, public crypto.PublicKey, now, until time.Time) (*x509.Certificate, error) {
	uri, err := url.Parse(name.String())
	if err != nil {
		return nil, err
	}
	return s.sign(&x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: name.Token()},
		URIs:         []*url.URL{uri},
		NotBefore:    now.Add(-identity.Backdate),
		NotAfter:     earlier(until, s.cert.NotAfter),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},

		BasicConstraintsValid: true,
	}, public)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// serial returns a random number of 120 bits.
func serial() *big.Int {
	b := make([]byte, 15)
	rand.Read(b)
	return new(big.Int).SetBytes(b)
}

// write encodes certificate and key as one PEM.
func (s *signer) write() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		return nil, err
	}
	return append(identity.PEM(s.cert), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...), nil
}

// readSigner reads a signer in the form of write. Its errors contain nothing of the data.
func readSigner(data []byte) (*signer, error) {
	bad := transfer.Errorf(transfer.KindMalformed, "it is no certificate with its key")
	first, rest := pem.Decode(data)
	if first == nil {
		return nil, bad
	}
	second, _ := pem.Decode(rest)
	if second == nil || first.Type != "CERTIFICATE" || second.Type != "PRIVATE KEY" {
		return nil, bad
	}
	cert, err := x509.ParseCertificate(first.Bytes)
	if err != nil {
		return nil, bad
	}
	parsed, err := x509.ParsePKCS8PrivateKey(second.Bytes)
	if err != nil {
		return nil, bad
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, bad
	}
	return &signer{cert, key}, nil
}
