package receiver

import (
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// finishIfDecided moves to Decided once every item is over: the slot is free
// and only outcomes remain.
func (i *incoming) finishIfDecided() bool {
	if i.rec.State != transfer.Receiving || i.withdrawn {
		return i.rec.State == transfer.Decided
	}

	known := i.rec.HasTotal || i.w.total != nil
	total := i.rec.Total
	if i.w.total != nil {
		total = *i.w.total
	}

	if !known || i.rec.Decided.Below() != total {
		return false
	}

	// The ledger may have the last group's outcomes before this loop has them: a batch marked as the last one would
	// lack them.
	if i.com.grp.running != nil {
		return false
	}

	err := i.update(func(_ *ledger.Tx, rec *ledger.Incoming) error {
		rec.HasTotal, rec.Total = true, total
		return rec.Move(transfer.Decided)
	})
	if err != nil {
		i.log.Error("cannot write the ledger", "error", err)
		return false
	}

	failpoint.Hit("receiver.after_decided")
	i.ack()
	i.closeEpoch()
	(taking{i}).dropShelf()
	i.offerNew()
	return true
}

// final reports whether the outcomes that wait are all that there will be.
func (i *incoming) final() bool {
	return i.withdrawn || i.rec.State == transfer.Decided && (calling{i}).posted()
}

// offerNew offers outcomes unless a batch is outstanding, since its acknowledgement offers the next one. It also waits
// while it is too early for another batch.
func (i *incoming) offerNew() {
	if i.com.offers.due.IsZero() || !i.com.offers.outstanding() && i.final() {
		i.offer()
	}
}

// offer sends the outstanding batch of outcomes, or makes the next one.
func (i *incoming) offer() {
	batch, ok := i.com.offers.propose(i.final())
	if !ok {
		return
	}

	said := &wire.Outcomes{Batch: i.com.batch(), Outcomes: batch, Last: i.com.offers.last}
	if said.Last {
		said.Program = i.post.failure
	}
	i.r.send(i.from, &wire.Message{Kind: wire.KindOutcomes, Transfer: i.id, Outcomes: said})
	failpoint.Hit("receiver.after_outcomes")
	var margin time.Duration
	if i.r.cfg.Delay != nil {
		margin = 4 * i.r.cfg.Delay()
	}

	i.com.offers.sent(i.r.cfg.Clock.Now(), margin)
	if failpoint.Planted("forgotten-early") {
		i.outcomesAcked(i.com.batch())
	}
}

func (cm *committer) batch() uint64 { return cm.r.cfg.Ledger.Generation()<<32 | cm.offers.batches }

// outcomesAcked drops the outcomes that the source has recorded in its ledger.
func (i *incoming) outcomesAcked(batch uint64) {
	if i.rec == nil || i.rec.State.Final() || batch != i.com.batch() || i.com.offers.due.IsZero() {
		return
	}

	gone := i.com.offers.waiting[:i.com.offers.size]
	last := i.com.offers.last // as it was sent: the source may not have got a later change
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
		if err := rec.Move(transfer.Done); err != nil {
			return err
		}
		if err := i.forgetPrograms(t, rec); err != nil {
			return err
		}
		rec.Unswept = unswept
		event := audit.Completed
		if rec.Counts.Ending() == transfer.Failed {
			event = audit.Failed
		}
		return i.r.cfg.Note(t, i.entry(event, func(a *audit.Record) {
			a.Counts, a.State = &rec.Counts, rec.Counts.Ending()
			a.Seconds = rec.LastContact.Sub(rec.Started).Seconds()
		}))
	})
	if err != nil {
		i.log.Error("cannot write the ledger", "error", err)
		return
	}

	failpoint.Hit("receiver.after_acked")
	i.com.offers.acked()
	switch {
	case i.rec.State == transfer.Done:
		i.logEnd("")
		i.over = true
	case i.withdrawn && last:
		i.endIfDelivered()
	case i.rec.State == transfer.Receiving && i.com.offers.gather(i.r.cfg.Clock.Now()):
	default:
		i.offer()
	}
}

// endIfDelivered ends a cancelled transfer that has nothing left to report.
func (i *incoming) endIfDelivered() {
	if !i.withdrawn || len(i.com.offers.waiting) > 0 {
		return
	}
	i.finish(transfer.Revoked, audit.Cancelled, "cancelled by the source")
	if i.over {
		i.r.send(i.from, &wire.Message{Kind: wire.KindCancelled, Transfer: i.id})
	}
}
