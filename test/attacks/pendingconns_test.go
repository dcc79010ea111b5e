// Package attacks tests a network with identities against attacks of strangers and of members with few rights.
package attacks

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A network is an authority and a queue manager that admits only its members.
type network struct {
	*authority.Authority
	t       *testing.T
	ctx     context.Context
	server  *server.Server
	qm      *identity.Identity // of the queue manager
	address string
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	return newNetworkOf(t, authoritytest.New(t))
}

// newNetworkOf is newNetwork of an authority.
func newNetworkOf(t *testing.T, a *authority.Authority, options ...func(*server.Guard)) *network {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	n := &network{Authority: a, t: t, ctx: ctx}
	n.qm = n.identity(identity.Manager, "QM", roles.Manager)
	claims, err := a.Claims()
	must(t, err)
	guard := &server.Guard{Identity: n.qm, Claims: claims}
	for _, option := range options {
		option(guard)
	}
	n.server, err = server.Start(ctx, server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Guard: guard})
	must(t, err)
	t.Cleanup(n.server.Shutdown)
	u, err := url.Parse(n.server.URL())
	must(t, err)
	n.address = u.Host
	return n
}

func (n *network) identity(role identity.Role, name string, as roles.Role) *identity.Identity {
	n.t.Helper()
	return authoritytest.Identity(n.t, n.Authority, role, name, as)
}

func (n *network) connect(i *identity.Identity) (*qmgr.Conn, error) {
	c, err := qmgr.Connect(n.ctx, qmgr.ConnConfig{URL: n.server.URL(), Identity: i, Timeout: 30 * time.Second})
	if err == nil {
		n.t.Cleanup(c.Close)
	}
	return c, err
}

// TestNothingIsSaidToStrangers connects without an identity of the network. The queue manager sends no NATS protocol
// before TLS, without a certificate of the network, or with a certificate alone.
func TestNothingIsSaidToStrangers(t *testing.T) {
	n, other := newNetwork(t), newNetwork(t)
	qm := n.qm
	c, err := n.connect(qm)
	must(t, err)
	must(t, c.Healthy(n.ctx))

	alpha, stranger := n.identity(identity.Agent, "ALPHA", roles.Agent), other.identity(identity.Agent, "ALPHA", roles.Agent)
	anybody := func(identity.Name) error { return nil }
	old := alpha.Client(anybody)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for what, cfg := range map[string]*tls.Config{
		"no certificate":       {InsecureSkipVerify: true},
		"another network's":    stranger.Client(anybody),
		"TLS 1.2":              old,
		"a queue manager only": alpha.Client(identity.Only(identity.Name{Network: n.Network(), Role: identity.Manager, Name: "ELSE"})),
	} {
		if said := heard(t, n.address, cfg); said != "" {
			t.Errorf("%s: it hears %q", what, said)
		}
	}
	if said := heard(t, n.address, nil); strings.Contains(said, "INFO") {
		t.Errorf("before TLS: it hears %q", said)
	}
	if said := heard(t, n.address, alpha.Client(anybody)); !strings.HasPrefix(said, "INFO ") {
		t.Errorf("with a certificate it hears %q", said)
	}
	if _, err := n.connect(stranger); err == nil {
		t.Error("another network's agent is let in")
	}
	if _, err := qmgr.Connect(n.ctx, qmgr.ConnConfig{URL: n.server.URL(), TLS: alpha.Client(anybody), Timeout: time.Second}); err == nil {
		t.Error("a certificate alone is let in")
	}
	if _, err := qmgr.Connect(n.ctx, qmgr.ConnConfig{Server: n.server, Timeout: time.Second}); err == nil {
		t.Error("somebody in the process without an identity is let in")
	}
	if _, err := qmgr.Connect(n.ctx, qmgr.ConnConfig{Server: n.server, Identity: qm, Timeout: 30 * time.Second}); err != nil {
		t.Errorf("the queue manager's own process: %v", err)
	}
}

// TestAnotherQueueManagerIsNoClient connects as another queue manager of the network. It is no client: its JWT has no
// limits, and behind a channel it has the limits of the channel.
func TestAnotherQueueManagerIsNoClient(t *testing.T) {
	n := newNetwork(t)
	other := n.identity(identity.Manager, "QM2", roles.Manager)
	if said := heard(t, n.address, other.Client(func(identity.Name) error { return nil })); said != "" {
		t.Errorf("another queue manager hears %q", said)
	}
	if _, err := n.connect(other); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("another queue manager as a client: %v", err)
	}
	c, err := n.connect(n.qm)
	must(t, err)
	must(t, c.Healthy(n.ctx))
}

