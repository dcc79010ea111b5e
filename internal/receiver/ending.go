package receiver

import (
	"errors"
	"time"

	"ferry/internal/audit"
	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// suspend ends the epoch: the slot and the credit go back, what is safe stays.
// With a reason the source is told to wait.
func (i *incoming) suspend(reason *transfer.Error) {
	if !i.live {
		return
	}
	i.drain()
	i.settleCurrent(false)
	epoch := i.rec.Epoch
	i.closeEpoch()
	if err := i.update(func(_ *ledger.Tx, rec *ledger.Incoming) error {
		rec.Live = false
		return nil
	}); err != nil {
		i.log.Error("the ledger cannot be written", "err", err)
	}
	i.r.keep(i.id, i.hasPoint())
	if reason != nil {
		i.log.Warn("the transfer waits", "reason", reason)
		i.r.send(i.from, &wire.Message{Kind: wire.KindBusy, Transfer: i.id, Busy: &wire.Busy{Epoch: epoch, Place: 1, Reason: reason}})
	}
}

// hasPoint reports whether there is a partial file to go on with.
func (i *incoming) hasPoint() (has bool) {
	err := i.r.cfg.Ledger.View(func(t *ledger.Tx) error {
		return t.Items(i.id, func(_ uint64, it *ledger.Item) error {
			has = has || it.Point != nil
			return nil
		})
	})
	return has && err == nil
}

// giveWay removes the partial file of a transfer that waits: others wait, too,
// and came first.
func (i *incoming) giveWay() {
	if i.rec == nil || i.live {
		return
	}
	intents, err := i.intents()
	if err != nil || len(intents) > 0 {
		return // first they must be decided
	}
	err = i.r.cfg.Ledger.Update(func(t *ledger.Tx) error {
		var points []uint64
		err := t.Items(i.id, func(item uint64, it *ledger.Item) error {
			if it.Point != nil {
				points = append(points, item)
			}
			return nil
		})
		for _, item := range points {
			err = errors.Join(err, t.DropItem(i.id, item))
		}
		return err
	})
	if err == nil {
		i.sweep()
	}
}

// closeEpoch forgets the epoch; the loop's last act, too.
func (i *incoming) closeEpoch() {
	if i.cur != nil {
		i.dropFile(false)
	}
	i.lastAck.Store(nil)
	i.live, i.begun, i.resyncs, i.accept = false, false, nil, nil
	i.again, i.stop = "", nil
	i.ackDue, i.groupDue, i.checkDue, i.resyncDue, i.silentAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	if i.account != nil {
		i.account.Close()
		i.account = nil
	}
	i.box.shut()
	for _, e := range i.group {
		e.discard()
		<-i.r.open
	}
	i.group, i.groupSize, i.unsafe = nil, 0, 0
	clear(i.ended)
	i.r.release(i.id)
}

// cancelled withdraws the transfer: what is past COMMITTING finishes, the rest
// is removed, and the source hears CANCELLED once it has every outcome.
func (i *incoming) cancelled() {
	switch {
	case i.rec == nil:
		if err := i.r.cfg.Ledger.Update(func(t *ledger.Tx) error { return t.Entomb(i.id) }); err != nil {
			i.log.Error("the ledger cannot be written", "err", err)
			return
		}
		i.r.send(i.from, &wire.Message{Kind: wire.KindCancelled, Transfer: i.id})
	case i.rec.State.Final():
		i.r.send(i.from, &wire.Message{Kind: wire.KindCancelled, Transfer: i.id})
		i.over = true
	case i.rec.State == transfer.Receiving:
		i.suspend(nil)
		if i.rec.State != transfer.Receiving || !i.settleCommitting() {
			return // the last items were decided just now, or cannot be yet: CANCEL comes again
		}
		i.withdrawn = true
		i.offerNew()
		i.endIfDelivered()
	}
}

// giveUp is the deadline: a source that is gone for ever must not hold slots
// and temporaries for ever.
func (i *incoming) giveUp() {
	if i.rec.State.Final() {
		i.over = true
		return
	}
	i.suspend(nil)
	if i.over || !i.settleCommitting() {
		return
	}
	end := transfer.Abandoned
	if i.rec.State == transfer.Decided {
		end = transfer.Done
	}
	i.finish(end, audit.Warning, "the source was not heard of before the deadline")
}

// finish writes the final state and removes what is left in the directories.
func (i *incoming) finish(end transfer.Incoming, event audit.Event, text string) {
	if i.rec.State == transfer.Receiving {
		i.sweep()
	}
	failpoint.Hit("receiver.before_done")
	err := i.update(func(t *ledger.Tx, rec *ledger.Incoming) error {
		rec.State, rec.Live = end, false
		return i.r.cfg.Note(t, i.record(event, func(a *audit.Record) {
			a.Counts, a.Reason = &rec.Counts, text
			if end == transfer.Done {
				a.State = rec.Counts.Ending()
			}
		}))
	})
	if err != nil {
		i.log.Error("the ledger cannot be written", "err", err)
		return
	}
	i.over = true
}

// sweep removes this transfer's own temporaries.
func (i *incoming) sweep() {
	var dirs []transfer.Path
	err := i.r.cfg.Ledger.View(func(t *ledger.Tx) (err error) {
		dirs, err = t.Dirs(i.id)
		return err
	})
	if err == nil && i.landing != nil {
		err = i.landing.Sweep(dirs)
	}
	if err != nil {
		i.log.Warn("temporaries may be left behind", "dirs", dirs, "err", err)
	}
}
