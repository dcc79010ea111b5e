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
	"ferry/internal/qmgr/tap"
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
	what := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, what, what, key.Public(), key)
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

// BenchmarkDataOverTLS moves messages of a megabyte through a queue manager behind TLS: past
// the library, with TLS beneath the tap, and through it, with TLS of the library's.
func BenchmarkDataOverTLS(b *testing.B) {
	s, trust := tlsServer(b)
	for _, c := range []struct {
		name string
		cfg  ConnConfig
	}{{"past", ConnConfig{URL: s.ClientURL(), TLS: trust}}, {"library", ConnConfig{URL: s.ClientURL(), libraryTLS: trust}}} {
		b.Run(c.name, func(b *testing.B) {
			from, to := connect(b, c.cfg), connect(b, c.cfg)
			got, memory := make(chan struct{}, 16), make([]byte, 1<<20)
			if _, err := to.SubscribeData("d.>", func(n int) []byte { return memory[:n] }, func(link.Message) { got <- struct{}{} }); err != nil {
				b.Fatal(err)
			}
			data := make([]byte, 1<<20)
			b.SetBytes(int64(len(data)))
			ahead := 0
			for b.Loop() {
				if err := from.PublishData("d.x", data); err != nil {
					b.Fatal(err)
				}
				if ahead++; ahead > 8 {
					<-got
					ahead--
				}
			}
		})
	}
}

// Data that waits for a temporarily slow connection does not break it.
func TestMuchAtOnceThroughAWebSocket(t *testing.T) {
	qmgrtest.NoLeaks(t)
	web := webServer(t)
	p := newProxy(t, strings.TrimPrefix(web.WebsocketURL(), "ws://"))
	from, to := connect(t, ConnConfig{URL: web.ClientURL()}), connect(t, ConnConfig{URL: "ws://" + p.Addr().String()})
	got := make(chan link.Message, 1000)
	if _, err := to.SubscribeData("d.>", nil, func(m link.Message) { got <- m }); err != nil {
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

// Over a plain connection data does not pass through the library, in either
// direction; over a web socket it does, and arrives as well.
func TestDataPastTheLibrary(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := start(t, t.TempDir(), "127.0.0.1:0")
	web := webServer(t)
	first, trust := tlsServer(t)
	for _, c := range []struct {
		name string
		cfg  ConnConfig
		past bool
	}{
		{"TCP", ConnConfig{URL: s.URL()}, true},
		{"in process", ConnConfig{Server: s}, true},
		{"web socket", ConnConfig{URL: web.WebsocketURL()}, false},
		{"TLS beneath the tap", ConnConfig{URL: first.ClientURL(), TLS: trust}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := connect(t, c.cfg), connect(t, c.cfg)
			lent := make(chan int, 1000)
			got := make(chan link.Message, 1000)
			stop, err := to.SubscribeData("d.x.>", func(n int) []byte { lent <- n; return make([]byte, n) }, func(m link.Message) { got <- m })
			if err != nil {
				t.Fatal(err)
			}
			before := from.data.NATS().Stats().OutMsgs
			for i := range 100 {
				if err := from.PublishData("d.x.y", bytes.Repeat([]byte{byte(i)}, i*10_000)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 100 {
				if m := qmgrtest.Receive(t, "message", got); m.Subject != "d.x.y" || !bytes.Equal(m.Data, bytes.Repeat([]byte{byte(i)}, i*10_000)) {
					t.Fatalf("message %d is another: %d bytes on %s", i, len(m.Data), m.Subject)
				}
			}
			out, in := from.data.NATS().Stats().OutMsgs-before, to.data.NATS().Stats().InMsgs
			if past := out == 0 && in == 0; past != c.past || past != (len(lent) == 100) {
				t.Errorf("the library sent %d and received %d messages, and memory was lent for %d", out, in, len(lent))
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

// After a loss both directions go past the library again.
func TestDataPastTheLibraryAfterALoss(t *testing.T) {
	s := start(t, t.TempDir(), "127.0.0.1:0")
	c := connect(t, ConnConfig{URL: s.URL()})
	got := make(chan link.Message, 10)
	if _, err := c.SubscribeData("d.>", nil, func(m link.Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	old := c.data.Socket.Load()
	old.Close()
	for end := time.Now().Add(qmgrtest.Patience); c.data.Socket.Load() == old || c.PublishData("d.x", []byte("again")) != nil; {
		if time.Now().After(end) {
			t.Fatal("the connection does not come back")
		}
	}
	qmgrtest.Receive(t, "message after the loss", got)
	if st := c.data.NATS().Stats(); st.OutMsgs+st.InMsgs != 0 {
		t.Errorf("the library sent %d messages and received %d", st.OutMsgs, st.InMsgs)
	}
}

// A message without a reader ends the socket: no byte may follow half of a message.
func TestStuckMessageEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		s := &link.Socket{Conn: near}
		past := tap.New(s, nil)
		if tried, err := past.Publish("x", make([]byte, 1000)); tried || err != nil {
			t.Fatalf("it was tried before the connection was let in: %v", err)
		}
		go far.Write([]byte("PONG\r\n"))
		if _, err := io.ReadFull(past, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		go io.ReadFull(far, make([]byte, 20))
		begun := time.Now()
		if tried, err := past.Publish("x", make([]byte, 1000)); !tried || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%t, %v", tried, err)
		}
		if d := time.Since(begun); d != (1+link.WriteSteps)*link.WriteStep { // in the first step 20 bytes went out
			t.Errorf("it took %s", d)
		}
		if _, err := past.Write([]byte("PING\r\n")); err != io.ErrClosedPipe {
			t.Errorf("something follows half a message: %v", err)
		}
	})
}
