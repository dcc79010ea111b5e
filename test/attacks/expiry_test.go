package attacks

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/client"
	"ferry/internal/coordination"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A dated is a network with an authority that uses a clock of the test.
type dated struct {
	*network
	behind atomic.Int64 // nanoseconds
}

func newDated(t *testing.T) *dated {
	t.Helper()
	d := &dated{}
	d.behind.Store(int64(2 * identity.Validity)) // before all identities that it issues
	a := authoritytest.NewWith(t, func() time.Time { return time.Now().Add(-time.Duration(d.behind.Load())) })
	d.soon(0)
	d.network = newNetworkOf(t, a)
	d.attend(func() {})
	return d
}

// soon sets the remaining validity of identities issued from now on; 0: the usual one.
func (d *dated) soon(ends time.Duration) {
	if ends > 0 {
		ends = identity.Validity - ends
	}
	d.behind.Store(int64(ends))
}

// renew renews an identity, as its process does.
func (d *dated) renew(i *identity.Identity) {
	d.t.Helper()
	w, err := authority.IdentityRequestOf(i.Keys())
	must(d.t, err)
	g, err := d.Renew(i.Name(), w)
	must(d.t, err)
	must(d.t, i.Renew(g))
}

// run runs an agent on a connection with an identity, which it renews as soon as it is connected.
func (d *dated) run(i *identity.Identity, root string, config func(*qmgr.ConnConfig)) *qmgr.Conn {
	d.t.Helper()
	cc := qmgr.ConnConfig{URL: d.server.URL(), Identity: i, Log: slog.New(slog.DiscardHandler)}
	if config != nil {
		config(&cc)
	}
	conn, err := qmgr.Connect(d.ctx, cc)
	must(d.t, err)
	d.renew(i)
	a, err := agent.Start(d.ctx, agent.Config{Name: transfer.AgentName(i.Name().Name), Dir: d.t.TempDir(), Roots: []string{root},
		Log: slog.New(slog.DiscardHandler), Settings: transfer.Settings{ChunkSize: 64 << 10}}, conn)
	must(d.t, err)
	d.t.Cleanup(func() { a.Stop(); conn.Close() })
	return conn
}

// TestIdentitiesEndInMidTransfer lets the identities of both agents end during a transfer and renews them before it
// begins. The queue manager ends their connections, the agents reconnect with the new identities, and no data are lost.
func TestIdentitiesEndInMidTransfer(t *testing.T) {
	// Each agent is connected before its identity ends, and the transfer ends after that, even on a busy host.
	const ends = 10 * time.Second
	d := newDated(t)
	service := d.identity(identity.Coordination, "", roles.Coordination)
	conn, err := d.connect(service)
	must(t, err)
	s, err := coordination.Start(d.ctx, coordination.Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}, conn)
	must(t, err)
	t.Cleanup(s.Stop)

	user := d.identity(identity.User, "ann", roles.User)
	from, to := t.TempDir(), t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	must(t, os.WriteFile(filepath.Join(from, "a"), data, 0o600))
	var lost atomic.Int64
	count := func(cc *qmgr.ConnConfig) { cc.OnDisconnect = func(error) { lost.Add(1) } }
	for name, root := range map[string]string{"ALPHA": from, "BETA": to} {
		d.soon(ends)
		i := d.identity(identity.Agent, name, roles.Agent)
		d.soon(0)
		d.run(i, root, count)
	}
	asks, err := qmgr.Connect(d.ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: d.server.URL(), Identity: user, Asks: true})
	must(t, err)
	t.Cleanup(asks.Close)

	q := &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA",
		Items: transfer.ItemsOf("a"), Dest: transfer.File("b"), Lane: "queue"}
	q.Rate = 95 << 10 // 10.7 s at least, which is longer than ends
	c := &client.Client{Conn: asks, Clock: clock.System, Who: client.Me()}
	p, err := c.Run(d.ctx, q, func(*transfer.Progress) {}, func(error) {})
	must(t, err)
	if p.State != transfer.Successful {
		t.Errorf("the transfer is %s: %v", p.State, p.Reason)
	}
	got, err := os.ReadFile(filepath.Join(to, "b"))
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes have arrived, %v", len(got), err)
	}
	if lost.Load() < 2 {
		t.Errorf("the queue manager has ended %d connections; those of both agents should have ended with their JWTs", lost.Load())
	}
}

// TestAnIdentityThatIsNotRenewed lets an identity end. Its connection is closed, and new ones are refused; the refusal
// is reported once the queue manager has proved its identity. After a renewal the agent can connect again.
func TestAnIdentityThatIsNotRenewed(t *testing.T) {
	d := newDated(t)
	var alpha *identity.Identity
	var refused chan error
	var back chan struct{}
	var c *qmgr.Conn
	for ends := 2 * time.Second; ; ends *= 2 {
		d.soon(ends)
		alpha = d.identity(identity.Agent, "ALPHA", roles.Agent)
		d.soon(0)
		denials, connects := make(chan error, 16), make(chan struct{}, 16)
		refused, back = denials, connects
		var err error
		c, err = qmgr.Connect(d.ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: d.server.URL(), Identity: alpha,
			OnConnect: func() { connects <- struct{}{} }, OnRefused: func(err error) {
				select {
				case denials <- err:
				default:
				}
			}})
		if transfer.KindOf(err) == transfer.KindDenied && ends < time.Minute {
			continue // the identity ended before a busy host had connected
		}
		must(t, err)
		break
	}
	t.Cleanup(c.Close)
	wait := func(what string, ch <-chan struct{}) {
		t.Helper()
		select {
		case <-ch:
		case <-d.ctx.Done():
			t.Fatalf("%s: never", what)
		}
	}
	wait("the first connect", back)
	select {
	case err := <-refused:
		if transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("it is refused with %v", err)
		}
	case <-d.ctx.Done():
		t.Fatal("an identity that has ended is not refused")
	}
	d.renew(alpha)
	wait("let in again", back)
	ctx, cancel := context.WithTimeout(d.ctx, 90*time.Second)
	defer cancel()
	must(t, c.Healthy(ctx))
}
