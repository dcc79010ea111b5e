package qmgr

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
)

// webServer runs a queue manager that can be reached through web sockets.
func webServer(t *testing.T) *server.Server {
	web, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		Websocket: server.WebsocketOpts{Host: "127.0.0.1", Port: -1, NoTLS: true}, MaxPayload: streams.MaxPayload})
	if err != nil {
		t.Fatal(err)
	}
	web.Start()
	t.Cleanup(func() { web.Shutdown(); web.WaitForShutdown() })
	if !web.ReadyForConnections(qmgrtest.Patience) {
		t.Fatal("the server does not start")
	}
	return web
}

// tlsServer runs a queue manager that shakes hands before its first byte, and returns the configuration that trusts it.
func tlsServer(t testing.TB) (*server.Server, *tls.Config) {
	t.Helper()
	cert, trust := certificate(t)
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		TLS: true, TLSTimeout: 10, TLSHandshakeFirst: true, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}, MaxPayload: streams.MaxPayload})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(qmgrtest.Patience) {
		t.Fatal("the server does not start")
	}
	return s, &tls.Config{RootCAs: trust, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}
}

// certificate returns a certificate for 127.0.0.1, and a pool that trusts it.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trust := x509.NewCertPool()
	trust.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, trust
}

// Data that waits for a temporarily slow connection does not break it.
func TestMuchAtOnceThroughAWebSocket(t *testing.T) {
	qmgrtest.NoLeaks(t)
	web := webServer(t)
	p := newProxy(t, strings.TrimPrefix(web.WebsocketURL(), "ws://"))
	from, to := connect(t, ConnConfig{URL: web.ClientURL()}), connect(t, ConnConfig{URL: "ws://" + p.Addr().String()})
	got := make(chan link.Message, 1000)
	if _, err := to.SubscribeData("d.>", func(m link.Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	const n, size = 40, 1 << 20
	p.stalled(func() {
		for range n {
			if err := from.PublishData("d.x", make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}
		qmgrtest.Eventually(t, "most of it waits for the connection", func() bool {
			all, err := web.Connz(nil)
			return err == nil && slices.ContainsFunc(all.Conns, func(c *server.ConnInfo) bool { return c.Pending > 9*streams.MaxPayload })
		})
	})
	for range n {
		if m := qmgrtest.Receive(t, "message", got); len(m.Data) != size {
			t.Fatalf("a message has %d bytes", len(m.Data))
		}
	}
	if n := to.data.NATS().Stats().Reconnects; n != 0 {
		t.Errorf("the connection was lost %d times", n)
	}
}

// Data arrives whole and in order, over each kind of connection, until the end of the subscription.
func TestDataOverEachConnection(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := start(t, t.TempDir(), "127.0.0.1:0")
	web := webServer(t)
	first, trust := tlsServer(t)
	for _, c := range []struct {
		name string
		cfg  ConnConfig
	}{
		{"TCP", ConnConfig{URL: s.URL()}},
		{"in process", ConnConfig{Server: s}},
		{"web socket", ConnConfig{URL: web.WebsocketURL()}},
		{"TLS", ConnConfig{URL: first.ClientURL(), TLS: trust}},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := connect(t, c.cfg), connect(t, c.cfg)
			got := make(chan link.Message, 1000)
			stop, err := to.SubscribeData("d.x.>", func(m link.Message) { got <- m })
			if err != nil {
				t.Fatal(err)
			}
			data := make([]byte, 1_000_000)
			for i := range 100 { // PublishData does not use the data after its return
				for k := range data[:i*10_000] {
					data[k] = byte(i)
				}
				if err := from.PublishData("d.x.y", data[:i*10_000]); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 100 {
				if m := qmgrtest.Receive(t, "message", got); m.Subject != "d.x.y" || !bytes.Equal(m.Data, bytes.Repeat([]byte{byte(i)}, i*10_000)) {
					t.Fatalf("message %d is another: %d bytes on %s", i, len(m.Data), m.Subject)
				}
			}
			stop()
			if err := from.PublishData("d.x.y", []byte("late")); err != nil {
				t.Fatal(err)
			}
			for _, c := range []*Conn{from, to} { // the queue manager has the message, then the subscriber would have it
				if err := c.Healthy(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if len(got) > 0 {
				t.Error("a message comes after the end of the subscription")
			}
		})
	}
}

// A message without a reader ends the socket: no byte may follow half of a message.
func TestStuckMessageEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		s := &link.Socket{Conn: near}
		go io.ReadFull(far, make([]byte, 20))
		begun := time.Now()
		if _, err := s.Write(make([]byte, 1000)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if d := time.Since(begun); d != (1+link.WriteSteps)*link.WriteStep { // in the first step 20 bytes went out
			t.Errorf("it took %s", d)
		}
		if _, err := s.Write([]byte("PING\r\n")); err != io.ErrClosedPipe {
			t.Errorf("a write after half a message: %v", err)
		}
	})
}
