package receiver

import (
	"testing"
	"time"

	"ferry/internal/sys/clock"
	"ferry/internal/wire"
)

// A stopped clock gives the time that the test has set.
type stopped struct {
	clock.Clock
	now time.Time
}

func (c *stopped) Now() time.Time { return c.now }

// A source is silent after 10 s without a message or a keepalive. While its other transfers send, a silent transfer
// has 45 s.
func TestWhenASourceIsSilent(t *testing.T) {
	for _, c := range []struct {
		name    string
		deed    func(i *incoming, now time.Time) // 5 s after the last message
		now     time.Duration
		silent  bool
		another bool // another of its transfers sends all the time
	}{
		{name: "9 s without a word", now: 9 * time.Second},
		{name: "11 s without a word", now: 11 * time.Second, silent: true},
		{name: "it lives, 9 s ago", now: 14 * time.Second, deed: alive(1)},
		{name: "it lives, 11 s ago", now: 16 * time.Second, deed: alive(1), silent: true},
		{name: "it lives in an epoch that is over", now: 11 * time.Second, deed: alive(7), silent: true},
		{name: "another transfer sends, for 44 s", now: 44 * time.Second, another: true},
		{name: "another transfer sends, for 45 s", now: 45 * time.Second, another: true, silent: true},
	} {
		r, id, _ := resting(t)
		now := &stopped{Clock: r.cfg.Clock, now: r.cfg.Clock.Now()}
		r.cfg.Clock = now
		began := now.now
		i := live(t, r, id)
		i.ep.silentAt = began.Add(sourceSilent)
		i.contact.at, i.contact.noted = began, began
		for after := time.Second; after <= c.now; after += time.Second {
			now.now = began.Add(after)
			if after == 5*time.Second && c.deed != nil {
				c.deed(i, now.now)
			}
			if c.another {
				r.heard.record("ALPHA", now.now)
			}
			i.due(now.now)
		}
		if i.ep.Live == c.silent {
			t.Errorf("%s: the transfer keeps its slot: %v", c.name, i.ep.Live)
		}
	}
}

// alive returns a deed that sends ALIVE in an epoch.
func alive(epoch uint32) func(*incoming, time.Time) {
	return func(i *incoming, _ time.Time) {
		i.control(&wire.Message{Kind: wire.KindAlive, Alive: &wire.Alive{Epoch: epoch}})
	}
}

// An ALIVE to a destination without an open epoch is answered at once.
func TestASourceThatLivesHearsThatNoEpochIsOpen(t *testing.T) {
	r, id, said := resting(t)
	i := live(t, r, id)
	i.ep.Live = false
	alive(1)(i, time.Now())
	if len(said.all) != 1 || said.all[0].Kind != wire.KindBusy || said.all[0].Busy.Epoch != 1 {
		t.Errorf("the source was told %+v", said.all)
	}
}

// The messages that have arrived are counted for each epoch.
func TestArrivedIsOfAnEpoch(t *testing.T) {
	b := newMailbox()
	b.open()
	b.allow(1 << 20)
	b.chunk(arrivedChunk{m: make([]byte, 10), head: wire.Header{Epoch: 3, Seq: 9}}, 4096)
	if n := b.arrived(3); n != 9 {
		t.Errorf("message %d of the epoch has arrived", n)
	}
	if n := b.arrived(4); n != 0 {
		t.Errorf("message %d of another epoch has arrived", n)
	}
	b.chunk(arrivedChunk{m: make([]byte, 10), head: wire.Header{Epoch: 4, Seq: 2}}, 4096)
	if n := b.arrived(4); n != 2 {
		t.Errorf("message %d of the next epoch has arrived", n)
	}
}

// One transfer's ALIVE counts for all transfers of its source, and for no other source.
func TestOneTransferLivesForAllOfItsSource(t *testing.T) {
	r, id, _ := resting(t)
	r.actors[id] = live(t, r, id)
	now := r.cfg.Clock.Now()
	if r.heard.isSending("ALPHA", now) {
		t.Fatal("the source speaks before it has said a word")
	}
	r.Control(&wire.Message{Kind: wire.KindAlive, From: "OTHER", Transfer: id, Alive: &wire.Alive{Epoch: 1}})
	if r.heard.isSending("ALPHA", now) || r.heard.isSending("OTHER", now) {
		t.Error("another agent speaks for the source, or by a transfer that is not its own")
	}
	r.Control(&wire.Message{Kind: wire.KindAlive, From: "ALPHA", Transfer: id, Alive: &wire.Alive{Epoch: 1}})
	if !r.heard.isSending("ALPHA", now) {
		t.Error("the source is not heard")
	}
}
