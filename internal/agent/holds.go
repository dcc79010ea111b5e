package agent

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/place"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// holds is the ledger's list of the transfers that messages may be held for, with their queues. The holds of a
// transfer that lives are renewed before they end. Messages that a transfer does not release at its end, since its
// queue manager is away or its agent stops, are released later.
type holds struct {
	ledger *ledger.Ledger
	from   *placequeue.Source
	clock  clock.Clock
	at     string // key of the transfer where the last pass ended; only pass uses it
}

// Limits of one pass.
const (
	holdsLooked = 1000 // transfers that it looks at
	holdsAsked  = 100  // of them, that it asks the queue manager for
)

// holdVersion is the version of a holdRecord.
const holdVersion = 1

// A holdRecord says where messages may be held for a transfer.
type holdRecord struct {
	V      int             `json:"v"`
	Queues []transfer.Path `json:"queues"`
	Held   time.Time       `json:"held"` // all holds were made, or renewed, at this time or later
}

// due reports whether half of the span of a hold has passed, or the clock was put back.
func (r *holdRecord) due(now time.Time) bool {
	since := now.Sub(r.Held)
	return since < 0 || since >= streams.HoldSpan/2
}

func (h *holds) namespace(t *ledger.Tx) ledger.Namespace { return ledger.NamespaceOf(t, "held") }

func (h *holds) get(t *ledger.Tx, id transfer.ID) (r holdRecord, err error) {
	if b := h.namespace(t).Get(id.String()); b != nil {
		return readHold(b)
	}
	return r, nil
}

func readHold(b []byte) (r holdRecord, err error) {
	if json.Unmarshal(b, &r) != nil || r.V != holdVersion {
		return r, transfer.Errorf(transfer.KindVersion, "the ledger's record of held messages is in a format that is not known")
	}
	return r, nil
}

func (h *holds) put(t *ledger.Tx, id transfer.ID, r holdRecord) error {
	r.V = holdVersion
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return h.namespace(t).Put(id.String(), b)
}

// queues are the paths of the queues that messages may be held in for a transfer.
func (h *holds) queues(id transfer.ID) ([]transfer.Path, error) {
	r, err := ledger.Read(h.ledger, func(t *ledger.Tx) (holdRecord, error) { return h.get(t, id) })
	return r.Queues, err
}

// note writes down that messages of a walk's queues are going to be held for its Taker.
func (h *holds) note(w *place.WalkRequest) error {
	all, err := h.queues(w.Taker)
	if err != nil {
		return err
	}
	known := len(all)
	for n := range w.Args {
		a, err := placequeue.Of(w.Args[n].Source)
		if err != nil {
			continue // the walk says so
		}
		if queue := (&placequeue.Address{Queue: a.Queue}).Path(); !slices.Contains(all, queue) {
			all = append(all, queue)
		}
	}
	if len(all) == known {
		return nil
	}
	return h.ledger.Update(func(t *ledger.Tx) error {
		r, err := h.get(t, w.Taker)
		if err != nil {
			return err
		}
		if r.Held.IsZero() {
			r.Held = h.clock.Now()
		}
		r.Queues = all
		return h.put(t, w.Taker, r)
	})
}

// release ends that messages are held for a transfer. After an error that does not wait it is not tried again: holds
// end by themselves.
func (h *holds) release(id transfer.ID) error {
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
	return errors.Join(err, h.ledger.Update(func(t *ledger.Tx) error { return h.namespace(t).Delete(id.String()) }))
}

// renew renews the holds of a transfer for another span.
func (h *holds) renew(id transfer.ID) error {
	all, err := h.queues(id)
	now := h.clock.Now()
	if err == nil {
		err = h.from.Renew(id, all)
	}
	if err != nil {
		return err
	}
	return h.ledger.Update(func(t *ledger.Tx) error {
		r, err := h.get(t, id)
		if err != nil || len(r.Queues) == 0 { // released meanwhile
			return err
		}
		r.Held = now
		return h.put(t, id, r)
	})
}

// pass renews the holds of transfers that live, and releases messages that are still held for transfers that have
// ended, until one must wait. Its work is bounded, and the next pass begins behind the transfer where it ends.
func (h *holds) pass() error {
	type task struct {
		id transfer.ID
		do func(transfer.ID) error
	}
	var tasks []task
	var wrong error
	at, now := h.at, h.clock.Now()
	err := h.ledger.View(func(t *ledger.Tx) error {
		looked := 0
		for key, value := range h.round(t) {
			if looked == holdsLooked || len(tasks) == holdsAsked {
				return nil
			}
			looked++
			at = key
			id, err := transfer.ParseID(key)
			if err != nil {
				wrong = errors.Join(wrong, err)
				continue
			}
			rec, err := t.Source(id)
			if err != nil {
				return err
			}
			if rec == nil || rec.State.Final() {
				tasks = append(tasks, task{id, h.release})
				continue
			}
			r, err := readHold(value)
			if err != nil {
				wrong = errors.Join(wrong, err)
			} else if r.due(now) {
				tasks = append(tasks, task{id, h.renew})
			}
		}
		return nil
	})
	err = errors.Join(err, wrong)
	for _, k := range tasks {
		of := k.do(k.id)
		if transfer.KindOf(of).Waits() {
			at = k.id.String()
			break
		}
		err = errors.Join(err, of)
	}
	h.at = at
	return err
}

// round returns all records, from the one behind the last pass on.
func (h *holds) round(t *ledger.Tx) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for key, value := range h.namespace(t).All("", h.at) {
			if !yield(key, value) {
				return
			}
		}
		for key, value := range h.namespace(t).All("", "") {
			if key > h.at || !yield(key, value) {
				return
			}
		}
	}
}

// Walk is that of the queues. Their names are written down before messages are held.
func (q queueSource) Walk(ctx context.Context, w place.WalkRequest, emit func(transfer.Item) error) (linksSkipped int64, err error) {
	if !w.Taker.IsZero() {
		if err := q.holds.note(&w); err != nil {
			return 0, err
		}
	}
	return q.Source.Walk(ctx, w, emit)
}

// Release ends that messages are held for a transfer.
func (q queueSource) Release(id transfer.ID, _ []transfer.Path) error { return q.holds.release(id) }
