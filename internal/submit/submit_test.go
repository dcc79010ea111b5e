package submit_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/clock"
	"ferry/internal/qmgr"
	"ferry/internal/submit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An agent that cannot take a request says so at once, each time that it comes.
// The request is stored again only when the pause is over: the queue must not
// fill with it.
func TestARequestThatIsNotTakenYetIsNotStoredAgainAtOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	log := slog.New(slog.DiscardHandler)
	server, err := qmgr.StartServer(ctx, qmgr.ServerConfig{Dir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	connect := func(name string) *qmgr.Conn {
		c, err := qmgr.Connect(ctx, qmgr.ConnConfig{Server: server, Name: name, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	agent := connect("agent")
	var came atomic.Int64
	var taken atomic.Bool
	go agent.Consume(ctx, qmgr.Queue{Stream: qmgr.StreamCommand, Durable: "command-ALPHA", Filter: wire.AllCommands("ALPHA")}, func(d qmgr.Delivery) {
		s, err := wire.DecodeSubmit(d.Data)
		if err != nil {
			t.Error(err)
			return
		}
		answer := wire.Answer{V: wire.Version, Error: transfer.Errorf(transfer.KindNoSpace, "the disk is full")}
		if taken.Load() {
			answer = wire.Answer{V: wire.Version, Progress: &transfer.Progress{ID: s.Request.ID, State: transfer.Accepted}}
		}
		agent.Publish(s.Reply, wire.Marshal(answer))
		agent.Request(ctx, "nobody.is.here", nil, time.Second) // the answer is on its way
		came.Add(1)
		d.Ack()
	})
	hands := &handTimers{}
	s := &submit.Submitter{Conn: connect("submitter"), Clock: hands, Who: transfer.Originator{User: "user", Host: "host"}}
	q := &transfer.Request{Version: 1, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Sources: []transfer.Path{"a"}, Dest: "b"}
	notices := make(chan error, 100)
	done := make(chan error, 1)
	go func() {
		_, err := s.Submit(ctx, q, func(err error) { notices <- err })
		done <- err
	}()
	for round := int64(1); round <= 3; round++ {
		until(t, "the request comes", func() bool { return came.Load() >= round })
		for range 100 { // much later, as the queue manager sees it
			s.Conn.Request(ctx, "nobody.is.here", nil, time.Second)
		}
		if n := came.Load(); n != round {
			t.Fatalf("the request came %d times in %d pauses", n, round)
		}
		taken.Store(round == 2)
		hands.ring()
		select {
		case err := <-notices:
			if transfer.KindOf(err) != transfer.KindNoSpace {
				t.Errorf("people are told %v", err)
			}
		case err := <-done:
			if err != nil || round != 3 {
				t.Fatalf("it ended in round %d: %v", round, err)
			}
			return
		case <-ctx.Done():
			t.Fatal("nobody is told anything")
		}
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: not within 30 s", what)
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
