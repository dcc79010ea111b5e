package sender

import (
	"log/slog"
	"testing"
	"time"

	"ferry/internal/clock"
	"ferry/internal/flow"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A pause is a clock that stands still until it is told otherwise.
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

// A crawling lane takes messages and says how far its line has got.
type crawling struct {
	Lane
	bytes   uint64
	waiting bool
}

func (l *crawling) Carried() (uint64, bool) { return l.bytes, l.waiting }

// While the line carries bytes of a message and has more to carry, the destination is not taken for silent, and
// hears beside the data that the source lives.
func TestALongMessageIsNoSilence(t *testing.T) {
	start := time.Unix(1e9, 0)
	now, link, lane := &pause{now: start}, &told{}, &crawling{waiting: true}
	p := &pump{epoch: 4}
	p.cfg = &Config{Agent: "A", Clock: now, Link: link}
	p.to, p.log, p.lane, p.line = "B", slog.New(slog.DiscardHandler), lane, &flow.Line{}
	f := p.line.Join(func() {})
	p.flight = f
	p.out.Store(f)
	f.Send(1, 16<<10, start)
	f.Out(start)
	tick := func(bytes uint64) bool {
		now.now, lane.bytes = now.now.Add(time.Second), lane.bytes+bytes
		p.vitals.look(p)
		silent := p.silent(start)
		p.vitals.say(p)
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

	silent := false
	for range 9 {
		silent = tick(0)
	}
	if !silent {
		t.Error("after 9 s in which the line carried nothing the destination is not taken for silent")
	}
}
