package client_test

import (
	"context"
	"log/slog"
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

// An agent that cannot accept a request leaves it in its queue and reports that each time that it tries again. The
// request is not stored again meanwhile, however many pauses pass: the queue must not fill with it. It is stored again
// when the agent is silent: then the queue may have lost it.
func TestARequestThatIsNotTakenYetIsStoredAgainOnlyWhenItIsLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	connect := network(ctx, t)
	agent := connect("agent")
	var stored, said atomic.Int64
	var lose, take atomic.Bool
	go agent.Consume(ctx, streams.Queue{Stream: streams.StreamCommand, Durable: "command-ALPHA", Filter: wire.AllCommands("ALPHA")}, func(d qmgr.Delivery) {
		s, err := wire.DecodeSubmit(d.Data)
		if err != nil {
			t.Error(err)
			return
		}
		if d.Attempts == 1 {
			stored.Add(1)
		}
		answer := wire.Answer{V: wire.Version, ID: s.Request.ID, Error: transfer.Errorf(transfer.KindNoSpace, "the disk is full")}
		switch {
		case take.Load():
			answer = wire.Answer{V: wire.Version, ID: s.Request.ID, Progress: &transfer.Progress{ID: s.Request.ID, Source: "ALPHA", Destination: "BETA",
				Request: s.Request.Hash(), State: transfer.Accepted}}
		case lose.CompareAndSwap(true, false):
			d.Ack()
			return
		}
		agent.Publish(s.Reply, wire.Marshal(answer))
		agent.Request(ctx, wire.AskAgent("NOBODY", agent.Self()), nil, time.Second) // the answer is on its way
		said.Add(1)
		if take.Load() {
			d.Ack()
			return
		}
		d.Nak(10 * time.Millisecond)
	})
	hands := &handTimers{}
	s := &client.Client{Conn: connect("submitter"), Clock: hands, Who: transfer.Originator{User: "user", Host: "host"}}
	q := &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
	notices := make(chan error, 100)
	done := make(chan error, 1)
	go func() {
		_, err := s.Submit(ctx, q, func(err error) {
			select {
			case notices <- err:
			default: // no reader waits for it any more
			}
		})
		done <- err
	}()
	for range 3 {
		heard := said.Load()
		until(t, "the request comes back", func() bool { return said.Load() >= heard+3 })
		hands.ring()
		select {
		case err := <-notices:
			if transfer.KindOf(err) != transfer.KindNoSpace {
				t.Errorf("people are told %v", err)
			}
		case <-ctx.Done():
			t.Fatal("no notice has come")
		}
		if n := stored.Load(); n != 1 {
			t.Fatalf("the request is in its queue %d times", n)
		}
	}
	lose.Store(true)
	until(t, "the request is stored again", func() bool { hands.ring(); return stored.Load() > 1 })
	take.Store(true)
	until(t, "it is taken", func() bool {
		hands.ring()
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return true
		default:
			return false
		}
	})
}

// network starts a queue manager and returns a function that connects to it.
func network(ctx context.Context, t *testing.T) (connect func(name string) *qmgr.Conn) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	server, err := server.Start(ctx, server.Config{Dir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	return func(name string) *qmgr.Conn {
		cfg := qmgr.ConnConfig{Server: server, Name: name, Log: log}
		if name == wire.Coordination {
			cfg.Self = name
		}
		c, err := qmgr.Connect(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.After(90 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: not within 90 s", what)
		}
	}
}

// handTimers is the host's clock with timers that ring when they are told to.
type handTimers struct {
	mu  sync.Mutex
	all []*handTimer
}

type handTimer struct {
	clock.Timer
	c chan time.Time
}

func (h *handTimers) Now() time.Time { return time.Now() }

func (h *handTimers) NewTimer(time.Duration) clock.Timer {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := &handTimer{c: make(chan time.Time, 1)}
	h.all = append(h.all, t)
	return t
}

func (t *handTimer) C() <-chan time.Time { return t.c }
func (t *handTimer) Stop() bool          { return true }

// made returns the number of timers.
func (h *handTimers) made() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

func (h *handTimers) ring() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.all {
		select {
		case t.c <- time.Now():
		default:
		}
	}
}
