package direct

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"math/big"
	"time"

	"ferry/internal/transfer"
)

// A certificate belongs to one run of an agent. Nobody vouches for it: its hash
// travels in OPEN and ACCEPT, and that is what the dialler holds it against.
type certificate struct {
	cert tls.Certificate
	pin  string
}

func newCertificate(agent transfer.AgentName) (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}

	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}

	// The dates say nothing: the peer's clock may be anywhere, and the pin is
	// valid for as long as the token beside it.
	tmpl := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "ferry agent " + string(agent)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}

	sum := sha256.Sum256(der)
	return &certificate{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, hex.EncodeToString(sum[:])}, nil
}

func (c *certificate) server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.cert},
		SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true}
}

// errPin is somebody else at the other end.
var errPin = errors.New("its certificate is not the one that the agent announced")

// pinned accepts exactly the certificate with the given hash.
func pinned(pin string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, // the hash is the proof, no authority is
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errPin
			}
			sum := sha256.Sum256(s.PeerCertificates[0].Raw)
			if subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum[:])), []byte(pin)) != 1 {
				return errPin
			}
			return nil
		}}
}
