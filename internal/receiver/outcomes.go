package receiver

import (
	"time"

	"ferry/internal/audit"
	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxBatch bounds a batch of outcomes, in items and in bytes of names.
const (
	maxBatch      = 512
	maxBatchBytes = 256 << 10
	thinOffer     = 250 * time.Millisecond // a batch that is acknowledged later is on a slow line
)

// finishIfDecided moves to Decided once every item is over: the slot is free
// and only outcomes remain.
func (i *incoming) finishIfDecided() bool {
	if i.rec.State != transfer.Receiving {
		return i.rec.State == transfer.Decided
	}
	known := i.rec.HasTotal || i.total != nil
	total := i.rec.Total
	if i.total != nil {
		total = *i.total
	}
	if !known || i.rec.Decided.Below() != total {
		return false
	}
	// The ledger may have the last group's outcomes already and this loop not yet: the
	// batch that says that it is the last one would lack them.
	if i.commit != nil {
		return false
	}
	err := i.update(func(_ *ledger.Tx, rec *ledger.Incoming) error {
		rec.HasTotal, rec.Total, rec.State, rec.Live = true, total, transfer.Decided, false
		return nil
	})
	if err != nil {
		i.log.Error("the ledger cannot be written", "error", err)
		return false
	}
	failpoint.Hit("receiver.after_decided")
	i.ack()
	i.closeEpoch()
	i.offerNew()
	return true
}

// offerNew offers outcomes unless a batch is outstanding, whose answer will, or it is
// too early for another one.
func (i *incoming) offerNew() {
	outstanding := i.offered > 0 || i.offeredLast
	if i.offerDue.IsZero() || !outstanding && (i.rec.State == transfer.Decided || i.withdrawn) {
		i.offer()
	}
}

// offerNext makes the next batch. Where the last one took long to be acknowledged it
// waits as long once more for further outcomes: many small batches would be more than
// a slow line carries.
func (i *incoming) offerNext() {
	if took := i.r.cfg.Clock.Now().Sub(i.offeredAt); took > thinOffer && i.rec.State == transfer.Receiving && len(i.undelivered) < maxBatch/2 {
		i.offerDue = i.r.cfg.Clock.Now().Add(min(took, repeatMost))
		return
	}
	i.offer()
}

// offer sends the outstanding batch of outcomes, or makes the next one.
func (i *incoming) offer() {
	n := i.offered
	if n == 0 && (!i.offeredLast || i.offerDue.IsZero()) {
		// A number of its own for each making, over all runs: the answer to a
		// smaller batch must not pass for the answer to this one.
		i.batches++
		size := 0
		for n < len(i.undelivered) && n < maxBatch && size < maxBatchBytes {
			o := &i.undelivered[n]
			size += 300 + 3*(len(o.Path)+len(o.Source))
			n++
		}
		i.backoff = 0
		i.offeredLast = n == len(i.undelivered) && (i.rec.State == transfer.Decided || i.withdrawn)
	}
	if n == 0 && !i.offeredLast {
		i.offerDue = zeroTime
		return
	}
	i.offered, i.offeredAt = n, i.r.cfg.Clock.Now()
	i.r.send(i.from, &wire.Message{Kind: wire.KindOutcomes, Transfer: i.id, Outcomes: &wire.Outcomes{
		Batch: i.batch(), Outcomes: i.undelivered[:n], Last: i.offeredLast}})
	failpoint.Hit("receiver.after_outcomes")
	i.offerDue = i.offerAfter()
	if failpoint.Planted("forgotten-early") {
		i.outcomesAcked(i.batch())
	}
}

func (i *incoming) batch() uint64 { return i.r.cfg.Ledger.Generation()<<32 | i.batches }

// outcomesAcked drops what the source has in its ledger now.
func (i *incoming) outcomesAcked(batch uint64) {
	if i.rec == nil || i.rec.State.Final() || batch != i.batch() || i.offerDue.IsZero() {
		return
	}
	gone := i.undelivered[:i.offered]
	last := i.offeredLast // as it was sent: the source may not have heard of a later change
	failpoint.Hit("receiver.before_acked")
	unswept := last && i.leaves(false)
	err := i.update(func(t *ledger.Tx, rec *ledger.Incoming) error {
		i.r.heard(t, rec)
		items := make([]uint64, len(gone))
		for n := range gone {
			items[n] = gone[n].Item
		}
		if err := t.DropItems(i.id, items); err != nil {
			return err
		}
		if !last || i.withdrawn {
			return nil
		}
		rec.State, rec.Unswept = transfer.Done, unswept
		event := audit.Completed
		if rec.Counts.Ending() == transfer.Failed {
			event = audit.Failed
		}
		return i.r.cfg.Note(t, i.record(event, func(a *audit.Record) {
			a.Counts, a.State = &rec.Counts, rec.Counts.Ending()
			a.Seconds = rec.LastContact.Sub(rec.Started).Seconds()
		}))
	})
	if err != nil {
		i.log.Error("the ledger cannot be written", "error", err)
		return
	}
	failpoint.Hit("receiver.after_acked")
	i.undelivered = append([]transfer.Outcome(nil), i.undelivered[i.offered:]...)
	i.offered, i.offeredLast, i.offerDue, i.backoff = 0, false, zeroTime, 0
	switch {
	case i.rec.State == transfer.Done:
		i.logEnd("")
		i.over = true
	case i.withdrawn && last:
		i.withdraw()
	default:
		i.offerNext()
	}
}

// endIfDelivered ends a cancelled transfer that has nothing left to report.
func (i *incoming) endIfDelivered() {
	if i.withdrawn && len(i.undelivered) == 0 {
		i.withdraw()
	}
}

func (i *incoming) withdraw() {
	i.finish(transfer.Revoked, audit.Cancelled, "cancelled by the source")
	if i.over {
		i.r.send(i.from, &wire.Message{Kind: wire.KindCancelled, Transfer: i.id})
	}
}
