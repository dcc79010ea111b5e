package receiver

import (
	"time"

	"ferry/internal/audit"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// finishIfDecided moves to Decided once every item is over: the slot is free
// and only outcomes remain.
func (i *incoming) finishIfDecided() bool {
	if i.entry.In.State != transfer.Receiving || i.withdrawn {
		return i.entry.In.State == transfer.Decided
	}

	total, all := i.w.AllDecided()
	if !all {
		return false
	}

	if err := i.entry.AllDecided(total); err != nil {
		i.log.Error("cannot write the ledger", "error", err)
		return false
	}

	failpoint.Hit("receiver.after_decided")
	i.ack()
	i.closeEpoch()
	i.stored.drop()
	i.offerNew()
	return true
}

// final reports whether the outcomes that wait are all that there will be.
func (i *incoming) final() bool {
	return i.withdrawn || i.entry.In.State == transfer.Decided && i.post.posted()
}

// offerNew offers outcomes unless a batch is outstanding, since its acknowledgement offers the next one. It also waits
// while it is too early for another batch.
func (i *incoming) offerNew() {
	if i.offers.due.IsZero() || !i.offers.outstanding() && i.final() {
		i.offer()
	}
}

// offer sends the outstanding batch of outcomes, or makes the next one.
func (i *incoming) offer() {
	batch, ok := i.offers.nextBatch(i.final())
	if !ok {
		return
	}

	said := &wire.Outcomes{Batch: i.offers.number(i.r.cfg.Ledger.Generation()), Outcomes: batch, Last: i.offers.last}
	if said.Last {
		said.Program = i.post.failure
	}
	i.r.send(i.from, &wire.Message{Kind: wire.KindOutcomes, Transfer: i.id, Outcomes: said})
	failpoint.Hit("receiver.after_outcomes")
	var margin time.Duration
	if i.r.cfg.Delay != nil {
		margin = 4 * i.r.cfg.Delay()
	}

	i.offers.sent(i.r.cfg.Clock.Now(), margin)
}

// outcomesAcked drops the outcomes that the source has recorded in its ledger.
func (i *incoming) outcomesAcked(batch uint64) {
	if i.entry.In == nil || i.entry.In.State.Final() || batch != i.offers.number(i.r.cfg.Ledger.Generation()) || i.offers.due.IsZero() {
		return
	}

	gone := i.offers.waiting[:i.offers.size]
	last := i.offers.last // as it was sent: the source may not have got a later change
	failpoint.Hit("receiver.before_acked")
	unswept := last && i.to.SweepAtEnd(false)
	var err error
	if last && !i.withdrawn {
		err = i.entry.AckedLast(gone, unswept)
	} else {
		err = i.entry.Acked(gone)
	}
	if err != nil {
		i.log.Error("cannot write the ledger", "error", err)
		return
	}

	failpoint.Hit("receiver.after_acked")
	i.offers.acked()
	switch {
	case i.entry.In.State == transfer.Done:
		i.entry.LogEnd(i.r.ctx, "")
		i.over = true
	case i.withdrawn && last:
		i.endIfDelivered()
	case i.entry.In.State == transfer.Receiving && i.offers.gather(i.r.cfg.Clock.Now()):
	default:
		i.offer()
	}
}

// endIfDelivered ends a cancelled transfer that has nothing left to report.
func (i *incoming) endIfDelivered() {
	if !i.withdrawn || len(i.offers.waiting) > 0 {
		return
	}
	i.finish(transfer.Revoked, audit.Cancelled, "cancelled by the source", func(a *audit.Record) { a.Principal = i.cancelBy })
	if i.over {
		i.r.send(i.from, &wire.Message{Kind: wire.KindCancelled, Transfer: i.id})
	}
}
