package sender

import (
	"log/slog"
	"testing"
	"time"

	"ferry/internal/flow"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A pause is a clock that stands still until the test moves it.
type pause struct {
	clock.Clock
	now time.Time
}

func (c *pause) Now() time.Time { return c.now }

// A told is a Link that keeps each message.
type told struct{ all []*wire.Message }

func (l *told) Send(_ transfer.AgentName, m *wire.Message) error {
	l.all = append(l.all, m)
	return nil
}

// A crawling lane takes messages and reports the bytes that its link has carried.
type crawling struct {
	Lane
	bytes   uint64
	waiting bool
}

func (l *crawling) Carried() (uint64, bool) { return l.bytes, l.waiting }

// While the link carries bytes of a message and has more to carry, the destination does not count as silent. The
// destination gets keepalives beside the data.
func TestALongMessageIsNoSilence(t *testing.T) {
	start := time.Unix(1e9, 0)
	now, link, lane := &pause{now: start}, &told{}, &crawling{waiting: true}
	p := &stream{epoch: 4}
	p.cfg = &Config{Agent: "A", Clock: now, Link: link}
	p.lane, p.controller = lane, &flow.Controller{}
	p.peer = &peer{p.cfg, slog.New(slog.DiscardHandler), p.ID, "B"}
	f := p.controller.Join(func() {})
	p.flight = f
	p.flying.Store(f)
	f.Send(1, 16<<10, start)
	f.Out(start)
	tick := func(bytes uint64) bool {
		now.now, lane.bytes = now.now.Add(time.Second), lane.bytes+bytes
		p.keepalive.check(p)
		silent := p.silent(start)
		p.keepalive.send(p)
		return silent
	}
	for n := range 40 {
		if tick(100) {
			t.Fatalf("after %d s the destination is taken for silent, though the line carries the message", n)
		}
	}
	if n := len(link.all); n < 10 || n > 20 {
		t.Errorf("the destination was told %d times in 40 s that the source lives", n)
	}
	for _, m := range link.all {
		if m.Kind != wire.KindAlive || m.Alive.Epoch != 4 {
			t.Errorf("the destination was told %s", m.Kind)
		}
	}

	for deed, bytes := range map[string]uint64{"the line carried nothing": 0, "other data alone were carried, and nothing waited": 100} {
		silent := false
		lane.waiting = bytes == 0
		for range 9 {
			silent = tick(bytes)
		}
		if !silent {
			t.Errorf("%s for 9 s, and the destination is not taken for silent", deed)
		}
		start = now.now
		f.Controller().NoteActivity(start)
	}
}

// The source sends ALIVE only while a message is in flight and no other message shows that it lives. It sends none at
// once, none with a store in between, and none without a message.
func TestKeepalivesAreFew(t *testing.T) {
	for _, c := range []struct {
		name  string
		sent  bool
		store StoredLane
		after time.Duration
		told  int
	}{
		{"a message was sent a second ago", true, nil, time.Second, 0},
		{"a message takes long", true, nil, 3 * time.Second, 1},
		{"nothing is on the line", false, nil, time.Minute, 0},
		{"the messages go into the store", true, unusedLane{}, time.Minute, 0},
	} {
		start := time.Unix(1e9, 0)
		now, link := &pause{now: start}, &told{}
		p := &stream{epoch: 4}
		p.cfg = &Config{Agent: "A", Clock: now, Link: link}
		p.controller, p.durable = &flow.Controller{}, c.store
		p.peer = &peer{p.cfg, slog.New(slog.DiscardHandler), p.ID, "B"}
		f := p.controller.Join(func() {})
		p.flying.Store(f)
		if c.sent {
			f.Send(1, 1000, start)
			f.Out(start)
		}
		now.now = start.Add(c.after)
		p.keepalive.send(p)
		p.keepalive.send(p)
		if len(link.all) != c.told {
			t.Errorf("%s: the destination was told %d times that the source lives", c.name, len(link.all))
		}
	}
}

// An unusedLane is a lane into a store that is not used.
type unusedLane struct{ StoredLane }

// An arrived message is no longer in flight, though it is not acknowledged. A message that was not sent cannot have
// arrived.
func TestArrivedIsNotOnTheLink(t *testing.T) {
	start := time.Unix(1e9, 0)
	p := &stream{}
	p.cfg, p.controller, p.feeder = &Config{Clock: &pause{now: start}}, &flow.Controller{}, make(wakeup, 1)
	f := p.controller.Join(func() {})
	p.flying.Store(f)
	for seq := uint64(1); seq <= 4; seq++ {
		f.Send(seq, 4<<10, start)
		p.sealed.Store(seq)
	}
	if f.May(start) {
		t.Fatal("there is room beside four messages")
	}
	ack := &wire.Ack{Epoch: 1, Here: 3}
	p.acked(ack)
	if !f.May(start) {
		t.Error("messages that have arrived are still counted as on the line")
	}

	o := &Outgoing{}
	o.live = &figures{high: map[uint64]int64{}}
	if why := o.checkAck(p, ack); why != "" {
		t.Error(why)
	}
	for _, a := range []*wire.Ack{{Here: 5}, {Seq: 5}} {
		if o.checkAck(p, a) == "" {
			t.Errorf("an ACK of messages that were not sent is believed: %+v", a)
		}
	}
}
