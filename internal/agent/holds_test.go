package agent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/place"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

type broker interface{ placequeue.Reader }

// releases are the queues of a manager that may be away.
type releases struct {
	broker
	away error
	of   []string
}

func (r *releases) Show(context.Context, transfer.QueueName) (wire.QueueView, error) {
	return wire.QueueView{}, r.away
}

func (r *releases) Release(_ context.Context, queue transfer.QueueName, id transfer.ID) error {
	if r.away == nil {
		r.of = append(r.of, string(queue)+" "+id.String())
	}
	return r.away
}

// Messages that a transfer could not release at its end are released once the queue manager is there; those of a
// transfer that has not ended stay held.
func TestHeldIsReleasedLater(t *testing.T) {
	l, err := ledger.Open(t.TempDir(), ledger.Options{Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := &releases{away: transfer.Errorf(transfer.KindNoManager, "it is away")}
	from := placequeue.NewSource(func(string) placequeue.Reader { return r })
	book := &holds{ledger: l, from: from, clock: clock.System}
	q := queueSource{from, book, nil, nil}
	lives, ended := transfer.NewID(time.Now()), transfer.NewID(time.Now())
	put := func(id transfer.ID, s transfer.State) {
		t.Helper()
		if err := l.Update(func(tx *ledger.Tx) error {
			return tx.PutSource(&ledger.Source{Request: transfer.Request{ID: id}, State: s})
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []transfer.ID{lives, ended} {
		put(id, transfer.Negotiating)
		w := place.WalkRequest{Taker: id, Args: place.Args(false, transfer.Location{Place: transfer.Queues, Path: "queue:ORDERS"}, transfer.Location{Place: transfer.Queues, Path: "queue:ORDERS?group=g"})}
		_, _ = q.Walk(t.Context(), w, func(transfer.Item) error { return nil }) // it ends, for the manager is away
	}
	put(ended, transfer.Failed)
	if err := q.Release(ended, nil); !transfer.KindOf(err).Waits() {
		t.Errorf("released by a manager that is away: %v", err)
	}
	look := func(want string) {
		t.Helper()
		if err := book.pass(); err != nil || fmt.Sprint(r.of) != want {
			t.Errorf("released %v, %v, and not %s", r.of, err, want)
		}
	}
	look("[]")
	r.away = nil
	first := fmt.Sprintf("ORDERS %s", ended)
	look("[" + first + "]")
	look("[" + first + "]")
	if err := q.Release(lives, nil); err != nil || fmt.Sprint(r.of) != fmt.Sprintf("[%s ORDERS %s]", first, lives) {
		t.Errorf("released %v, %v", r.of, err)
	}
	if all, err := book.queues(lives); err != nil || len(all) != 0 {
		t.Errorf("%v are held still, %v", all, err)
	}
}

// A keptQueue is a queue manager that keeps the messages of the queue ORDERS for a transfer, and for HoldSpan at most.
type keptQueue struct {
	broker
	away    bool
	until   map[transfer.ID]time.Time
	renewed int
}

func (h *keptQueue) answer() error {
	if h.away {
		return transfer.Errorf(transfer.KindNoManager, "it is away")
	}
	return nil
}

func (h *keptQueue) Show(context.Context, transfer.QueueName) (wire.QueueView, error) {
	return wire.QueueView{Queue: "ORDERS", Mark: "m", Messages: 1, Bytes: 1, First: 1, Last: 1}, h.answer()
}

func (h *keptQueue) Count(context.Context, wire.QueueSpan) (messages, bytes uint64, err error) {
	return 1, 1, h.answer()
}

func (h *keptQueue) Hold(_ context.Context, _ wire.QueueSpan, id transfer.ID) error {
	h.until[id] = time.Now().Add(streams.HoldSpan)
	return h.answer()
}

func (h *keptQueue) Renew(_ context.Context, _ transfer.QueueName, id transfer.ID) error {
	if err := h.answer(); err != nil {
		return err
	}
	h.renewed++
	if h.held(id) {
		h.until[id] = time.Now().Add(streams.HoldSpan)
	}
	return nil
}

func (h *keptQueue) Release(_ context.Context, _ transfer.QueueName, id transfer.ID) error {
	if err := h.answer(); err != nil {
		return err
	}
	delete(h.until, id)
	return nil
}

// held reports whether another reader is refused the messages of a transfer.
func (h *keptQueue) held(id transfer.ID) bool { return time.Now().Before(h.until[id]) }

// A heldStory is an agent that holds messages, in virtual time.
type heldStory struct {
	t *testing.T
	l *ledger.Ledger
	m *keptQueue
	*holds
}

// tellHeld runs a story of an agent that holds messages.
func tellHeld(t *testing.T, story func(*heldStory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, err := ledger.Open(t.TempDir(), ledger.Options{Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		m := &keptQueue{until: map[transfer.ID]time.Time{}}
		story(&heldStory{t, l, m, &holds{ledger: l, from: placequeue.NewSource(func(string) placequeue.Reader { return m }), clock: clock.System}})
	})
}

// begin begins transfers that take messages, and gives their IDs in order.
func (h *heldStory) begin(n int) (all []transfer.ID) {
	h.t.Helper()
	for range n {
		all = append(all, transfer.NewID(time.Now()))
	}
	slices.SortFunc(all, func(a, b transfer.ID) int { return strings.Compare(a.String(), b.String()) })
	h.put(transfer.Running, all...)
	q := queueSource{h.from, h.holds, nil, nil}
	for _, id := range all {
		w := place.WalkRequest{Taker: id, Args: place.Args(false, transfer.Location{Place: transfer.Queues, Path: "queue:ORDERS"})}
		if _, err := q.Walk(h.t.Context(), w, func(transfer.Item) error { return nil }); err != nil || !h.m.held(id) {
			h.t.Fatalf("messages are not held: %v", err)
		}
	}
	return all
}

func (h *heldStory) put(s transfer.State, all ...transfer.ID) {
	h.t.Helper()
	if err := h.l.Update(func(tx *ledger.Tx) error {
		for _, id := range all {
			if err := tx.PutSource(&ledger.Source{Request: transfer.Request{ID: id}, State: s}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
}

// runs lets time pass. The agent makes a pass each minute.
func (h *heldStory) runs(d time.Duration, each func()) {
	h.t.Helper()
	for ; d > 0; d -= time.Minute {
		<-time.After(time.Minute)
		if err := h.pass(); err != nil {
			h.t.Fatal(err)
		}
		each()
	}
}

// A transfer that lives for 5 days keeps its messages, though its agent and its queue manager are away for hours. It
// renews the holds a few times.
func TestHoldsLastAsLongAsTheirTransfer(t *testing.T) {
	tellHeld(t, func(h *heldStory) {
		id := h.begin(1)[0]
		kept := func() {
			if !h.m.held(id) {
				h.t.Fatalf("another reader is given messages of a transfer that lives")
			}
		}
		h.runs(30*time.Hour, kept)
		<-time.After(20 * time.Hour) // without the agent
		kept()
		h.m.away = true
		h.runs(3*time.Hour, kept)
		h.m.away = false
		h.runs(67*time.Hour, kept)
		if h.m.renewed < 3 || h.m.renewed > 5 {
			h.t.Errorf("the holds were renewed %d times in 5 days", h.m.renewed)
		}
		h.put(transfer.Successful, id)
		h.runs(time.Minute, func() {})
		if h.m.held(id) {
			h.t.Errorf("messages are held for a transfer that has ended")
		}
	})
}

// Messages that are held for an agent that is gone for good are free after the span, and not before.
func TestHoldsOfAnAgentThatIsGoneEnd(t *testing.T) {
	tellHeld(t, func(h *heldStory) {
		id := h.begin(1)[0]
		h.runs(30*time.Hour, func() {})
		ends := h.m.until[id]
		if left := time.Until(ends); left < streams.HoldSpan/2 || left > streams.HoldSpan {
			h.t.Errorf("after 30 hours the messages are held for another %s", left)
		}
		<-time.After(time.Until(ends) - 1)
		if !h.m.held(id) {
			h.t.Errorf("messages are free before the span has passed")
		}
		<-time.After(1)
		if h.m.held(id) {
			h.t.Errorf("messages are held for an agent that is gone")
		}
	})
}

// A pass asks for a bounded number of transfers, and the passes together for all, those that live and those that have
// ended. Each begins behind the transfer that had to wait.
func TestAPassOverHoldsIsBounded(t *testing.T) {
	tellHeld(t, func(h *heldStory) {
		all := h.begin(3*holdsAsked + 1)
		<-time.After(streams.HoldSpan / 2)
		h.put(transfer.Failed, all[:holdsAsked]...)
		h.m.away = true
		h.runs(time.Minute, func() {})
		if h.at != all[0].String() {
			h.t.Errorf("a pass while the queue manager is away ends at %q", h.at)
		}
		h.m.away = false
		h.runs(4*time.Minute, func() {
			if asked := h.m.renewed + len(all) - len(h.m.until); asked%holdsAsked != 0 && asked != len(all) {
				h.t.Errorf("after a pass %d have been asked for", asked)
			}
		})
		if h.m.renewed != len(all)-holdsAsked || len(h.m.until) != h.m.renewed {
			h.t.Errorf("%d were renewed, and %d are held", h.m.renewed, len(h.m.until))
		}
		for _, id := range all[holdsAsked:] {
			if left := time.Until(h.m.until[id]); left < streams.HoldSpan-time.Hour {
				h.t.Fatalf("messages are held for another %s", left)
			}
		}
	})
}
