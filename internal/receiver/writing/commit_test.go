package writing

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/receiver/entry"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
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

func (ends) Close() error     { return nil }
func (p part) Close() error   { *p.gone = "closed"; return nil }
func (p part) Discard() error { *p.gone = "discarded"; return nil }

// heard are the events of a Writer.
type heard struct {
	decided []transfer.Outcome
	news    bool
	told    int // how often the Writer waited while there was news
}

func (h *heard) Decided(o []transfer.Outcome) {
	h.decided, h.news = append(h.decided, o...), h.news || len(o) > 0
}

func (h *heard) ReportDue() { h.news = true }

func (h *heard) ReportNow() {
	if h.news {
		h.told++
	}
	h.news = false
}

// bare returns a Writer in an open epoch, at an agent with places. It has no ledger.
func bare(ctx context.Context, places int, id transfer.ID, in *ledger.Incoming) (*Writer, *heard) {
	a := &Agent{Ctx: ctx, Entries: &entry.Entries{Clock: clock.System}, ItemSlots: NewItemSlots(places), Slots: 1,
		Wake: func(transfer.ID, transfer.AgentName) {}, ClearSuspect: func(transfer.ID) {}}
	e := a.Entries.Of(id, "ALPHA", slog.New(slog.DiscardHandler))
	e.In = in
	said := &heard{}
	return New(a, e, NewDestinations(a, e), &Epoch{Live: true}, said, func() {}, nil), said
}

// writer returns a Writer of a transfer in a ledger.
func writer(t *testing.T) (*Writer, *heard) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	l, err := ledger.Open(t.TempDir(), ledger.Options{Store: faulty.NewMemoryStore(), Files: faulty.NewMemoryFiles(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	id := transfer.NewID(time.Now())
	w, said := bare(t.Context(), 4, id, nil)
	w.agent.Entries.Ledger, w.agent.Entries.Note = l, func(*ledger.Tx, audit.Record) error { return nil }
	if err := l.Update(func(tx *ledger.Tx) error {
		return tx.PutIncoming(&ledger.Incoming{Request: transfer.Request{ID: id}, State: transfer.Receiving, Epoch: 1, Settings: transfer.DefaultSettings()})
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.entry.Load(); err != nil {
		t.Fatal(err)
	}
	return w, said
}

// The end of a group reports its outcomes and gives its places and bytes back. Its undecided items are kept for the
// next epoch, begin again, or wait.
func TestGroupsEnd(t *testing.T) {
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
		w, said := writer(t)
		gone := ""
		w.to.of = &transfer.Request{Dest: transfer.File("/b")}
		w.to.landed = ends{commit: func(pend []place.Pending) ([]transfer.Outcome, error) {
			if c.err != nil {
				return nil, c.err
			}
			o := []transfer.Outcome{pend[0].Outcome}
			return o, w.entry.Journal().Committed(o)
		}}
		w.agent.ItemSlots.take(time.Now())
		w.com.unsafe = 70
		w.com.grp.add(ending{pending: place.Pending{Part: part{gone: &gone}, Outcome: transfer.Outcome{Type: transfer.ItemFile, Path: "/b/a", Size: 70}}, size: 30, safe: 40})
		w.com.drain()
		if w.com.unsafe != 40 || w.agent.ItemSlots.single != 0 || !w.com.grp.idle() {
			t.Errorf("%s: %d bytes are unsafe, %d places are taken, idle %v", c.name, w.com.unsafe, w.agent.ItemSlots.single, w.com.grp.idle())
		}
		stop := transfer.KindNone
		if w.ep.Stop != nil {
			stop = w.ep.Stop.Kind
		}
		if gone != c.gone || stop != c.stop || (w.ep.Again != "") != c.again {
			t.Errorf("%s: the temporary is %q, the epoch stops with %v, again %q", c.name, gone, stop, w.ep.Again)
		}
		if decided := c.err == nil; w.entry.In.Decided.Has(0) != decided || len(said.decided) == 1 != decided || c.err == nil && !said.news {
			t.Errorf("%s: decided %v, %d outcomes wait, news %v", c.name, w.entry.In.Decided.Has(0), len(said.decided), said.news)
		}
		if (w.com.short.Bytes > 0) != (c.stop == transfer.KindNoSpace) {
			t.Errorf("%s: %d bytes are missing", c.name, w.com.short.Bytes)
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
