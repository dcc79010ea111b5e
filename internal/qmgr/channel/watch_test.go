package channel

import (
	"errors"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/claims"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/registrations"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// silentPeer returns a channel to a listener that says nothing, and the connections to it.
func silentPeer(t *testing.T, name string) (Channel, <-chan net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	conns := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			conns <- c
		}
	}()
	return Channel{Name: name, URL: "nats://" + listener.Addr().String()}, conns
}

// started starts the channels of queue manager TWO. With identities each has two connections.
func started(t *testing.T, identities bool, all ...Channel) (c *Channels, end func()) {
	t.Helper()
	ending, quiet := make(chan struct{}), slog.New(slog.DiscardHandler)
	cfg := Config{Name: "TWO", Dir: t.TempDir(), Channels: all, Ending: ending, Log: quiet}
	opts := &server.Options{ServerName: "TWO", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}
	if identities {
		n := newNetwork(t)
		r, err := claims.Read(n.signed)
		must(t, err)
		resolver := &server.MemAccResolver{}
		must(t, errors.Join(resolver.Store(r.Account.Subject, n.signed.Account), resolver.Store(r.Data.Subject, n.signed.Data), resolver.Store(r.System.Subject, n.signed.System)))
		opts.TrustedOperators, opts.SystemAccount, opts.AccountResolver = []*jwt.OperatorClaims{r.Operator}, r.Operator.SystemAccount, resolver
		cfg.Account, cfg.Identity = r.Account.Subject, n.self
		cfg.Admission = func() *claims.Admission { return n.parsed }
		cfg.Registry = registrations.New(registrations.Config{Name: "TWO", Domain: "TWO", Dir: t.TempDir(), Identity: cfg.Identity, Admission: cfg.Admission, Log: quiet, OtherMembers: func() []string { return nil }})
	}
	c, err := OpenAll(cfg)
	must(t, err)
	t.Cleanup(c.Close)
	must(t, c.Leafnodes(opts))
	c.Opts = opts.Clone()
	c.NS, err = server.NewServer(opts)
	must(t, err)
	c.NS.Start()
	t.Cleanup(c.NS.Shutdown)
	return c, func() { close(ending) }
}

// watched runs Watch until the end of the test.
func watched(t *testing.T, c *Channels, end func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.Watch()
	}()
	t.Cleanup(func() {
		end()
		<-over
	})
}

// A silent channel is connected anew, also where the library is in the middle of making its connections, and refuses
// others for so long. Meanwhile none of its connections is made, and another channel can be stopped and started.
func TestChannelIsRenewedDuringAConnect(t *testing.T) {
	for name, links := range map[string]int{"without identities": 1, "with identities": 2} {
		t.Run(name, func(t *testing.T) {
			one, conns := silentPeer(t, "ONE")
			gone := Channel{Name: "GONE", URL: "nats://" + qmgrtest.FreePort(t)}
			c, end := started(t, links == 2, gone, one)
			next := func() (all []net.Conn) {
				t.Helper()
				for range links {
					all = append(all, qmgrtest.Receive(t, "a connection", conns))
				}
				return all
			}
			cut := func(all []net.Conn) {
				for _, conn := range all {
					conn.Close()
				}
			}
			all := next()
			for c.renew("ONE") == nil { // the library had not begun to wait for a word of the peer
				cut(all)
				all = next()
			}
			remotes, err := c.remotes()
			must(t, err)
			if len(remotes) != 2*links || slices.ContainsFunc(remotes[links:], func(r *server.RemoteLeafOpts) bool { return !r.Disabled }) {
				t.Errorf("a connection of the channel that rests is made; there are %d", len(remotes))
			}
			watched(t, c, end)
			must(t, c.Stop("GONE"))
			cut(all)
			cut(next())
			qmgrtest.Eventually(t, "no channel rests", func() bool { return len(c.rested()) == 0 })
			must(t, c.Remove("GONE"))
		})
	}
}

// A channel rests until the library is asked to make its connections. Until then no other change has them made: the
// library may refuse that, and the other change with it.
func TestOtherChangesLeaveAChannelAtRest(t *testing.T) {
	one, _ := silentPeer(t, "ONE")
	c, _ := started(t, false, one)
	must(t, c.rest("ONE", true))
	c.reloading.Lock() // of another change
	over := make(chan error, 1)
	go func() { over <- c.rest("ONE", false) }()
	qmgrtest.Eventually(t, "the channel waits for the other change", func() bool {
		buf := make([]byte, 1<<20)
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "(*Channels).rest(") && strings.Contains(g, "sync.(*Mutex).Lock") {
				return true
			}
		}
		return false
	})
	if remotes, err := c.remotes(); err != nil || !remotes[0].Disabled {
		t.Errorf("the other change has the channel connected, %v", err)
	}
	c.reloading.Unlock()
	<-over
}

// While the library takes its time for a channel that rests, the connections of other channels are seen.
func TestAChannelAtRestDelaysNoOther(t *testing.T) {
	three, err := server.NewServer(&server.Options{ServerName: "THREE", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT}})
	must(t, err)
	three.Start()
	defer three.Shutdown()
	v, err := three.Varz(nil)
	must(t, err)
	one, _ := silentPeer(t, "ONE")
	c, end := started(t, false, one, Channel{Name: "THREE", URL: "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(v.LeafNode.Port))})
	must(t, c.rest("ONE", true))
	watched(t, c, end)
	c.reloading.Lock()
	defer c.reloading.Unlock()
	qmgrtest.Receive(t, "the connection of another channel", c.Up)
}
