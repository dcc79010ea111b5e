package agent

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/clock"
	"ferry/internal/ledger"
	"ferry/internal/messages"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

type broker interface{ messages.Reader }

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

// Messages that a transfer could not release at its end are released once the queue manager is there; those of a transfer
// that has not ended stay held.
func TestHeldIsReleasedLater(t *testing.T) {
	l, err := ledger.Open(t.TempDir(), ledger.Options{Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := &releases{away: transfer.Errorf(transfer.KindNoManager, "it is away")}
	from := messages.NewSource(r)
	book := &heldBook{l, from}
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
		if err := book.releaseEnded(); err != nil || fmt.Sprint(r.of) != want {
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
