package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// An IdentityRequest is a request for an identity: a certificate request, which proves that its sender has the key, and the public
// nkey.
type IdentityRequest struct {
	CSR  []byte `json:"csr"` // DER, PKCS #10
	Nkey string `json:"nkey"`

	// SameRole refuses a token that would give a name with a valid identity another role than it has.
	SameRole bool `json:"same_role,omitempty"`
}

// NewIdentityRequest returns the request for an identity in a directory, with its keys. It makes the keys if there are none.
func NewIdentityRequest(dir *keyfile.Dir) (identity.Keys, IdentityRequest, error) {
	keys, err := identity.NewKeys(dir, func() (string, error) {
		seed, _, err := roles.NewUserKey()
		return seed, err
	})
	if err != nil {
		return keys, IdentityRequest{}, err
	}
	w, err := IdentityRequestOf(keys)
	return keys, w, err
}

// IdentityRequestOf returns the request for keys.
func IdentityRequestOf(keys identity.Keys) (w IdentityRequest, err error) {
	if w.Nkey, err = roles.PublicKey(keys.Seed); err != nil {
		return w, err
	}
	w.CSR, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, keys.TLS)
	return w, err
}

// read checks a request.
func (w IdentityRequest) read() (*x509.CertificateRequest, Keys, error) {
	csr, err := x509.ParseCertificateRequest(w.CSR)
	if err != nil {
		return nil, Keys{}, transfer.Errorf(transfer.KindMalformed, "the request for a certificate cannot be read: %w", err)
	}
	if !roles.IsPublicKey(w.Nkey) {
		return nil, Keys{}, transfer.Errorf(transfer.KindMalformed, "the nkey is no public key of a user")
	}
	// The kind of key is checked before the signature: a check with a large RSA key takes minutes. The request's own
	// bytes of the key could differ from those of the certificate.
	key, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, Keys{}, transfer.Errorf(transfer.KindMalformed, "the key of the request is not ECDSA on P-256")
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, Keys{}, transfer.Errorf(transfer.KindMalformed, "the request for a certificate cannot be read: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, Keys{}, transfer.Errorf(transfer.KindMalformed, "the request for a certificate has no good key: %w", err)
	}
	sum := sha256.Sum256(der)
	return csr, Keys{hex.EncodeToString(sum[:]), w.Nkey}, nil
}
