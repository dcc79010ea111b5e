package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/cluster"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// electing is the time that a cluster may take to agree on a leader, on a busy host.
const electing = 3 * time.Minute

// A trio is a cluster of three in this process.
type trio struct {
	t      *testing.T
	a      *authority.Authority // nil: without identities
	dirs   [3]string
	listen [3]string
	routes [3]string
	claims [3]roles.Claims // as they were kept
	is     [3]*identity.Identity
	of     int // how many members a configuration names
	mu     sync.Mutex
	up     [3]*Server

	maxStored  [3]int64
	leaderless time.Duration // time for a queue without a leader; 0: the default
}

func newTrio(t *testing.T, a *authority.Authority) *trio {
	c := &trio{t: t, a: a, of: 3}
	for n := range c.dirs {
		c.dirs[n], c.listen[n], c.routes[n] = t.TempDir(), qmgrtest.FreePort(t), qmgrtest.FreePort(t)
		if a != nil {
			var err error
			c.claims[n], err = a.Claims()
			must(t, err)
			c.is[n] = authoritytest.Identity(t, a, identity.Manager, fmt.Sprintf("QM%d", n+1), roles.Manager)
		}
	}
	return c
}

func (c *trio) config(n int) Config {
	cfg := Config{Name: fmt.Sprintf("QM%d", n+1), Dir: c.dirs[n], Listen: c.listen[n], MaxStored: c.maxStored[n], Log: qmgrtest.Log(c.t),
		Cluster: &cluster.Cluster{Name: "X", Listen: c.routes[n], Leaderless: c.leaderless, Routes: slices.DeleteFunc(slices.Clone(c.routes[:c.of]), func(r string) bool { return r == c.routes[n] })}}
	if c.a != nil {
		cfg.Guard = &Guard{Identity: c.is[n], Claims: c.claims[n], Keep: func(k roles.Claims) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.claims[n] = k
			return nil
		}}
	}
	return cfg
}

func (c *trio) start(which ...int) {
	c.t.Helper()
	for _, n := range which {
		s, err := Start(qmgrtest.Context(c.t), c.config(n))
		must(c.t, err)
		c.t.Cleanup(s.Shutdown)
		c.up[n] = s
	}
}

// whole waits until all that run are one.
func (c *trio) whole(which ...int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), electing)
	defer cancel()
	for _, n := range which {
		must(c.t, c.up[n].WaitQuorum(ctx, func(why string) { c.t.Logf("QM%d: %s", n+1, why) }))
	}
}

func (c *trio) urls(which ...int) string {
	var all []string
	for _, n := range which {
		all = append(all, "nats://"+c.listen[n])
	}
	return strings.Join(all, ",")
}

// until is eventually with the time for an election.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(electing)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", electing, what)
		}
	}
}

// replicated waits until every queue and durable is kept three times, by three that have it all.
func replicated(t *testing.T, c *qmgr.Conn, durables ...string) {
	t.Helper()
	until(t, "every queue is kept three times", func() bool {
		for _, cfg := range streams.All {
			s, err := jsOf(c).Stream(t.Context(), cfg.Name)
			if err != nil || !copied(s.CachedInfo().Config.Replicas, s.CachedInfo().Cluster) {
				return false
			}
		}
		for _, d := range durables {
			cons, err := jsOf(c).Consumer(t.Context(), string(streams.StreamCommand), d)
			if err != nil || !copied(3, cons.CachedInfo().Cluster) {
				return false
			}
		}
		return true
	})
}

func copied(replicas int, info *jetstream.ClusterInfo) bool {
	if replicas != 3 || info == nil || info.Leader == "" || len(info.Replicas) != 2 {
		return false
	}
	for _, p := range info.Replicas {
		if !p.Current {
			return false
		}
	}
	return true
}

