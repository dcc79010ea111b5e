package qmgr

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/transfer"
)

func TestMessagesArriveInOrder(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := start(t, t.TempDir(), "127.0.0.1:0")
	for name, cfg := range map[string]ConnConfig{"in process": {Server: s}, "over TCP": {URL: s.URL()}} {
		t.Run(name, func(t *testing.T) {
			a, b := connect(t, cfg), connect(t, cfg)
			const n = 2000
			got := make(chan link.Message, 2*n)
			for _, sub := range []func(string, func(link.Message)) (func(), error){a.Subscribe, a.SubscribeData} {
				stop, err := sub("x.>", func(m link.Message) { got <- m })
				if err != nil {
					t.Fatal(err)
				}
				for i := range n {
					if err := b.PublishData("x.y", fmt.Append(nil, i)); err != nil {
						t.Fatal(err)
					}
				}
				for i := range n {
					m := qmgrtest.Receive(t, "message", got)
					if m.Subject != "x.y" || string(m.Data) != fmt.Sprint(i) {
						t.Fatalf("message %d is %q on %s", i, m.Data, m.Subject)
					}
				}
				stop()
			}
		})
	}
}

func TestLargeDataMessages(t *testing.T) {
	s := start(t, t.TempDir(), "127.0.0.1:0")
	a, b := connect(t, ConnConfig{URL: s.URL()}), connect(t, ConnConfig{Server: s})
	got := make(chan []byte, 64)
	if _, err := a.SubscribeData("big.>", func(m link.Message) { got <- m.Data }); err != nil {
		t.Fatal(err)
	}
	chunk := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for range 32 {
		if err := b.PublishData("big.a", chunk); err != nil {
			t.Fatal(err)
		}
	}
	for range 32 {
		if !bytes.Equal(qmgrtest.Receive(t, "chunk", got), chunk) {
			t.Fatal("a chunk is damaged")
		}
	}
	qmgrtest.WantKind(t, b.PublishData("big.a", make([]byte, 2<<20+1)), transfer.KindTooLarge, "2097153", "2097152")
}

