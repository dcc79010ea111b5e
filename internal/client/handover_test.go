package client_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A lossyLine is between a submitter and a queue manager. It loses the acknowledgement of the first message for a
// command queue: that alone, or all answers until the link is open again.
type lossyLine struct {
	net.Listener
	to   string
	one  bool // the acknowledgement alone is lost
	held atomic.Bool
	open chan struct{}
}

func newLossyLine(t *testing.T, to string, one bool) *lossyLine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &lossyLine{Listener: l, to: to, one: one, open: make(chan struct{})}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				return
			}
			go s.pass(out, in, func(b []byte) (lost bool) {
				if bytes.Contains(b, []byte("PUB ferry.command.ALPHA.")) {
					s.held.Store(true)
				}
				return false
			})
			go s.pass(in, out, func(b []byte) (lost bool) {
				switch {
				case s.one:
					return bytes.Contains(b, []byte(`{"stream":"FERRY_COMMAND"`)) && s.held.CompareAndSwap(true, false)
				case s.held.Load():
					<-s.open
				}
				return false
			})
		}
	}()
	return s
}

func (s *lossyLine) pass(to, from net.Conn, seen func([]byte) (lost bool)) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if seen(buf[:n]) {
			continue
		}
		if _, e := to.Write(buf[:n]); err != nil || e != nil {
			return
		}
	}
}

// A desk is a queue manager with a submitter to the agent ALPHA. It hears the messages
// to coordination.
type desk struct {
	*testing.T
	server *server.Server
	told   atomic.Int64 // how often coordination was told of a transfer that waits
	sub    *client.Client
	q      *transfer.Request
}