// Three queue managers are one: a message stored at one is read at another. It has three replicas, also when one queue
// manager is gone. The other two name the absent one, and the third catches up.
func TestThreeAreOne(t *testing.T) {
	t.Parallel()
	c := newTrio(t, authoritytest.New(t))
	c.of = 2
	c.start(0, 1)
	c.whole(0, 1)
	writer := connect(t, qmgr.ConnConfig{URL: c.urls(0), Identity: c.is[0], Timeout: electing})
	enqueue(t, writer, "ferry.command.A.me", "with two")
	c.of = 3
	for n := range 2 { // a third is admitted if there is a route for it
		c.up[n].Shutdown()
		c.start(n)
		c.whole(0, 1)
	}
	c.start(2)
	c.whole(2)
	reader := connect(t, qmgr.ConnConfig{URL: c.urls(2), Identity: c.is[2], Timeout: electing})
	got, _ := consume(t, reader, commands)
	if m := qmgrtest.Receive(t, "a command", got); m != "with two" {
		t.Errorf("read %q", m)
	}
	replicated(t, reader, commands.Durable)

	until(t, "nothing is wrong", func() bool { return c.up[0].Passing() == "" && c.up[1].Passing() == "" })
	c.up[0].Shutdown()
	until(t, "the queue manager names the member that is away", func() bool { return strings.Contains(c.up[2].Passing(), "queue manager QM1 of cluster X is away") })
	until(t, "the connection says it", func() bool { return strings.Contains(reader.Facts().Degraded, "QM1 of cluster X is away") })
	other := connect(t, qmgr.ConnConfig{URL: c.urls(0, 1), Identity: c.is[1], Timeout: electing})
	if name := other.Facts().ServerName; name != "QM2" {
		t.Errorf("connected to %s", name)
	}
	enqueueSoon(t, other, "ferry.command.A.me", "without one")
	if m := qmgrtest.Receive(t, "a command", got); m != "without one" {
		t.Errorf("read %q", m)
	}
	c.start(0)
	replicated(t, reader, commands.Durable)
	for _, s := range c.up {
		if d := s.Degraded(); d != "" {
			t.Errorf("%s is degraded: %s", s.Name(), d)
		}
	}
	if d := reader.Facts().Degraded; strings.Contains(d, "lost") || strings.Contains(d, "back") {
		t.Errorf("the reader's is degraded: %s", d)
	}
}

// enqueueSoon stores through an election.
func enqueueSoon(t *testing.T, c *qmgr.Conn, subject, data string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), electing)
	defer cancel()
	must(t, c.Enqueue(ctx, subject, "", []byte(data)))
}

// All are stopped and come back in another order. Alone, the first listens and names the members that it waits for.
// Nothing is lost.
func TestAllThreeComeBack(t *testing.T) {
	t.Parallel()
	c := newTrio(t, nil)
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	conn := connect(t, qmgr.ConnConfig{URL: c.urls(0, 1, 2), Timeout: electing})
	replicated(t, conn)
	for n := range 20 {
		enqueueSoon(t, conn, "ferry.command.A.me", fmt.Sprint(n))
	}
	conn.Close()
	for _, s := range c.up {
		s.Shutdown()
	}
	c.start(2)
	early := connect(t, qmgr.ConnConfig{URL: c.urls(2), Early: true})
	if d := early.Facts().Degraded; !strings.Contains(d, "waiting for the other queue managers of cluster X") {
		t.Errorf("degraded: %q", d)
	}
	if _, err := qmgr.Connect(t.Context(), qmgr.ConnConfig{URL: c.urls(2), Timeout: time.Second}); transfer.KindOf(err) != transfer.KindNoManager {
		t.Errorf("connecting without a quorum: %v", err)
	}
	c.start(1, 0)
	c.whole(0, 1, 2)
	conn = connect(t, qmgr.ConnConfig{URL: c.urls(0, 1, 2), Timeout: electing})
	got, _ := consume(t, conn, commands)
	for n := range 20 {
		if m := qmgrtest.Receive(t, "a command", got); m != fmt.Sprint(n) {
			t.Fatalf("command %d is %q", n, m)
		}
	}
	for _, s := range c.up {
		if d := s.Degraded(); d != "" {
			t.Errorf("%s is degraded: %s", s.Name(), d)
		}
	}
}

// A queue manager that becomes a member hands over its stored messages, and cannot be started alone again.
func TestOneBecomesThree(t *testing.T) {
	t.Parallel()
	c := newTrio(t, nil)
	c.dirs[0] = filled(t, false)
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	conn := connect(t, qmgr.ConnConfig{URL: c.urls(1), Timeout: electing})
	got, _ := consume(t, conn, commands)
	for _, want := range allCommands {
		if m := qmgrtest.Receive(t, "a command", got); !strings.HasPrefix(m, "command "+want) {
			t.Fatalf("read %q; want %s", m, want)
		}
	}
	for _, s := range c.up {
		if d := s.Degraded(); d != "" {
			t.Errorf("%s is degraded: %s", s.Name(), d)
		}
	}
	c.up[0].Shutdown()
	_, err := Start(t.Context(), Config{Name: "QM1", Dir: c.dirs[0], Listen: c.listen[0]})
	qmgrtest.WantKind(t, err, transfer.KindUsage, "is a member of cluster X", "--cluster X")
	other := c.config(0)
	other.Name = "QM9"
	_, err = Start(t.Context(), other)
	qmgrtest.WantKind(t, err, transfer.KindUsage, "queue manager QM1")
	if _, err := os.Stat(c.dirs[0] + "/alone.handed-over"); err != nil {
		t.Error(err)
	}
}