func TestRequest(t *testing.T) {
	qmgrtest.NoLeaks(t)
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), "")})
	_, err := c.Request(t.Context(), "ferry.ask.NOBODY.me", nil, qmgrtest.Patience)
	qmgrtest.WantKind(t, err, transfer.KindUnreachable, "ferry.ask.NOBODY.me")

	stop, err := c.Subscribe("ferry.ask.A.*", func(m link.Message) {
		if string(m.Data) == "ping" {
			c.Publish(m.Reply, []byte("pong"))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Request(t.Context(), "ferry.ask.A.me", []byte("ping"), qmgrtest.Patience); err != nil || string(got) != "pong" {
		t.Errorf("the answer is %q, %v", got, err)
	}
	_, err = c.Request(t.Context(), "ferry.ask.A.me", []byte("silence"), 50*time.Millisecond)
	qmgrtest.WantKind(t, err, transfer.KindTimeout, "agent A has not answered in time")
	stop()
	qmgrtest.Eventually(t, "nobody listens any more", func() bool {
		_, err = c.Request(t.Context(), "ferry.ask.A.me", []byte("ping"), time.Second)
		return transfer.KindOf(err) == transfer.KindUnreachable
	})
}

// inTime gives the error of a Connect. It connects again with more time if the first try took all of the time.
func inTime(connect func(timeout time.Duration) error) (err error) {
	for timeout := 300 * time.Millisecond; timeout < qmgrtest.Patience; timeout *= 2 {
		if err = connect(timeout); err == nil || !strings.HasSuffix(strings.Split(err.Error(), ";")[0], ": timed out") {
			break
		}
	}
	return err
}

func TestConnectErrors(t *testing.T) {
	qmgrtest.NoLeaks(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	dead := qmgrtest.FreePort(t)
	for name, c := range map[string]struct {
		url   string
		kind  transfer.Kind
		words []string
	}{
		"nobody":    {"nats://" + dead, transfer.KindNoManager, []string{"no queue manager answers at nats://" + dead + ": connection refused; start one with `ferry up` or check --network"}},
		"silent":    {"nats://" + silent.Addr().String(), transfer.KindNoManager, []string{silent.Addr().String(), "says nothing"}},
		"password":  {"nats://me:secret@" + dead, transfer.KindNoManager, []string{"nats://me:xxxxx@" + dead}},
		"malformed": {"nats://%zz", transfer.KindUsage, []string{"nats://HOST:PORT"}},
		"empty":     {"", transfer.KindUsage, []string{"nats://HOST:PORT"}},
		"scheme":    {"http://" + dead, transfer.KindUsage, []string{`"http"`}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := qmgrtest.Context(t)
			qmgrtest.WantKind(t, inTime(func(timeout time.Duration) error {
				_, err := Connect(ctx, ConnConfig{URL: c.url, Timeout: timeout})
				return err
			}), c.kind, c.words...)
			if ctx.Err() != nil {
				t.Error("it took minutes")
			}
		})
	}
}

func TestConnectEndsWithItsContext(t *testing.T) {
	qmgrtest.NoLeaks(t)
	qmgrtest.WantKind(t, inTime(func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, err := Connect(ctx, ConnConfig{URL: "nats://" + qmgrtest.FreePort(t), Timeout: -1})
		return err
	}), transfer.KindNoManager, "refused")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := Connect(ctx, ConnConfig{URL: "nats://" + qmgrtest.FreePort(t), Timeout: -1})
	qmgrtest.WantKind(t, err, transfer.KindCancelled)
}

func TestConnectWaitsForTheServer(t *testing.T) {
	qmgrtest.NoLeaks(t)
	addr := qmgrtest.FreePort(t)
	connected := make(chan *Conn, 1)
	go func() {
		c, err := Connect(qmgrtest.Context(t), ConnConfig{URL: "nats://" + addr, Timeout: qmgrtest.Patience})
		if err != nil {
			t.Error(err)
		}
		connected <- c
	}()
	select {
	case <-connected:
		t.Fatal("connected without a queue manager")
	case <-time.After(300 * time.Millisecond):
	}
	start(t, t.TempDir(), addr)
	if c := qmgrtest.Receive(t, "connected", connected); c != nil {
		c.Close()
	}
}

// external starts a NATS server that is not ours.
func external(t *testing.T, opts *server.Options) string {
	opts.Host, opts.Port, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	opts.StoreDir = t.TempDir()
	ns, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	return "nats://" + ns.Addr().String()
}

func TestExternalServerWithoutJetStream(t *testing.T) {
	qmgrtest.NoLeaks(t)
	url := external(t, &server.Options{})
	_, err := Connect(qmgrtest.Context(t), ConnConfig{URL: url, Timeout: -1}) // it ends though its time is unlimited
	qmgrtest.WantKind(t, err, transfer.KindNoManager, url, "has no JetStream; Ferry's command queue needs it; start it with -js")
}

func TestExternalServerShowsItsLimits(t *testing.T) {
	qmgrtest.NoLeaks(t)
	url := external(t, &server.Options{JetStream: true, MaxPayload: 512 << 10, ServerName: "theirs"})
	c := connect(t, ConnConfig{URL: url})
	f := c.Facts()
	if f.ServerName != "theirs" || f.URL != url || f.MaxPayload != 512<<10 || f.InProcess {
		t.Errorf("facts are %+v", f)
	}
	if f.Reduced != "the queue manager does not say whether it syncs always" {
		t.Errorf("reduced durability is %q", f.Reduced)
	}
	large := make([]byte, 600<<10)
	rand.Read(large) // compressible data would fit
	qmgrtest.WantKind(t, c.Enqueue(t.Context(), "ferry.command.A.x", "", large), transfer.KindTooLarge, "524288")
}

func TestExternalServerOfTheSystemAccountIsRead(t *testing.T) {
	for _, always := range []bool{true, false} {
		// A user of an account that imports the server's own answers sees them.
		opts := &server.Options{}
		conf := fmt.Sprintf(`
			jetstream { store_dir: %q, sync_interval: %s }
			accounts {
				SYS { users: [{user: sys, password: p}], exports: [{service: "$SYS.REQ.SERVER.PING.VARZ", response: stream}] }
				APP { jetstream: enabled, users: [{user: app, password: p}], imports: [{service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ"}}] }
			}
			system_account: SYS`, t.TempDir(), map[bool]string{true: "always", false: "30s"}[always])
		if err := opts.ProcessConfigString(conf); err != nil {
			t.Fatal(err)
		}
		url := external(t, opts)
		c := connect(t, ConnConfig{URL: "nats://app:p@" + url[len("nats://"):]})
		want := "the queue manager acknowledges messages up to 30s before it syncs them"
		if always {
			want = ""
		}
		if got := c.Facts().Reduced; got != want {
			t.Errorf("always %t: reduced durability is %q; want %q", always, got, want)
		}
	}
}

func TestConnComesBack(t *testing.T) {
	qmgrtest.NoLeaks(t)
	addr, dir := qmgrtest.FreePort(t), t.TempDir()
	s := start(t, dir, addr)
	ons, offs := make(chan bool, 100), make(chan error, 100)
	c := connect(t, ConnConfig{URL: s.URL(), OnConnect: func() { ons <- true }, OnDisconnect: func(err error) { offs <- err }})
	qmgrtest.Receive(t, "the first OnConnect", ons)
	got, gotData := make(chan link.Message, 10), make(chan link.Message, 10)
	c.Subscribe("a.b", func(m link.Message) { got <- m })
	c.SubscribeData("a.>", func(m link.Message) { gotData <- m })

	s.Shutdown()
	if err := qmgrtest.Receive(t, "OnDisconnect", offs); err == nil {
		t.Error("OnDisconnect has no error")
	}
	qmgrtest.Eventually(t, "both links know that they are down", func() bool { return !c.control.Up.Load() && !c.data.Up.Load() })
	for _, publish := range []func(string, []byte) error{c.Publish, c.PublishData} {
		failed := make(chan error, 1)
		go func() { failed <- publish("a.b", []byte("lost")) }()
		qmgrtest.WantKind(t, qmgrtest.Receive(t, "a publish fails", failed), transfer.KindNoManager, addr, "not connected")
	}
	_, err := c.Request(t.Context(), "a", nil, time.Second)
	qmgrtest.WantKind(t, err, transfer.KindNoManager)
	qmgrtest.WantKind(t, c.Healthy(t.Context()), transfer.KindNoManager)
	_, err = c.SetOwner(t.Context(), "k", nil, 0)
	qmgrtest.WantKind(t, err, transfer.KindNoManager)

	begun := time.Now()
	start(t, dir, addr)
	qmgrtest.Receive(t, "OnConnect after the restart", ons)
	t.Logf("connected again %s after the start", time.Since(begun).Round(time.Millisecond))
	qmgrtest.Eventually(t, "healthy", func() bool { return c.Healthy(t.Context()) == nil })
	if err := c.PublishData("a.b", []byte("found")); err != nil {
		t.Fatal(err)
	}
	for _, ch := range []chan link.Message{got, gotData} {
		if m := qmgrtest.Receive(t, "a message on the old subscription", ch); string(m.Data) != "found" {
			t.Errorf("the message is %q", m.Data)
		}
	}
}

// A proxy stands between a client and a server. When broken, it reads everything and passes nothing on, as a path does
// that drops packets.
type proxy struct {
	net.Listener
	to string

	mu     sync.Mutex
	conns  []net.Conn
	broken bool
	held   bool // the server's output is kept
	kept   map[net.Conn][]byte
}

func newProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to, kept: map[net.Conn][]byte{}}
	go p.run()
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.conns {
			c.Close()
		}
	})
	return p
}

