package identity

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"ferry/internal/failpoint"
	"ferry/internal/transfer"
)

// A Check is nil for a name that may be at the other end of a connection.
type Check func(Name) error

// Only takes one name and refuses all others.
func Only(want Name) Check {
	return func(n Name) error {
		if n != want {
			return fmt.Errorf("%s is there, and not %s", n, want)
		}
		return nil
	}
}

// OneOf takes names with one of some roles, in a network.
func OneOf(network string, roles ...Role) Check {
	return func(n Name) error {
		for _, r := range roles {
			if n.Network == network && n.Role == r {
				return nil
			}
		}
		return fmt.Errorf("%s may not be here", n)
	}
}

// Client is what an identity dials with: TLS 1.3, its certificate, and at the other end
// somebody of the network whom check takes. Host names have no part in it.
func (i *Identity) Client(check Check) *tls.Config {
	cfg := i.config(check)
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.Certificate(), nil }
	// The library's own check is one of host names. VerifyConnection makes ours, and is
	// called for resumed sessions as well.
	cfg.InsecureSkipVerify = true
	return cfg
}

// Server is what an identity listens with: TLS 1.3, and nobody comes in without a certificate
// of the network whose name check takes.
func (i *Identity) Server(check Check) *tls.Config {
	cfg := i.config(check)
	cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return i.Certificate(), nil }
	cfg.ClientAuth = tls.RequireAnyClientCert // and VerifyConnection
	cfg.SessionTicketsDisabled = true         // a session that is resumed would outlive its certificate
	return cfg
}

// Equal is what an identity both dials and listens with, where the ends of a connection are of one kind
// and it depends on chance which of them dials: Client and Server at once.
func (i *Identity) Equal(check Check) *tls.Config {
	cfg, client := i.Server(check), i.Client(check)
	cfg.GetClientCertificate, cfg.InsecureSkipVerify = client.GetClientCertificate, client.InsecureSkipVerify
	return cfg
}

func (i *Identity) config(check Check) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		VerifyConnection: func(s tls.ConnectionState) error {
			if _, err := i.peer(s.PeerCertificates, check); err != nil {
				if n, nerr := NameOf(s.PeerCertificates[0]); nerr == nil && n.Network != i.Name().Network {
					err = &OtherNetwork{n.Network}
				}
				return transfer.Errorf(transfer.KindDenied, "%w", err)
			}
			return nil
		},
	}
}

// An OtherNetwork is the network that a certificate names which is none of the identity's network. Nothing of
// the name was verified.
type OtherNetwork struct{ Network string }

func (o *OtherNetwork) Error() string { return "its certificate is of the network " + o.Network }

// Peer is who is at the other end of a connection that was made with Client or Server.
func (i *Identity) Peer(s tls.ConnectionState) (Name, error) {
	return i.peer(s.PeerCertificates, func(Name) error { return nil })
}

func (i *Identity) peer(chain []*x509.Certificate, check Check) (Name, error) {
	name, err := i.Roots().Verify(chain, time.Now())
	if err != nil {
		return name, err
	}
	if i.Revoked(KeyHash(chain[0])) {
		return name, fmt.Errorf("the certificate of %s was revoked", name)
	}
	if failpoint.Planted("name-unchecked-in-tls") {
		return name, nil
	}
	return name, check(name)
}