// Each question is answered once, by the member that the asker is connected to.
func TestOneAnswerInACluster(t *testing.T) {
	t.Parallel()
	c := newTrio(t, nil)
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	smaller := []byte(`{"v":1,"cluster":"X","name":"QM2","max_payload":1048576}`)
	until(t, "it is said that a member takes smaller messages", func() bool {
		c.up[0].member.TakeHello(&nats.Msg{Data: smaller})
		return strings.Contains(c.up[0].Passing(), "queue manager QM2 of cluster X takes messages of 1.0 MiB, and QM1 of 2.0 MiB")
	})
	for n, s := range c.up {
		nc, err := nats.Connect(s.URL())
		must(t, err)
		defer nc.Close()
		inbox := wire.InboxSubject("test", wire.Manager, strings.Repeat("A", wire.InboxSecret), uint64(n))
		answers, err := nc.SubscribeSync(inbox)
		must(t, err)
		for range 20 {
			must(t, nc.PublishRequest(wire.AskSubject(wire.Manager, "test"), inbox, nil))
			m, err := answers.NextMsg(electing)
			must(t, err)
			if !strings.Contains(string(m.Data), `"`+s.Name()+`"`) {
				t.Fatalf("%s was asked, and the answer is %s", s.Name(), m.Data)
			}
		}
		must(t, nc.PublishRequest(wire.AskSubject(wire.Manager, "test"), inbox, []byte(`{"v":1,"op":"members"}`)))
		m, err := answers.NextMsg(electing)
		must(t, err)
		if !strings.Contains(string(m.Data), "members") {
			t.Errorf("%s answers %s", s.Name(), m.Data)
		}
		if m, err := answers.NextMsg(200 * time.Millisecond); err == nil {
			t.Errorf("one more answer of %s: %s", s.Name(), m.Data)
		}
	}
}

// The port for routes admits only queue managers of the network. It refuses the certificate of an agent, of a user, of
// a queue manager of another network, and a connection without one.
func TestWhoMayBeARoute(t *testing.T) {
	t.Parallel()
	c := newTrio(t, authoritytest.New(t))
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	other := authoritytest.New(t)
	speaks := func(i *identity.Identity) error {
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		if i != nil {
			d.Config = i.Equal(func(identity.Name) error { return nil })
			d.Config.VerifyConnection = nil // it is the other end that is to refuse
		}
		conn, err := d.DialContext(qmgrtest.Context(t), "tcp", c.routes[0])
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(qmgrtest.Patience))
		_, err = bufio.NewReader(conn).ReadString('\n') // INFO, which each end sends at once
		return err
	}
	until(t, "all members know each other", func() bool { return c.up[0].Passing() == "" })
	if err := speaks(c.is[2]); err != nil {
		t.Errorf("a member is refused: %v", err)
	}
	for who, i := range map[string]*identity.Identity{
		"nobody":                            nil,
		"an agent":                          authoritytest.Identity(t, c.a, identity.Agent, "ALPHA", roles.Agent),
		"a user":                            authoritytest.Identity(t, c.a, identity.User, "bob", roles.Admin),
		"the authority":                     authoritytest.Identity(t, c.a, identity.Authority, "", roles.Authority),
		"a queue manager that is no member": authoritytest.Identity(t, c.a, identity.Manager, "QM9", roles.Manager),
		"a queue manager of somebody else":  authoritytest.Identity(t, other, identity.Manager, "QM2", roles.Manager),
	} {
		if err := speaks(i); err == nil {
			t.Errorf("%s is heard at the port for routes", who)
		}
	}
	if !c.up[0].NS.JetStreamIsClustered() || c.up[0].NS.Addr() != nil {
		t.Errorf("the library listens for clients at %v, where no gate stands", c.up[0].NS.Addr())
	}
}