func (p *proxy) run() {
	for {
		in, err := p.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.conns = append(p.conns, in)
		out, err := net.Dial("tcp", p.to)
		if err == nil && !p.broken {
			p.conns = append(p.conns, out)
			go p.pass(out, in, false)
			go p.pass(in, out, true)
		}
		p.mu.Unlock()
	}
}

func (p *proxy) pass(to, from net.Conn, answers bool) {
	buf := make([]byte, 64<<10)
	for dead := false; ; {
		n, err := from.Read(buf)
		p.mu.Lock()
		dead = dead || p.broken // a connection that was broken stays so
		if answers && p.held {
			p.kept[to] = append(p.kept[to], buf[:n]...)
			n = 0
		}
		p.mu.Unlock()
		if !dead && n > 0 {
			to.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) set(broken bool) {
	p.mu.Lock()
	p.broken = broken
	p.mu.Unlock()
}

// stalled runs f while nothing is passed on, and soon nothing read either.
func (p *proxy) stalled(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// hold keeps the server's output from now on.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
}

// release passes on the kept output if it is complete: ready gets the output of each connection, and returns the bytes
// to write instead, or nil. release reports whether one was ready.
func (p *proxy) release(ready func([]byte) []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for to, b := range p.kept {
		b = ready(b)
		if b == nil {
			continue
		}
		p.held = false
		p.kept[to] = b
		for to, b := range p.kept {
			to.Write(b)
		}
		clear(p.kept)
		return true
	}
	return false
}

func TestBlackHole(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := start(t, t.TempDir(), "127.0.0.1:0")
	p := newProxy(t, s.URL()[len("nats://"):])
	ons, offs := make(chan bool, 100), make(chan error, 100)
	c := connect(t, ConnConfig{URL: "nats://" + p.Addr().String(), times: times{100 * time.Millisecond, 200 * time.Millisecond, time.Second, defaultTimes.pullHeartbeat},
		OnConnect: func() { ons <- true }, OnDisconnect: func(err error) { offs <- err }})
	qmgrtest.Receive(t, "the first OnConnect", ons)
	p.set(true)
	qmgrtest.Receive(t, "the watchdog cut", offs)
	p.set(false)
	qmgrtest.Receive(t, "connected again", ons)
	qmgrtest.Eventually(t, "healthy", func() bool { return c.Healthy(t.Context()) == nil })
}

// The library gives up for good on errors that it does not know. The Conn does
// not.
func TestConnOutlivesTheLibrarys(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := start(t, t.TempDir(), "127.0.0.1:0")
	c := connect(t, ConnConfig{URL: s.URL()})
	got := make(chan link.Message, 10)
	c.Subscribe("a", func(m link.Message) { got <- m })
	cmds, _ := consume(t, c, commands)
	old := c.control.NATS()
	old.Close()
	qmgrtest.Eventually(t, "a new session", func() bool { return c.control.NATS() != old && c.Healthy(t.Context()) == nil })
	qmgrtest.Eventually(t, "the subscription is there again", func() bool {
		c.Publish("a", []byte("again"))
		select {
		case <-got:
			return true
		default:
			return false
		}
	})
	enqueue(t, c, "ferry.command.A.x", "one")
	if m := qmgrtest.Receive(t, "a command", cmds); m != "one" {
		t.Errorf("the command is %q", m)
	}
}

func TestClosedConn(t *testing.T) {
	qmgrtest.NoLeaks(t)
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), "")})
	ended := make(chan error, 1)
	go func() { ended <- c.Consume(context.Background(), commands, func(Delivery) {}) }()
	c.Close()
	qmgrtest.WantKind(t, qmgrtest.Receive(t, "Consume ended", ended), transfer.KindNoManager, "closed")
	qmgrtest.WantKind(t, c.Publish("a", nil), transfer.KindNoManager, "closed")
	qmgrtest.WantKind(t, c.Enqueue(t.Context(), "ferry.command.A.x", "", nil), transfer.KindNoManager, "closed")
	c.Close()
}

