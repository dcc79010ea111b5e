package receiver

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/faulty"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// ends is a landing that ends its groups with the function of a test.
type ends struct {
	place.Landing
	commit func([]place.Pending) ([]transfer.Outcome, error)
}

func (l ends) Commit(_ context.Context, pend []place.Pending) ([]transfer.Outcome, error) {
	return l.commit(pend)
}

// part is a temporary that records its end.
type part struct {
	place.Part
	gone *string
}

func (ends) Close() error { return nil }

func (p part) Close() error   { *p.gone = "closed"; return nil }
func (p part) Discard() error { *p.gone = "discarded"; return nil }

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
	r := New(Config{Clock: clock.System, Ledger: l, Log: log, Link: said, Slots: 1, Places: 4, Pool: flow.NewPool(1<<20, 1<<20, 1, 4096),
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
	i.ep = epoch{live: true, begun: true, next: 1, account: r.cfg.Pool.Open(flow.RunAhead(i.entry.In.Settings))}
	return i
}

// The end of a group reports its outcomes and gives its places and bytes back. Its undecided items are kept for the
// next epoch, begin again, or wait.
func TestGroupsEnd(t *testing.T) {
	r, id, _ := resting(t)
	for _, c := range []struct {
		name  string
		err   error
		gone  string // the end of the temporary: closed or discarded
		stop  transfer.Kind
		again bool
	}{
		{name: "the place cannot be written", err: transfer.Errorf(transfer.KindNoSpace, "full"), gone: "closed", stop: transfer.KindNoSpace},
		{name: "the error says nothing", err: errors.New("odd"), gone: "closed", stop: transfer.KindBusy},
		{name: "a sync failed", err: &place.SyncError{Err: errors.New("input/output error")}, gone: "discarded", again: true},
		{name: "it is not what it was", err: &place.AgainError{Items: []place.Again{{Item: 0, Err: transfer.Errorf(transfer.KindConflict, "touched")}}}, gone: "closed", again: true},
		{name: "nothing went wrong"},
	} {
		i := live(t, r, id)
		gone := ""
		i.to.of, i.to.known = &transfer.Request{Dest: transfer.File("/b")}, map[uint64]*destination{}
		i.to.landed = ends{commit: func(pend []place.Pending) ([]transfer.Outcome, error) {
			if c.err != nil {
				return nil, c.err
			}
			o := []transfer.Outcome{pend[0].Outcome}
			return o, i.entry.Journal().Committed(o)
		}}
		r.places.take(time.Now())
		i.com.unsafe = 70
		i.com.grp.add(ending{pending: place.Pending{Part: part{gone: &gone}, Outcome: transfer.Outcome{Type: transfer.ItemFile, Path: "/b/a", Size: 70}}, size: 30, safe: 40})
		i.com.drain()
		if i.com.unsafe != 40 || r.places.single != 0 || !i.com.grp.idle() {
			t.Errorf("%s: %d bytes are unsafe, %d places are taken, idle %v", c.name, i.com.unsafe, r.places.single, i.com.grp.idle())
		}
		stop := transfer.KindNone
		if i.ep.stop != nil {
			stop = i.ep.stop.Kind
		}
		if gone != c.gone || stop != c.stop || (i.ep.again != "") != c.again {
			t.Errorf("%s: the temporary is %q, the epoch stops with %v, again %q", c.name, gone, stop, i.ep.again)
		}
		if decided := c.err == nil; i.entry.In.Decided.Has(0) != decided || len(i.com.offers.waiting) == 1 != decided || c.err == nil && !i.com.news {
			t.Errorf("%s: decided %v, %d outcomes wait, news %v", c.name, i.entry.In.Decided.Has(0), len(i.com.offers.waiting), i.com.news)
		}
		if (i.com.short.bytes > 0) != (c.stop == transfer.KindNoSpace) {
			t.Errorf("%s: %d bytes are missing", c.name, i.com.short.bytes)
		}
	}
}

// An item begins again a limited number of times while other processes touch its temporary.
func TestMeddling(t *testing.T) {
	cm := &committer{touched: map[uint64]int{}}
	moved := place.Again{Item: 3, Err: transfer.Errorf(transfer.KindMoved, "the directory has moved")}
	touched := place.Again{Item: 3, Err: transfer.Errorf(transfer.KindConflict, "it has changed")}
	for range 2 * maxMeddled {
		if cm.meddled(moved) {
			t.Fatal("a directory that moves counts against the item")
		}
	}
	for n := 1; n <= maxMeddled; n++ {
		if cm.meddled(touched) != (n == maxMeddled) {
			t.Errorf("touched %d times", n)
		}
	}
}

// A group that ends together with its actor is reported: the source need not wait for the next run of the agent.
func TestTheLastGroupIsTold(t *testing.T) {
	r, id, said := resting(t)
	i := live(t, r, id)
	r.mu.Lock()
	r.actors[id] = i
	r.mu.Unlock()
	gone := ""
	i.to.landed = ends{commit: func(pend []place.Pending) ([]transfer.Outcome, error) {
		o := []transfer.Outcome{pend[0].Outcome}
		return o, i.entry.Journal().Committed(o)
	}}
	r.places.take(time.Now())
	i.com.grp.add(ending{pending: place.Pending{Part: part{gone: &gone}, Outcome: transfer.Outcome{Type: transfer.ItemFile, Path: "/b/a"}}})
	i.com.handOver()
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
	i.to.landed = ends{}
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
		i.box.chunk(parcel{m: m, head: h, intact: true}, transfer.MaxChunk)
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
	if i.entry.In.Epoch != 1 || i.ep.again != "" {
		t.Errorf("the epoch is %d, and is to end because %q", i.entry.In.Epoch, i.ep.again)
	}
}

// A transfer that its source has cancelled is not decided, even with all items over: the table of states has no move
// from Decided to CANCELLED.
func TestWhatIsWithdrawnIsNotDecided(t *testing.T) {
	r, id, _ := resting(t)
	i := live(t, r, id)
	total := uint64(0)
	i.w.total, i.withdrawn = &total, true
	if i.finishIfDecided() || i.entry.In.State != transfer.Receiving {
		t.Errorf("it is %s", i.entry.In.State)
	}
	i.withdrawn, i.to.landed = false, ends{}
	if !i.finishIfDecided() || i.entry.In.State != transfer.Decided {
		t.Errorf("not withdrawn, it is %s", i.entry.In.State)
	}
}
