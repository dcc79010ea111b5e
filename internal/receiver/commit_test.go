package receiver

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/faulty"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/receiver/writing"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// sent are the messages that a receiver has sent.
type sent struct{ all []*wire.Message }

func (s *sent) Send(_ transfer.AgentName, m *wire.Message) error {
	s.all = append(s.all, m)
	return nil
}

// resting returns a receiver that has the entry of a transfer from ALPHA.
func resting(t *testing.T) (*Receiver, transfer.ID, *sent) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	l, err := ledger.Open(t.TempDir(), ledger.Options{Store: faulty.NewMemoryStore(), Files: faulty.NewMemoryFiles(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	id := transfer.NewID(time.Now())
	if err := l.Update(func(tx *ledger.Tx) error {
		return tx.PutIncoming(&ledger.Incoming{Request: transfer.Request{ID: id}, State: transfer.Receiving, Epoch: 1, Settings: transfer.DefaultSettings()})
	}); err != nil {
		t.Fatal(err)
	}

	said := &sent{}
	r := New(Config{Clock: clock.System, Ledger: l, Log: log, Link: said, Slots: 1, ItemSlots: 4, Pool: flow.NewPool(1<<20, 1<<20, 1, 4096),
		Note: func(*ledger.Tx, audit.Record) error { return nil }, Changed: func() {}})
	t.Cleanup(r.Stop)
	return r, id, said
}

// live returns an actor of that transfer, with an epoch that has begun.
func live(t *testing.T, r *Receiver, id transfer.ID) *incoming {
	t.Helper()
	i := r.newActor(id, "ALPHA")
	if err := i.entry.Load(); err != nil {
		t.Fatal(err)
	}
	i.ep = epoch{Epoch: writing.Epoch{Live: true}, begun: true, next: 1, account: r.cfg.Pool.Open(flow.RunAhead(i.entry.In.Settings))}
	return i
}

// commits makes the writer of a transfer commit an item that has failed at its source.
func commits(t *testing.T, i *incoming) {
	t.Helper()
	f := &wire.Frame{Type: wire.FrameFail, Item: 0, Source: "/b/a", Fail: transfer.Errorf(transfer.KindMissing, "gone")}
	if !i.w.Write(f, nil) || i.w.Idle() || !i.w.Commits() {
		t.Fatal("no group is being committed")
	}
}

// A group that ends together with its actor is reported: the source need not wait for the next run of the agent.
func TestTheLastGroupIsTold(t *testing.T) {
	r, id, said := resting(t)
	i := live(t, r, id)
	r.mu.Lock()
	r.actors[id] = i
	r.mu.Unlock()
	commits(t, i)
	r.ended(i)
	for _, m := range said.all {
		if m.Kind == wire.KindOutcomes && len(m.Outcomes.Outcomes) == 1 {
			return
		}
	}
	t.Errorf("%d messages were sent, and none has the outcome", len(said.all))
}

// An agent that stops does not take its waiting messages for a gap, and opens no epoch.
func TestAStopIsNoGap(t *testing.T) {
	r, id, said := resting(t)
	i := live(t, r, id)
	i.box.open()
	i.box.allow(1 << 20)
	b := wire.NewBuilder(4096, nil)
	for seq := range uint64(3) {
		b.Skip(5) // a frame that changes nothing
		m := b.Seal(wire.Header{Transfer: id, Epoch: 1, Seq: seq + 1})
		h, err := wire.PeekHeader(m)
		if err != nil {
			t.Fatal(err)
		}
		i.box.chunk(arrivedChunk{m: m, head: h, intact: true}, transfer.MaxChunk)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r.cancel()
	i.loop(ctx)
	for _, m := range said.all {
		if m.Kind == wire.KindResync {
			t.Error("a RESYNC was sent")
		}
	}
	if i.entry.In.Epoch != 1 || i.ep.Again != "" {
		t.Errorf("the epoch is %d, and is to end because %q", i.entry.In.Epoch, i.ep.Again)
	}
}

// A transfer that its source has cancelled is not decided, even with all items over: the table of states has no move
// from Decided to CANCELLED.
func TestWhatIsWithdrawnIsNotDecided(t *testing.T) {
	r, id, _ := resting(t)
	i := live(t, r, id)
	i.w.Write(&wire.Frame{Type: wire.FrameLast, Item: 0}, nil)
	i.withdrawn = true
	if i.finishIfDecided() || i.entry.In.State != transfer.Receiving {
		t.Errorf("it is %s", i.entry.In.State)
	}
	i.withdrawn = false
	if !i.finishIfDecided() || i.entry.In.State != transfer.Decided {
		t.Errorf("not withdrawn, it is %s", i.entry.In.State)
	}
}