func newDesk(t *testing.T, ctx context.Context, line func(addr string) string) *desk {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	server, err := server.Start(ctx, server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	d := &desk{T: t, server: server, q: &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}}
	url := server.URL()
	if line != nil {
		url = "nats://" + line(strings.TrimPrefix(url, "nats://"))
	}
	conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: url, Name: "submitter", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	d.sub = &client.Client{Conn: conn, Clock: clock.System, Who: transfer.Originator{User: "user", Host: "host"}}
	if _, err := d.connect(ctx, "coordination").Subscribe(wire.AllAsks(wire.Coordination), func(m qmgr.Message) {
		if a, err := wire.DecodeAsk(m.Data); err == nil && a.Kind == wire.AskQueued && a.Queued.State == transfer.Queued {
			d.told.Add(1)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) connect(ctx context.Context, name string) *qmgr.Conn {
	d.Helper()
	c, err := qmgr.Connect(ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: d.server.URL(), Name: name, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(c.Close)
	return c
}

// submit hands the request over, for as long as ctx lasts, and expects the handover to end so.
func (d *desk) submit(ctx context.Context, at client.Handover, code int, says string) {
	d.Helper()
	p, err := d.sub.Submit(ctx, d.q, nil)
	d.ended(p, err, at, code, says)
}

// ended expects a handover to have ended so.
func (d *desk) ended(p *transfer.Progress, err error, at client.Handover, code int, says string) {
	d.Helper()
	var h *client.HandoverError
	if p != nil || !errors.As(err, &h) || h.At != at || transfer.KindOf(err).Code() != code || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), d.q.ID.String()) {
		d.Errorf("the handover ends with %+v, %v (%d)", p, err, transfer.KindOf(err).Code())
	}
	if d.told.Load() > 0 != (at == client.Stored) {
		d.Errorf("a request that is %s is listed %d times", at, d.told.Load())
	}
}

func brief(ctx context.Context) (context.Context, func()) {
	return context.WithTimeout(ctx, time.Second)
}

// tried gives a context that ends when the submitter has tried once to store its request and waits for the receipt:
// it makes a timer then. A request that is to be stored has also come to coordination by then.
func (d *desk) tried(ctx context.Context, stored bool) (context.Context, func()) {
	timers := &handTimers{}
	d.sub.Clock = timers
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for timers.made() == 0 || stored && d.told.Load() == 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}

// A request is queued only if the queue manager has acknowledged that it has stored it.
func TestWhatIsQueuedIsStored(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	t.Run("stored", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, ctx, nil)
		ctx, cancel := d.tried(ctx, true)
		defer cancel()
		d.submit(ctx, client.Stored, transfer.CodeTimeout, "gets transfer")
	})
	t.Run("the queue is full", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, ctx, nil)
		subject := wire.CommandSubject("ALPHA", d.sub.Conn.Self())
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
				defer cancel()
				for full := false; !full; {
					try, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
					full = d.sub.Conn.Enqueue(try, subject, "", []byte("x")) != nil
					cancel()
				}
			})
		}
		all.Wait()
		until(t, "the queue manager has dealt with all messages", func() bool {
			try, cancel := brief(ctx)
			defer cancel()
			return transfer.KindOf(d.sub.Conn.Enqueue(try, subject, "", []byte("x"))) == transfer.KindNoSpace
		})
		var p *transfer.Progress
		var err error
		until(t, "the queue manager answers while the submitter waits for it", func() bool {
			ctx, cancel := d.tried(ctx, false)
			defer cancel()
			p, err = d.sub.Submit(ctx, d.q, nil)
			return client.HandoverOf(err) != client.Unacknowledged // the answer was too late, as on a busy host
		})
		d.ended(p, err, client.Refused, transfer.CodeNoManager, "has not stored transfer")
	})
	t.Run("no queue manager", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, ctx, nil)
		d.server.Shutdown()
		until(t, "the connection is lost", func() bool { return d.sub.Conn.Lost() > 0 })
		ctx, cancel := d.tried(ctx, false)
		defer cancel()
		d.submit(ctx, client.NotSent, transfer.CodeNoManager, "was not sent")
		_, err := client.AtAgent{Client: d.sub, Agent: "ALPHA"}.Command(ctx, wire.ControlCancel, wire.OfTransfer{Transfer: d.q.ID})
		if client.HandoverOf(err) != client.NotSent || transfer.KindOf(err).Code() != transfer.CodeNoManager {
			t.Errorf("a command: %v", err)
		}
	})
	for _, opens := range []bool{false, true} {
		t.Run(map[bool]string{false: "the acknowledgement is lost", true: "the acknowledgement is lost, the request is withdrawn"}[opens], func(t *testing.T) {
			t.Parallel()
			var line *lossyLine
			d := newDesk(t, ctx, func(addr string) string { line = newLossyLine(t, addr, opens); return line.Addr().String() })
			agent := d.connect(ctx, "agent")
			during, stop := context.WithCancel(ctx)
			defer stop()
			got, controlled := make(chan struct{}, 8), make(chan struct{}, 1)
			go agent.Consume(ctx, streams.Commands("ALPHA"), func(m qmgr.Delivery) { m.Ack(); got <- struct{}{} })
			if _, err := agent.Subscribe(wire.AllAsks("ALPHA"), func(m qmgr.Message) {
				agent.Publish(m.Reply, wire.Marshal(wire.Answer{V: wire.Version}))
			}); err != nil {
				t.Fatal(err)
			}
			go agent.Consume(ctx, streams.Controls("ALPHA"), func(m qmgr.Delivery) {
				if c, err := wire.DecodeControl(m.Data); err == nil && c.Kind == wire.ControlWithdraw {
					agent.Publish(c.Reply, wire.Marshal(wire.Answer{V: wire.Version, ID: c.ID}))
				}
				m.Ack()
				select {
				case controlled <- struct{}{}:
				default:
				}
			})
			if err := agent.Enqueue(ctx, wire.ControlSubject("ALPHA", agent.Self()), "", []byte("x")); err != nil {
				t.Fatal(err)
			}
			<-controlled // the consumer is there
			go func() {
				<-got
				stop()
			}()
			if !opens {
				d.submit(during, client.Unacknowledged, transfer.CodeNoManager, "may have been stored")
				close(line.open)
				return
			}
			_, err := d.sub.Submit(during, d.q, nil)
			if transfer.KindOf(err) != transfer.KindNoManager || !strings.Contains(err.Error(), "it is withdrawn") {
				t.Errorf("the request: %v", err)
			}
		})
	}
}
