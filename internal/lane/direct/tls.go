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

	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A certificate belongs to one run of an agent. No authority signs it: OPEN and ACCEPT carry its hash, and the dialler
// compares the certificate with the hash.
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

	// The dates are meaningless: the peer's clock may be wrong, and the pin is valid for as long as the token with it.
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

// errPin reports that the other end is not the announced agent.
var errPin = errors.New("its certificate is not the one that the agent announced")

// pinned returns a configuration that accepts only the certificate with the given hash.
func pinned(pin string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, // the hash is the proof, not an authority
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

// newRun makes the identification of a run of an agent: the hash of its certificate, or random bytes if it has an
// identity.
func newRun(cfg *Config) (cert *certificate, pin string, err error) {
	if cfg.Identity != nil {
		b := make([]byte, sha256.Size)
		rand.Read(b)
		return nil, hex.EncodeToString(b), nil
	}
	if cert, err = newCertificate(cfg.Agent); err != nil {
		return nil, "", err
	}
	return cert, cert.pin, nil
}

// listensWith returns the TLS configuration of incoming connections; nil: without TLS.
func (h *Hub) listensWith() *tls.Config {
	switch i := h.cfg.Identity; {
	case h.cfg.Mode != wire.DirectTLS:
		return nil
	case i == nil:
		return h.cert.server()
	default:
		cfg := i.Server(identity.OneOf(i.Name().Network, identity.Agent, identity.User)) // a pipe has the certificate of its user
		cfg.DynamicRecordSizingDisabled = true
		return cfg
	}
}

// dialsWith returns the TLS configuration of a connection to a peer.
func (h *Hub) dialsWith(peer transfer.AgentName, pin string) *tls.Config {
	i := h.cfg.Identity
	if i == nil {
		return pinned(pin)
	}
	cfg := i.Client(identity.Only(identity.Name{Network: i.Name().Network, Role: identity.Agent, Name: string(peer)}))
	cfg.DynamicRecordSizingDisabled = true
	return cfg
}

// checkIdentity checks that the identity of a connection is that of an agent.
func (h *Hub) checkIdentity(w *wireConn, peer transfer.AgentName) error {
	i := h.cfg.Identity
	if i == nil || h.cfg.Mode != wire.DirectTLS {
		return nil
	}
	t, ok := w.Conn.(*tls.Conn)
	if !ok {
		return transfer.Errorf(transfer.KindInternal, "a connection of %s is not TLS", peer)
	}
	name, err := i.Peer(t.ConnectionState())
	if err != nil {
		return transfer.Errorf(transfer.KindDenied, "the identity of %s is good no more: %w", peer, err)
	}
	if pipe := name.Role == identity.User && peer.StreamOf(name.String()); !pipe && (name.Role != identity.Agent || name.Name != string(peer)) {
		return transfer.Errorf(transfer.KindDenied, "%s speaks as agent %s", name, peer)
	}
	return nil
}

// Recheck ends the paths of peers with an invalid identity, for example a revoked one.
func (h *Hub) Recheck() {
	h.mu.Lock()
	var all []*path
	for _, ps := range h.paths {
		all = append(all, ps...)
	}
	h.mu.Unlock()
	for _, p := range all {
		if err := h.checkIdentity(p.conns[0].w, p.peer); err != nil {
			p.end(err)
		}
	}
}
