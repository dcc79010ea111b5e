package receiver

import (
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Silence counts from the last contact. Without a contact in this run, it counts from the last one of an earlier run.
func TestSilence(t *testing.T) {
	now := time.Unix(10_000, 0)
	c := contact{since: now.Add(-time.Minute), before: time.Hour}
	if s := c.silence(now); s != time.Hour+time.Minute {
		t.Errorf("it has been silent for %s", s)
	}
	c.at = now.Add(-time.Second)
	if s := c.silence(now); s != time.Second {
		t.Errorf("it has been silent for %s", s)
	}
}

// A source may send a keepalive for a transfer without an entry on this side, for example after an OPEN that was
// refused.
func TestAKeepaliveWithoutARecord(t *testing.T) {
	r, _, said := resting(t)
	i := r.newActor(transfer.NewID(time.Now()), "ALPHA")
	i.control(&wire.Message{Kind: wire.KindAlive, From: "ALPHA", Transfer: i.id, Alive: &wire.Alive{Epoch: 1}})
	i.control(newUnexpectedChunk(wire.Header{Transfer: i.id, Epoch: 1}))
	if len(said.all) > 0 {
		t.Errorf("the answer is %v", said.all[0].Kind)
	}
}
