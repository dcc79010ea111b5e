package receiver

import (
	"errors"
	"log/slog"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// suspend ends the epoch: it returns the slot and the credit, and the safe bytes stay. With a reason it tells the
// source to wait.
func (i *incoming) suspend(reason *transfer.Error) {
	if i.ep.live {
		i.endEpoch(reason)
	}
}

// endEpoch ends the open epoch, as suspend does, also while an epoch begins.
func (i *incoming) endEpoch(reason *transfer.Error) {
	i.com.drain()
	i.w.settleOpen(false)
	if i.finishIfDecided() {
		return // the last items were in flight
	}

	epoch := i.rec.Epoch
	(taking{i}).trim(i.r.cfg.Clock.Now(), true)
	i.waits = reason
	i.closeEpoch()
	if err := i.update(func(_ *ledger.Tx, rec *ledger.Incoming) error {
		rec.Live = false
		return nil
	}); err != nil {
		i.log.Error("cannot write the ledger", "error", err)
	}

	i.r.keep(i.id, i.hasPoint())
	if reason != nil {
		i.log.Warn("incoming transfer waits", "error", reason)
		i.r.send(i.from, &wire.Message{Kind: wire.KindBusy, Transfer: i.id, Busy: &wire.Busy{Nonce: i.opening, Epoch: epoch, Place: 1, Reason: reason}})
	}
}

// giveWay removes the partial file of a waiting transfer, because older transfers that wait have their own.
func (i *incoming) giveWay() {
	if i.rec == nil || i.ep.live {
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

// closeEpoch closes the epoch; the loop also calls it last.
func (i *incoming) closeEpoch() {
	for _, c := range i.w.files.all() {
		i.w.drop(c, false)
	}

	i.lastAck.Store(nil)
	i.w.cp.due = zeroTime
	if i.ep.account != nil {
		i.ep.account.Close()
	}

	i.ep = epoch{}
	i.box.shut()
	for _, e := range i.com.grp.drop() {
		e.leave()
		i.givePlace()
	}
	i.dropPlaces()

	i.com.unsafe = 0
	if i.to.landed != nil {
		i.to.landed.Close() // a waiting transfer keeps no directories open
	}

	i.r.release(i.id)
}

// cancelled withdraws the transfer. Items past COMMITTING finish, and the rest is removed. The source gets CANCELLED
// once it has every outcome.
func (i *incoming) cancelled() {
	switch {
	case i.rec == nil:
		i.r.calls.kill(i.from, i.id)
		if i.r.mayEntomb(i.from) {
			if err := i.r.cfg.Ledger.Update(func(t *ledger.Tx) error { return t.EntombOf(i.id, i.from) }); err != nil {
				i.log.Error("cannot write the ledger", "error", err)
				return
			}
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
	if i.rec.State.Final() {
		i.over = true
		return
	}

	i.suspend(nil)
	if i.over || !i.settleCommitting() {
		return
	}

	i.r.calls.kill(i.from, i.id)
	end := transfer.Abandoned
	if i.rec.State == transfer.Decided {
		end = transfer.Done
	}

	i.finish(end, audit.Warning, "the source was not heard of before the deadline")
}

// finish writes the final state and removes the leftovers in the directories. more completes the audit record.
func (i *incoming) finish(end transfer.Incoming, event audit.Event, text string, more ...func(*audit.Record)) {
	unswept := i.leaves(i.rec.State == transfer.Receiving)
	failpoint.Hit("receiver.before_done")
	err := i.update(func(t *ledger.Tx, rec *ledger.Incoming) error {
		if err := rec.Move(end); err != nil {
			return err
		}
		if err := i.forgetPrograms(t, rec); err != nil {
			return err
		}
		rec.Unswept = unswept
		return i.r.cfg.Note(t, i.entry(event, func(a *audit.Record) {
			a.Counts, a.Reason = &rec.Counts, text
			if event == audit.Cancelled {
				a.Principal = i.cancelBy
			}
			if end == transfer.Done {
				a.State = rec.Counts.Ending()
			}
			for _, complete := range more {
				complete(a)
			}
		}))
	})
	if err != nil {
		i.log.Error("cannot write the ledger", "error", err)
		return
	}

	(taking{i}).dropShelf()
	i.logEnd(text)
	failpoint.Hit("receiver.after_done")
	i.over = true
}

// logEnd logs the end of the transfer at this side; reason is "" if all of it is decided and delivered.
func (rc *record) logEnd(reason string) {
	c := &rc.rec.Counts
	level, state := slog.LevelInfo, string(rc.rec.State)
	if rc.rec.State == transfer.Done {
		state = string(c.Ending())
	}

	if rc.rec.State != transfer.Done || c.Ending() != transfer.Successful {
		level = slog.LevelWarn
	}

	attrs := []any{"state", state, "job", rc.rec.Request.Job, "files", c.Files, "failed", c.FilesFailed, "bytes", c.Bytes,
		"seconds", rc.r.cfg.Clock.Now().Sub(rc.rec.Started).Seconds(), "epoch", rc.rec.Epoch}
	if c.FilesSkipped > 0 {
		attrs = append(attrs, "skipped", c.FilesSkipped)
	}

	if reason != "" {
		attrs = append(attrs, "error", reason)
	}

	rc.log.Log(rc.r.ctx, level, "incoming transfer ended", attrs...)
}

// sweepEvery is the time between attempts to remove the leftovers of an ended transfer.
const sweepEvery = 10 * time.Minute

// sweepLater removes, at the start and every few minutes, temporaries of
// transfers that are over and could not remove them.
func (r *Receiver) sweepLater() {
	t := r.cfg.Clock.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-t.C():
		case <-r.ctx.Done():
			return
		}
		if err := r.wakeOverdue(); err != nil {
			r.cfg.Log.Warn("cannot look up idle transfers", "error", err)
		}
		if !r.unswept.Swap(false) {
			t.Reset(sweepEvery)
			continue
		}
		if err := r.sweepUnswept(); err != nil {
			r.unswept.Store(true)
			r.cfg.Log.Warn("cannot remove temporary files of ended transfers; will retry", "error", err)
		}
		t.Reset(sweepEvery)
	}
}

func (r *Receiver) sweepUnswept() error {
	type left struct {
		rec  *ledger.Incoming
		dirs []transfer.Path
	}
	var all []left
	err := r.cfg.Ledger.View(func(t *ledger.Tx) error {
		return t.Incomings(func(in *ledger.Incoming) error {
			if !in.Unswept {
				return nil
			}
			dirs, err := t.Dirs(in.Request.ID)
			all = append(all, left{in, dirs})
			return err
		})
	})
	for _, l := range all {
		landing := r.cfg.Place.Land(landingOf(l.rec))
		if serr := landing.Tidy(l.dirs, true); serr != nil {
			err = errors.Join(err, serr)
			continue
		}
		err = errors.Join(err, r.cfg.Ledger.Update(func(t *ledger.Tx) error {
			rec, err := t.Incoming(l.rec.Request.ID)
			if err != nil || rec == nil {
				return err
			}
			rec.Unswept = false
			return t.PutIncoming(rec)
		}))
	}
	return err
}
