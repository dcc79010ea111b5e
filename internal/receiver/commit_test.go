package receiver

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/clock"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/transfer"
)

// ends is a landing whose groups end as a test says.
type ends struct {
	place.Landing
	commit func([]place.Pending) ([]transfer.Outcome, error)
}

func (l ends) Commit(_ context.Context, pend []place.Pending) ([]transfer.Outcome, error) {
	return l.commit(pend)
}

// part is a temporary that is let go of.
type part struct {
	place.Part
	gone *string
}

func (p part) Close() error   { *p.gone = "closed"; return nil }
func (p part) Discard() error { *p.gone = "discarded"; return nil }

// A group that ends has its outcomes told, gives its places and bytes back, and what it
// did not decide is kept for the next epoch, begins again, or waits.
func TestGroupsEnd(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	l, err := ledger.Open(t.TempDir(), ledger.Options{Store: faulty.NewMemoryStore(), Files: faulty.NewMemoryFiles(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	id := transfer.NewID(time.Now())
	if err := l.Update(func(tx *ledger.Tx) error {
		return tx.PutIncoming(&ledger.Incoming{Request: transfer.Request{ID: id}, State: transfer.Receiving, Epoch: 1})
	}); err != nil {
		t.Fatal(err)
	}
	r := &Receiver{ctx: t.Context(), open: make(chan struct{}, 4), slots: newSlots(1), cfg: Config{Clock: clock.System, Ledger: l, Log: log,
		Note: func(*ledger.Tx, audit.Record) error { return nil }, Changed: func() {}}}
	for _, c := range []struct {
		name  string
		err   error
		gone  string // what becomes of the temporary
		stop  transfer.Kind
		again bool
	}{
		{name: "the place cannot be written", err: transfer.Errorf(transfer.KindNoSpace, "full"), gone: "closed", stop: transfer.KindNoSpace},
		{name: "the error says nothing", err: errors.New("odd"), gone: "closed", stop: transfer.KindBusy},
		{name: "a sync failed", err: &place.SyncError{Err: errors.New("input/output error")}, gone: "discarded", again: true},
		{name: "it is not what it was", err: &place.AgainError{Items: []place.Again{{Item: 0, Err: transfer.Errorf(transfer.KindConflict, "touched")}}}, gone: "closed", again: true},
		{name: "nothing went wrong"},
	} {
		i := r.newActor(id, "ALPHA")
		if err := i.load(); err != nil {
			t.Fatal(err)
		}
		i.ep.live = true
		gone := ""
		i.to.landed = ends{commit: func(pend []place.Pending) ([]transfer.Outcome, error) {
			if c.err != nil {
				return nil, c.err
			}
			o := []transfer.Outcome{pend[0].Outcome}
			return o, (*journal)(i.record).Committed(o)
		}}
		r.open <- struct{}{}
		i.com.unsafe = 70
		i.com.grp.add(ending{pending: place.Pending{Part: part{gone: &gone}, Outcome: transfer.Outcome{Type: transfer.ItemFile, Path: "/b/a", Size: 70}}, size: 30, safe: 40})
		i.com.drain()
		if i.com.unsafe != 40 || len(r.open) != 0 || !i.com.grp.idle() {
			t.Errorf("%s: %d bytes are unsafe, %d places are taken, idle %v", c.name, i.com.unsafe, len(r.open), i.com.grp.idle())
		}
		stop := transfer.KindNone
		if i.ep.stop != nil {
			stop = i.ep.stop.Kind
		}
		if gone != c.gone || stop != c.stop || (i.ep.again != "") != c.again {
			t.Errorf("%s: the temporary is %q, the epoch stops with %v, again %q", c.name, gone, stop, i.ep.again)
		}
		if decided := c.err == nil; i.rec.Decided.Has(0) != decided || len(i.com.offers.waiting) == 1 != decided || c.err == nil && !i.com.news {
			t.Errorf("%s: decided %v, %d outcomes wait, news %v", c.name, i.rec.Decided.Has(0), len(i.com.offers.waiting), i.com.news)
		}
		if (i.com.short.bytes > 0) != (c.stop == transfer.KindNoSpace) {
			t.Errorf("%s: %d bytes are missing", c.name, i.com.short.bytes)
		}
	}
}

// An item whose temporary others touch again and again begins again only so often.
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