// No member admits an identity that the authority has revoked, not even a member that was away meanwhile.
func TestRevokedEverywhere(t *testing.T) {
	t.Parallel()
	c := newTrio(t, authoritytest.New(t))
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	gone := authoritytest.Identity(t, c.a, identity.Agent, "ALPHA", roles.Agent)
	lets := func(n int) bool {
		conn, err := qmgr.Connect(qmgrtest.Context(t), qmgr.ConnConfig{URL: c.urls(n), Identity: gone, Timeout: electing, Early: true})
		if err == nil {
			conn.Close()
		}
		return transfer.KindOf(err) != transfer.KindDenied
	}
	for n := range c.up {
		if !lets(n) {
			t.Fatalf("QM%d does not let it in before", n+1)
		}
	}
	c.up[2].Shutdown()
	must(t, c.a.Revoke(gone.Name(), ""))
	claims, err := c.a.Claims()
	must(t, err)
	must(t, c.up[0].Admit(claims))
	until(t, "the other member refuses it", func() bool { return !lets(1) })
	c.start(2)
	until(t, "the member that was away refuses it", func() bool { return !lets(2) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claims[2].Account != claims.Account {
		t.Error("the member that was away has not kept the claims")
	}
}

// An identity that is revoked while it connects learns that it is refused, before the time of the connection is over.
func TestRevokedWhileConnecting(t *testing.T) {
	t.Parallel()
	c := newTrio(t, authoritytest.New(t))
	c.start(0) // without the others it stores nothing, so a connection is never complete
	gone := authoritytest.Identity(t, c.a, identity.Agent, "ALPHA", roles.Agent)
	ended := make(chan error, 1)
	go func() {
		conn, err := qmgr.Connect(qmgrtest.Context(t), qmgr.ConnConfig{Name: "late", URL: c.urls(0), Identity: gone, Timeout: -1})
		if err == nil {
			conn.Close()
		}
		ended <- err
	}()
	until(t, "both its connections are made", func() bool {
		z, err := c.up[0].NS.Connz(nil)
		must(t, err)
		made := 0
		for _, x := range z.Conns {
			if strings.HasPrefix(x.Name, "late ") {
				made++
			}
		}
		return made >= 2
	})
	must(t, c.a.Revoke(gone.Name(), ""))
	claims, err := c.a.Claims()
	must(t, err)
	must(t, c.up[0].Admit(claims))
	select {
	case err := <-ended:
		if transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("the connection ended with %v, want kind %s", err, transfer.KindDenied)
		}
	case <-time.After(electing):
		t.Error("the revoked identity still connects")
	}
}

// Two of one name, and two clusters by one route, are told apart with a sentence, and neither gets in.
func TestMembersThatCannotBe(t *testing.T) {
	t.Parallel()
	c := newTrio(t, nil)
	c.start(0, 1)
	var said strings.Builder
	var mu sync.Mutex
	cfg := c.config(2)
	cfg.Name = "QM1"
	cfg.Log = slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return said.Write(b)
	}), nil))
	hears := func(text string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Contains(said.String(), text)
		}
	}
	s, err := Start(qmgrtest.Context(t), cfg)
	must(t, err)
	until(t, "it is said that two have one name", hears("another queue manager of the cluster has the name QM1"))
	s.Shutdown()
	cfg.Name, cfg.Dir = "QM3", t.TempDir()
	cfg.Cluster.Name = "Y"
	s, err = Start(qmgrtest.Context(t), cfg)
	must(t, err)
	t.Cleanup(s.Shutdown)
	until(t, "it is said that there are two clusters", hears("of cluster X has come by a route to this one of cluster Y"))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// A member with a configured size of the store for stored delivery starts, whichever other members are there. The store
// has that size, and as many replicas as the other queues once all members are there, whether it was asked for before
// or not.
func TestTheStoreOfAClusterHasItsSize(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprint("asked for before ", early), func(t *testing.T) { storeOfTrio(t, early) })
	}
}

func storeOfTrio(t *testing.T, early bool) {
	t.Parallel()
	c := newTrio(t, nil)
	c.maxStored[0] = streams.MinMaxStored
	c.of = 2
	c.start(0, 1)
	c.whole(0, 1)
	conn := connect(t, qmgr.ConnConfig{URL: c.urls(0, 1), Timeout: electing})
	enqueueSoon(t, conn, "ferry.command.A.me", "the two have one that leads")
	l := streams.Library{JS: func() jetstream.JetStream { return jsOf(conn) }, MaxStored: streams.MinMaxStored}
	if early {
		s, err := l.StoreStream(qmgrtest.Context(t))
		must(t, err)
		if n := s.CachedInfo().Config.Replicas; n != 1 {
			t.Fatalf("the store of two members has %d replicas", n)
		}
	} else if err := l.FitStore(qmgrtest.Context(t), l.CreateReplicated); !streams.TooFew(err) {
		t.Fatalf("two members of three have a store: %v", err)
	}
	c.of = 3
	c.start(2)
	c.whole(2)
	until(t, "the store is there, with its size and its replicas", func() bool {
		s, err := jsOf(conn).Stream(t.Context(), string(streams.StreamStore))
		if err != nil {
			return false
		}
		cfg := s.CachedInfo().Config
		return cfg.Replicas == streams.Replicas && cfg.MaxBytes == streams.MinMaxStored
	})
}
