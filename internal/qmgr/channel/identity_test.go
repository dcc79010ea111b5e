package channel

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"ferry/internal/qmgr/claims"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
)

// A network is the claims of a network with identities, and the identity of a queue manager with JWTs that open nothing.
type network struct {
	signed roles.Claims
	parsed *claims.Admission
	self   *identity.Identity
}

// newNetwork makes a network with a queue manager TWO.
func newNetwork(t *testing.T) (n network) {
	t.Helper()
	keys, err := roles.NewKeys()
	must(t, err)
	n.signed, err = keys.Claims("aaaaaaaa", 1, nil)
	must(t, err)
	r, err := claims.Read(n.signed)
	must(t, err)
	n.parsed = &claims.Admission{Account: r.Account, Data: r.Data}

	now := time.Now()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		return k
	}
	sign := func(serial int64, c, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
		c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(serial), now.Add(-identity.Backdate), now.Add(identity.Validity)
		der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
		must(t, err)
		signed, err := x509.ParseCertificate(der)
		must(t, err)
		return signed
	}
	authority := func(name string, units ...string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: name, OrganizationalUnit: units}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	}
	rootKey, issuerKey, own := key(), key(), key()
	template := authority("root")
	root := sign(1, template, template, rootKey, rootKey)
	issuer := sign(2, authority("issuer", identity.UnitManagers), root, issuerKey, rootKey)
	uri, err := url.Parse(identity.Name{Network: "aaaaaaaa", Role: identity.Manager, Name: "TWO"}.String())
	must(t, err)
	cert := sign(3, &x509.Certificate{URIs: []*url.URL{uri}, KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true}, issuer, own, issuerKey)
	dir, err := keyfile.Make(filepath.Join(t.TempDir(), "identity"))
	must(t, err)
	n.self, err = identity.New(dir, identity.Keys{TLS: own, Seed: "seed"}, identity.Grant{Chain: identity.PEM(cert, issuer), Roots: identity.PEM(root, issuer), JWTs: identity.JWTs{User: "jwt", Channel: "jwt", ChannelData: "jwt"}, Trust: "key"})
	must(t, err)
	return n
}