func BenchmarkData(b *testing.B) {
	const size, window = 256 << 10, 50
	s := start(b, b.TempDir(), "127.0.0.1:0")
	for name, cfg := range map[string]ConnConfig{"InProcess": {Server: s}, "TCP": {URL: s.URL()}} {
		b.Run(name, func(b *testing.B) {
			from, to := connect(b, cfg), connect(b, cfg)
			credit := make(chan bool, window)
			stop, err := to.SubscribeData("d."+name+".>", func(link.Message) { <-credit })
			if err != nil {
				b.Fatal(err)
			}
			defer stop()
			chunk := make([]byte, size)
			b.SetBytes(size)
			for b.Loop() {
				credit <- true
				if err := from.PublishData("d."+name+".x", chunk); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A client without data does everything over one connection, and has it back after a loss.
func TestOneConnectionForWhoAsks(t *testing.T) {
	qmgrtest.NoLeaks(t)
	dir, listen := t.TempDir(), qmgrtest.FreePort(t)
	s := start(t, dir, listen)
	up := make(chan struct{}, 8)
	c := connect(t, ConnConfig{URL: s.URL(), Asks: true, OnConnect: func() { up <- struct{}{} }})
	qmgrtest.Receive(t, "the first connect", up)
	if n := s.NS.NumClients(); n != 2 { // and the queue manager's own
		t.Errorf("there are %d connections", n)
	}
	got := make(chan string, 8)
	stop, err := c.SubscribeData("ferry.data.A.>", func(m link.Message) { got <- string(m.Data) })
	must(t, err)
	defer stop()
	s.Shutdown()
	start(t, dir, listen)
	qmgrtest.Receive(t, "the second connect", up)
	must(t, c.Healthy(qmgrtest.Context(t)))
	must(t, c.PublishData("ferry.data.A.B.x", []byte("one")))
	if m := qmgrtest.Receive(t, "a message", got); m != "one" {
		t.Errorf("got %q", m)
	}
}

// A message for receivers other than Ferry is not changed; one for Ferry may be compressed.
func TestPlainMessages(t *testing.T) {
	s := start(t, t.TempDir(), "127.0.0.1:0")
	c := connect(t, ConnConfig{Server: s})
	got := make(chan link.Message, 2)
	stop, err := c.control.Subscribe("x", func(m link.Message) { got <- m }) // as any NATS client hears it
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	data := bytes.Repeat([]byte("<item/>"), 4000)
	if err := PublishPlain(c, "x", data); err != nil {
		t.Fatal(err)
	}
	if m := qmgrtest.Receive(t, "message", got); !bytes.Equal(m.Data, data) {
		t.Errorf("a plain message is %d bytes, not %d", len(m.Data), len(data))
	}
	if err := c.Publish("x", data); err != nil {
		t.Fatal(err)
	}
	if m := qmgrtest.Receive(t, "message", got); len(m.Data) >= len(data) {
		t.Error("a message for Ferry is not compressed, so that this test says nothing")
	}
}
