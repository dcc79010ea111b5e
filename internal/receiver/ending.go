package receiver

import (
	"ferry/internal/audit"
	"ferry/internal/receiver/entry"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// suspend ends the epoch: it returns the slot and the credit, and the safe bytes stay. With a reason it tells the
// source to wait.
func (i *incoming) suspend(reason *transfer.Error) {
	if i.ep.Live {
		i.endEpoch(reason)
	}
}

// endEpoch ends the open epoch, as suspend does, also while an epoch begins.
func (i *incoming) endEpoch(reason *transfer.Error) {
	i.w.Drain()
	i.w.Settle(false)
	if i.finishIfDecided() {
		return // the last items were in flight
	}

	epoch := i.entry.In.Epoch
	i.stored.trim(i.r.cfg.Clock.Now(), true)
	i.stored.waits = reason
	i.closeEpoch()
	if err := i.entry.SetLive(false); err != nil {
		i.log.Error("cannot write the ledger", "error", err)
	}

	i.r.keepPartial(i.id, i.entry.Items.AnyPoint())
	if reason != nil {
		i.log.Warn("incoming transfer waits", "error", reason)
		i.r.send(i.from, &wire.Message{Kind: wire.KindBusy, Transfer: i.id, Busy: &wire.Busy{Nonce: i.opening, Epoch: epoch, Place: 1, Reason: reason}})
	}
}

// removePartials removes the partial file of a waiting transfer, because older transfers that wait have their own.
func (i *incoming) removePartials() {
	if i.entry.In == nil || i.ep.Live {
		return
	}

	intents, err := i.entry.Intents()
	if err != nil || len(intents) > 0 {
		return // first they must be decided
	}

	err = i.entry.Items.DropPoints()
	if err == nil {
		i.to.Sweep()
	}
}

// closeEpoch closes the epoch; the loop also calls it last.
func (i *incoming) closeEpoch() {
	i.w.Close()
	i.lastAck.Store(nil)
	if i.ep.account != nil {
		i.ep.account.Close()
	}

	i.ep = epoch{}
	i.box.shut()
	i.r.release(i.id)
}

// cancelled withdraws the transfer. Items past COMMITTING finish, and the rest is removed. The source gets CANCELLED
// once it has every outcome.
func (i *incoming) cancelled() {
	switch {
	case i.entry.In == nil:
		i.r.calls.kill(i.from, i.id)
		if i.r.tombstones.may(i.from) {
			if err := i.entry.Tombstone.Put(); err != nil {
				i.log.Error("cannot write the ledger", "error", err)
				return
			}
		}
		i.r.send(i.from, &wire.Message{Kind: wire.KindCancelled, Transfer: i.id})
	case i.entry.In.State.Final():
		i.r.send(i.from, &wire.Message{Kind: wire.KindCancelled, Transfer: i.id})
		i.over = true
	case i.entry.In.State == transfer.Receiving:
		i.suspend(nil)
		if i.entry.In.State != transfer.Receiving || !i.settleCommitting() {
			return // the last items were decided just now, or cannot be yet: CANCEL comes again
		}
		failpoint.Hit("receiver.after_cancel")
		i.withdrawn = true
		i.offerNew()
		i.endIfDelivered()
	default: // all is decided: only a running program can still be cancelled
		i.r.calls.kill(i.from, i.id)
	}
}

// giveUp ends the transfer at its deadline: a source that is gone for ever must not hold slots and temporaries for
// ever.
func (i *incoming) giveUp() {
	if i.entry.In.State.Final() {
		i.over = true
		return
	}

	i.suspend(nil)
	if i.over || !i.settleCommitting() {
		return
	}

	i.r.calls.kill(i.from, i.id)
	end := transfer.Abandoned
	if i.entry.In.State == transfer.Decided {
		end = transfer.Done
	}

	i.finish(end, audit.Warning, "the source was not heard of before the deadline", nil)
}

// finish writes the final state and removes the leftovers in the directories. more completes the audit record; nil: it
// is complete.
func (i *incoming) finish(end transfer.Incoming, event audit.Event, text string, more func(*audit.Record)) {
	unswept := i.to.SweepAtEnd(i.entry.In.State == transfer.Receiving)
	if err := i.entry.Finish(&entry.End{State: end, Event: event, Text: text, Unswept: unswept, Complete: more}); err != nil {
		i.log.Error("cannot write the ledger", "error", err)
		return
	}

	i.stored.drop()
	i.entry.LogEnd(i.r.ctx, text)
	failpoint.Hit("receiver.after_done")
	i.over = true
}
