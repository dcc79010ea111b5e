package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"ferry/internal/ledger"
	"ferry/internal/messages"
	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A heldBook is the ledger's list of the transfers that messages may be held for, with their queues. Messages
// that a transfer does not release at its end, since its queue manager is away or its agent stops, are released later.
type heldBook struct {
	ledger *ledger.Ledger
	from   *messages.Source
}

func (h *heldBook) drawer(t *ledger.Tx) ledger.Drawer { return ledger.DrawerOf(t, "held") }

// queues are the paths of the queues that messages may be held in for a transfer.
func (h *heldBook) queues(id transfer.ID) (all []transfer.Path, err error) {
	err = h.ledger.View(func(t *ledger.Tx) error {
		if b := h.drawer(t).Get(id.String()); b != nil {
			return json.Unmarshal(b, &all)
		}
		return nil
	})
	return all, err
}

// note writes down that messages of a walk's queues are going to be held for its Taker.
func (h *heldBook) note(w *place.WalkRequest) error {
	all, err := h.queues(w.Taker)
	if err != nil {
		return err
	}
	known := len(all)
	for n := range w.Args {
		a, err := messages.Of(w.Args[n].Source)
		if err != nil {
			continue // the walk says so
		}
		if queue := (&messages.Address{Queue: a.Queue}).Path(); !slices.Contains(all, queue) {
			all = append(all, queue)
		}
	}
	if len(all) == known {
		return nil
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return h.ledger.Update(func(t *ledger.Tx) error { return h.drawer(t).Put(w.Taker.String(), b) })
}

// release ends that messages are held for a transfer. After an error that does not wait it is not tried again: holds end by themselves.
func (h *heldBook) release(id transfer.ID) error {
	all, err := h.queues(id)
	if len(all) == 0 && err == nil {
		return nil
	}
	if err == nil {
		err = h.from.Release(id, all)
	}
	if transfer.KindOf(err).Waits() {
		return err
	}
	return errors.Join(err, h.ledger.Update(func(t *ledger.Tx) error { return h.drawer(t).Delete(id.String()) }))
}

// releaseEnded releases messages that are still held for transfers that have ended, until one must wait.
func (h *heldBook) releaseEnded() error {
	var ended []transfer.ID
	err := h.ledger.View(func(t *ledger.Tx) error {
		for key := range h.drawer(t).All("", "") {
			id, err := transfer.ParseID(key)
			if err != nil {
				return err
			}
			rec, err := t.Source(id)
			if err != nil {
				return err
			}
			if rec == nil || rec.State.Final() {
				ended = append(ended, id)
			}
		}
		return nil
	})
	for _, id := range ended {
		of := h.release(id)
		if transfer.KindOf(of).Waits() {
			break
		}
		err = errors.Join(err, of)
	}
	return err
}

// Walk is that of the queues. Their names are written down before messages are held.
func (q queueSource) Walk(ctx context.Context, w place.WalkRequest, emit func(transfer.Item) error) (linksSkipped int64, err error) {
	if !w.Taker.IsZero() {
		if err := q.held.note(&w); err != nil {
			return 0, err
		}
	}
	return q.Source.Walk(ctx, w, emit)
}

// Release ends that messages are held for a transfer.
func (q queueSource) Release(id transfer.ID, _ []transfer.Path) error { return q.held.release(id) }