// heard returns the first bytes of the queue manager. With a nil configuration it uses no TLS.
func heard(t *testing.T, address string, cfg *tls.Config) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	var in io.ReadWriter = conn
	if cfg != nil {
		in = tls.Client(conn, cfg)
	}
	in.Write([]byte("PING\r\n")) // a server that waits for the client gets a message to answer
	b := make([]byte, 1024)
	k, _ := in.Read(b)
	return string(b[:k])
}

// TestRevocationCutsOff revokes an identity. Its connection is closed, and new ones are refused; others stay.
func TestRevocationCutsOff(t *testing.T) {
	n := newNetwork(t)
	stays := n.identity(identity.Coordination, "", roles.Coordination)
	goes := n.identity(identity.Agent, "ALPHA", roles.Agent)
	a, err := n.connect(stays)
	must(t, err)
	lost := make(chan error, 4)
	b, err := qmgr.Connect(n.ctx, qmgr.ConnConfig{URL: n.server.URL(), Identity: goes, Timeout: 30 * time.Second, OnDisconnect: func(err error) { lost <- err }})
	must(t, err)
	t.Cleanup(b.Close)

	must(t, n.Revoke(goes.Name(), ""))
	claims, err := n.Claims()
	must(t, err)
	must(t, n.server.Admit(claims))
	select {
	case <-lost:
	case <-n.ctx.Done():
		t.Fatal("the connection of who is revoked stays")
	}
	if _, err := n.connect(goes); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("who is revoked connects again: %v", err)
	}
	must(t, a.Healthy(n.ctx))
	if err := b.Publish(wire.BeatSubject("ALPHA"), nil); err == nil && errors.Is(b.Healthy(n.ctx), nil) {
		t.Error("who is revoked goes on")
	}
	other := newNetwork(t)
	if claims, err = other.Claims(); err != nil {
		t.Fatal(err)
	}
	if err := n.server.Admit(claims); transfer.KindOf(err) != transfer.KindConflict {
		t.Errorf("another network's claims are taken: %v", err)
	}
}

// TestSilentStrangersAtTheQueueManager opens more silent connections than the queue manager waits for. A member can
// still connect, and the connection of the first stranger is closed.
func TestSilentStrangersAtTheQueueManager(t *testing.T) {
	n := newNetwork(t)
	var all []net.Conn
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	for range 3000 {
		c, err := net.Dial("tcp", n.address)
		must(t, err)
		all = append(all, c)
	}
	c, err := n.connect(n.qm)
	must(t, err)
	must(t, c.Healthy(n.ctx))
	all[0].SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := all[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first of the strangers is still waited for: %v", err)
	}
}

// newNetworkWith is newNetwork with a limit of connections at the queue manager.
func newNetworkWith(t *testing.T, clients int) *network {
	t.Helper()
	n := &network{Authority: authoritytest.New(t), t: t, ctx: t.Context()}
	n.qm = n.identity(identity.Manager, "QM", roles.Manager)
	claims, err := n.Claims()
	must(t, err)
	n.server, err = server.Start(n.ctx, server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Clients: clients, Guard: &server.Guard{Identity: n.qm, Claims: claims}})
	must(t, err)
	t.Cleanup(n.server.Shutdown)
	u, err := url.Parse(n.server.URL())
	must(t, err)
	n.address = u.Host
	return n
}

// TestStrangersTakeFewDescriptors uses a process with few open files. Strangers take at most an eighth of them.
func TestStrangersTakeFewDescriptors(t *testing.T) {
	n := newNetworkWith(t, 80)
	var all []net.Conn
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	for range 100 {
		c, err := net.Dial("tcp", n.address)
		must(t, err)
		all = append(all, c)
	}
	c, err := n.connect(n.qm) // after all of them
	must(t, err)
	must(t, c.Healthy(n.ctx))
	left, end := 0, time.Now().Add(2*time.Second)
	for _, c := range all {
		c.SetReadDeadline(end)
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			left++
		}
	}
	if left > 10 {
		t.Errorf("%d strangers are waited for, of 80 connections", left)
	}
}
