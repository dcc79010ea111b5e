package qmgr

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"ferry/internal/qmgr/link"
	"ferry/internal/security/identity"
	"ferry/internal/sys/sleep"
)

// A Probed describes the listener at an address.
type Probed struct {
	// Network is the network in the name of the listener's certificate. The certificate is not verified: Network only
	// selects the identity to show. The connection that shows it verifies the certificate.
	Network string
	Plain   bool // it speaks first, without TLS
}

// ProbeURL probes the queue managers in a URL of ConnConfig, until one answers. It also returns the address of that
// queue manager, HOST:PORT. It tries as long as Connect does, with errors of the same kinds. A URL of another scheme
// than nats has no address: its listener is not Ferry's.
func ProbeURL(ctx context.Context, url string, timeout time.Duration) (p Probed, at string, err error) {
	cfg := ConnConfig{URL: url}
	where, err := cfg.address()
	if err != nil {
		return p, "", err
	}
	all := Addresses(url)
	if len(all) == 0 {
		return Probed{Plain: true}, "", nil
	}
	if timeout = cmp.Or(timeout, defaultConnectTimeout); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	for {
		var last error
		for _, at := range all {
			p, err := Probe(ctx, at)
			if err == nil {
				return p, at, nil
			}
			last = err
		}
		if sleep.For(ctx, connectPause, nil) {
			return p, "", noManager(ctx, where, last)
		}
	}
}

// Addresses returns HOST:PORT of the queue managers in a URL: those that are reached with an identity, hence of the
// scheme nats without a user.
func Addresses(urls string) (all []string) {
	for part := range strings.SplitSeq(urls, ",") {
		part = strings.TrimSpace(part)
		if part != "" && !strings.Contains(part, "://") {
			part = "nats://" + part
		}
		u, err := url.Parse(part)
		if err != nil || u.Scheme != "nats" || u.User != nil || u.Hostname() == "" {
			continue
		}
		all = append(all, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")))
	}
	return all
}

// greetingWait is the time for a listener that sends first to begin. After it, Probe starts TLS, and a listener without
// TLS answers in plain text.
const greetingWait = 50 * time.Millisecond

// errProbed ends a handshake that has shown the certificate.
var errProbed = errors.New("the certificate has been seen")

// Probe describes the listener at an address, HOST:PORT. It shows the listener neither a certificate nor a command of
// NATS.
func Probe(ctx context.Context, address string) (p Probed, err error) {
	d := net.Dialer{Timeout: link.DialTimeout}
	made, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return p, err
	}
	defer made.Close()
	conn := &link.Socket{Conn: made}
	ctx, cancel := conn.Moving(ctx, link.DialTimeout)
	defer cancel()

	// A listener that sends first has no TLS, and would log a handshake as an error.
	conn.SetReadDeadline(time.Now().Add(greetingWait))
	var first [1]byte
	if n, err := conn.Read(first[:]); n == 1 {
		return Probed{Plain: true}, nil
	} else if ne := net.Error(nil); !errors.As(err, &ne) || !ne.Timeout() {
		return p, err
	}
	conn.SetReadDeadline(time.Time{})

	err = tls.Client(conn, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // see Network
		VerifyConnection: func(s tls.ConnectionState) error {
			if name, err := identity.NameOf(s.PeerCertificates[0]); err == nil && name.Role == identity.Manager {
				p.Network = name.Network
			}
			return errProbed
		},
	}).HandshakeContext(ctx)
	header := tls.RecordHeaderError{}
	switch {
	case errors.Is(err, errProbed):
		return p, nil
	case errors.As(err, &header) && strings.HasPrefix(string(header.RecordHeader[:]), "INFO"):
		return Probed{Plain: true}, nil
	}
	return p, err
}
