package receiver

import (
	"time"

	"ferry/internal/audit"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A source reports a transfer that it gives up (R24). The report may be lost, or come while this agent is away. Until
// the deadline, which may be days, the transfer would stay. So the destination asks, if anything of the transfer has
// come.
const (
	askOverFirst = 5 * time.Second  // without an epoch
	askOverAfter = 30 * time.Second // and again so often
	asksAtOnce   = 8
)

// Messages from the Receiver to one of its actors; none is a message of the wire.
const (
	sourceOver wire.Kind = "source-over" // the transfer has ended at the source
	sourceLost wire.Kind = "source-lost" // the source does not know it, or less of it than it did
)

// askOver asks the source for the status of a waiting transfer, when its time has come.
func (i *incoming) askOver(now time.Time) {
	switch {
	case i.r.cfg.Over == nil:
	case i.ep.Live || i.entry.In.State.Final() || i.withdrawn:
		i.overDue = time.Time{}
	case i.overDue.IsZero(), !now.Before(i.overDue) && i.committing():
		// The record may have the outcomes of a group that is being committed, and they are not offered yet.
		i.overDue = now.Add(askOverFirst)
	case !now.Before(i.overDue):
		i.overDue = now.Add(askOverAfter)
		i.r.ask(i)
	}
}

// committing reports whether a group is being committed.
func (i *incoming) committing() bool {
	commit, _ := i.w.Running()
	return commit != nil
}

// delivered returns the number of outcomes that the source has acknowledged.
func delivered(i *incoming) uint64 {
	return i.entry.In.Decided.Count() - min(i.entry.In.Decided.Count(), uint64(len(i.offers.waiting)))
}

// ask asks the source for the transfer's status, and sends the actor a message if the transfer is over there. If enough
// other transfers ask, the actor must call ask again later.
//
// A source that has fewer outcomes than it has acknowledged runs on an older copy of its ledger. Its answer is to a
// question of this moment, so that no delayed message decides this.
func (r *Receiver) ask(i *incoming) {
	select {
	case r.asking <- struct{}{}:
	default:
		return
	}
	acked, receiving := delivered(i), i.entry.In.State == transfer.Receiving
	r.wg.Go(func() {
		defer func() { <-r.asking }()
		p, err := r.cfg.Over(r.ctx, i.from, i.id)
		switch {
		case failpoint.Planted("lost-ledger-unasked"):
		case transfer.KindOf(err) == transfer.KindNotFound: // it was in the source's ledger before OPEN was sent
			i.box.control(&wire.Message{Kind: sourceLost, Refuse: &wire.Refuse{Error: transfer.Errorf(transfer.KindLost,
				"%s has lost the ledger of the transfer, or runs on an older copy of it", i.from).
				WithHint("look at the destination, then submit the missing files as a new transfer")}})
		case err != nil:
		case p.State.Final() && p.Reason != nil && p.Reason.Kind == transfer.KindLost:
			i.box.control(&wire.Message{Kind: sourceLost, Refuse: &wire.Refuse{Error: p.Reason}})
		case !p.State.Final() && p.Items < acked:
			i.box.control(&wire.Message{Kind: sourceLost, Refuse: &wire.Refuse{Error: transfer.Errorf(transfer.KindLost,
				"%s runs on an older copy of its ledger: it has fewer outcomes of the transfer than it has acknowledged", i.from)}})
		case p.State.Final() && receiving:
			i.box.control(&wire.Message{Kind: sourceOver})
		}
	})
}

// endedAtSource withdraws a transfer that the source has ended: the source will not open it again.
func (i *incoming) endedAtSource() {
	if i.entry.In == nil || i.ep.Live || i.entry.In.State != transfer.Receiving {
		return
	}
	i.log.Info("the source reports the transfer as ended")
	i.cancelled()
}

// orphan ends a transfer after the loss of a ledger (R35). Undecided items are unknown.
func orphan(i *incoming, lost *transfer.Error) {
	if i.entry.In == nil || i.ep.Live || i.entry.In.State.Final() || i.withdrawn || !i.settleCommitting() {
		return
	}
	unknown, err := i.entry.Items.Undecided(lost)
	if err != nil {
		i.log.Error("cannot read the ledger", "error", err)
		return
	}
	i.r.calls.kill(i.from, i.id)
	i.finish(transfer.Orphaned, audit.Failed, lost.Text, func(a *audit.Record) {
		a.State, a.Code, a.Error = transfer.Failed, lost.Kind.Code(), lost
		if i.entry.In.Counts.Files > 0 {
			a.State = transfer.Partial
		}
		a.Items = unknown[:audit.FitItems(unknown)]
	})
}
