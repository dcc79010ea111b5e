package client_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A toldClock has a time that a test sets, and one timer: it reports when the timer is to ring, and the test rings it.
type toldClock struct {
	mu     sync.Mutex
	now    time.Time
	resets chan time.Duration
	rings  chan time.Time
}

func (c *toldClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *toldClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *toldClock) NewTimer(d time.Duration) clock.Timer {
	c.resets <- d
	return c
}

func (c *toldClock) C() <-chan time.Time { return c.rings }
func (c *toldClock) Stop() bool          { return true }

func (c *toldClock) Reset(d time.Duration) bool {
	c.resets <- d
	return true
}

// A report of the end causes a question at once, however short ago the last question was. Only the next question that
// a report causes comes 20 ms later.
func TestTheEndIsAskedForAtOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := network(ctx, t)
	source := connect("ALPHA")
	clk := &toldClock{now: time.Now(), resets: make(chan time.Duration, 16), rings: make(chan time.Time)}
	c := &client.Client{Conn: connect("submitter"), Clock: clk, Who: transfer.Originator{User: "user", Host: "host"}}
	q := &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
	picture := func(s transfer.State) *transfer.Progress {
		return &transfer.Progress{ID: q.ID, Source: "ALPHA", Destination: "BETA", Request: q.Hash(), State: s}
	}
	states := make(chan transfer.State, 1) // of the next answer
	if _, err := source.Subscribe(wire.AllAsks("ALPHA"), func(m qmgr.Message) {
		source.Answer(wire.LastToken(m.Subject), m.Reply, wire.Marshal(wire.Answer{V: wire.Version, ID: q.ID, Progress: picture(<-states)}))
	}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan transfer.State, 16)
	done := make(chan error, 1)
	go func() {
		p, err := c.Watch(ctx, client.Of(q), func(p *transfer.Progress) { shown <- p.State }, nil)
		if err == nil && p.State != transfer.Successful {
			t.Errorf("the outcome is %s", p.State)
		}
		done <- err
	}()
	next := func(what string, want time.Duration) {
		t.Helper()
		select {
		case d := <-clk.resets:
			if d != want {
				t.Fatalf("%s: the next question is to come after %s, and not after %s", what, d, want)
			}
		case err := <-done:
			t.Fatalf("%s: the watch has ended: %v", what, err)
		case <-ctx.Done():
			t.Fatalf("%s: no question is to come", what)
		}
	}
	ring := func(answer transfer.State) {
		t.Helper()
		states <- answer
		select {
		case clk.rings <- clk.Now():
		case <-ctx.Done():
			t.Fatal("the watch does not wait for its timer")
		}
	}
	isShown := func(want transfer.State) {
		t.Helper()
		select {
		case s := <-shown:
			if s != want {
				t.Fatalf("%s is shown, and not %s", s, want)
			}
		case <-ctx.Done():
			t.Fatalf("%s is not shown", want)
		}
	}
	report := func(s transfer.State) {
		t.Helper()
		if err := source.Publish(wire.ProgressSubject("ALPHA", c.Conn.Self()), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.ProgressKind, Progress: picture(s)})); err != nil {
			t.Fatal(err)
		}
	}

	next("at the start", 0)
	ring(transfer.Running)
	next("after the first answer", time.Second)
	isShown(transfer.Running)
	report(transfer.Successful)
	next("after a report of the end that comes right behind an answer", 0)
	ring(transfer.Running)
	next("after the second answer", 2*time.Second)
	isShown(transfer.Running)
	clk.pass(5 * time.Millisecond)
	report(transfer.Successful)
	next("after another report of the end", 15*time.Millisecond)
	report(transfer.Successful) // a question is about to be asked
	report(transfer.Running)
	isShown(transfer.Running)
	ring(transfer.Successful)
	next("after the last answer, beside no other question", 4*time.Second)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
