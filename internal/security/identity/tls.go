package identity

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"ferry/internal/transfer"
)

// A Check returns nil for a name that is allowed at the other end of a connection.
type Check func(Name) error

// Only allows one name and refuses all others.
func Only(want Name) Check {
	return func(n Name) error {
		if n != want {
			return fmt.Errorf("%s is there, and not %s", n, want)
		}
		return nil
	}
}

// OneOf allows names with one of some roles, in a network.
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

// Client returns the configuration for dialling: TLS 1.3, the identity's certificate, and at the other end a member of
// the network that check allows. It ignores host names.
func (i *Identity) Client(check Check) *tls.Config {
	cfg := i.config(check)
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.Certificate(), nil }
	// The library's own check concerns host names. VerifyConnection does Ferry's check, for resumed sessions as well.
	cfg.InsecureSkipVerify = true
	return cfg
}

// Server returns the configuration for listening: TLS 1.3. A client must have a certificate of the network with a name
// that check allows.
func (i *Identity) Server(check Check) *tls.Config {
	cfg := i.config(check)
	cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return i.Certificate(), nil }
	cfg.ClientAuth = tls.RequireAnyClientCert // VerifyConnection verifies it
	cfg.SessionTicketsDisabled = true         // a resumed session would outlive its certificate
	return cfg
}

// Equal returns the configuration for both dialling and listening, Client and Server at once. It is for connections
// between members of one kind, where either may dial.
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

// An OtherNetwork is the network named in a certificate, if it differs from the identity's. The name was not verified.
type OtherNetwork struct{ Network string }

func (o *OtherNetwork) Error() string { return "its certificate is of the network " + o.Network }

// Peer returns the name at the other end of a connection made with Client or Server.
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
	return name, check(name)
}
