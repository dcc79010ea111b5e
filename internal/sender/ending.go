package sender

import (
	"context"
	"fmt"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// wait moves to Waiting, until the next attempt.
func (o *Outgoing) wait(reason *transfer.Error, place int) (*DriveResult, error) {
	return o.waitFor(reason, place, waitRetry)
}

// waitFor is wait with a retry time from the caller.
func (o *Outgoing) waitFor(reason *transfer.Error, place int, retry time.Duration) (*DriveResult, error) {
	if o.cfg.walks().Scarce() { // files that can be opened again are closed
		o.stopReading()
		o.items.Suspend()
	}
	o.live.setWaiting(place, o.cfg.Clock.Now().Add(retry))
	err := o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Progress.Reason = reason
		return nil
	}, transfer.Waiting)
	return &DriveResult{Reason: reason, Retry: retry}, err
}

// giveUp fails the transfer because the recovery time-out is over, and tells the destination: undecided items are
// unknown from here.
func (o *Outgoing) giveUp(why *transfer.Error) (*DriveResult, error) {
	rec := o.rec.read()
	e := transfer.Errorf(transfer.KindRecovery, "the recovery time-out of %s is over", rec.Request.RecoveryTimeout())
	if why != nil {
		e.Text += ": " + why.Text
	}
	if to := rec.Request.Dest; to.Place == transfer.Queues && rec.Dest != "" {
		of := wire.QueueItem{Transfer: o.ID}
		e.Text += fmt.Sprintf("; a part of a file, or all of it, may be in %s", to.Path)
		e.Hint = "look at the group with `ferry queue get NAME --browse --group " + of.Group() + "` before you send the file again; the group of a later file ends with its number"
	}
	return withdraw(o, e)
}

// withdraw ends the transfer as FAILED, then tells the destination. In the opposite order, a crash between the two
// would leave a transfer that continues here and has ended at the destination.
func withdraw(o *Outgoing, e *transfer.Error) (*DriveResult, error) {
	v, err := o.fail(e)
	if err == nil {
		o.peer.tell(cancel(o.rec.read()))
	}
	return v, err
}

// fail ends the transfer as FAILED with the error's code. Arrived items stay, and the counts include them.
func (o *Outgoing) fail(e *transfer.Error) (*DriveResult, error) {
	err := o.rec.update(func(t *ledger.Tx, rec *ledger.Source) error {
		return o.rec.end(t, rec, e)
	}, transfer.Failed)
	return &DriveResult{Final: true}, err
}

// NeedsDestination reports whether a transfer without a driver can go on only when its destination is there. With stored
// delivery this is so once everything is in the store.
func (o *Outgoing) NeedsDestination() bool {
	rec := o.rec.read()
	return rec.State == transfer.Waiting && (rec.LastStored > 0 || !o.stored()) || rec.State == transfer.Accepted && !o.stored()
}

// MarkUnreachable moves a transfer that needs its destination to Waiting: the destination is known to be away. It
// returns the time until the next attempt, and reports true if the recovery time-out is over and the transfer has failed.
func (o *Outgoing) MarkUnreachable() (ended bool, retry time.Duration, err error) {
	rec := o.rec.read()
	state, old := rec.State, rec.Progress.Reason
	reason := transfer.Errorf(transfer.KindUnreachable, "%s is not reachable", o.to).
		WithHint("the transfer goes on when the agent is there")
	over, retry := reason, waitRetry
	if o.stored() {
		reason, over, retry = o.store.awaited(nil), old, o.store.askAgain()
	}
	o.live.setWaiting(0, o.cfg.Clock.Now().Add(retry))
	if o.rec.overdue() {
		if state == transfer.Accepted {
			if _, err := o.step(context.Background()); err != nil {
				return false, retry, err
			}
		}
		if _, err := o.giveUp(over); err != nil {
			return false, retry, err
		}
		o.shown.show(true)
		o.Dispose()
		return true, retry, nil
	}

	if state == transfer.Waiting && old != nil && old.Kind == transfer.KindUnreachable {
		return false, retry, nil
	}

	steps := []transfer.State{transfer.Waiting}
	if state == transfer.Accepted {
		steps = []transfer.State{transfer.Negotiating, transfer.Waiting}
	}
	err = o.rec.stands(reason, steps...)
	o.shown.show(true)
	return false, retry, err
}

// stopReading stops the walk, and closes the open files.
func (o *Outgoing) stopReading() {
	o.items.Stop()
	o.pumpState.close()
}

// Dispose closes all open files. It removes the item journal of a transfer that is over.
func (o *Outgoing) Dispose() {
	o.store.leave()
	o.stopReading()
	o.items.Close()
	if o.rec.state().Final() {
		failpoint.Hit("sender.before_drop")
		if err := release(o); err != nil {
			o.log.Warn("cannot release sources", "error", err)
		}
		if err := o.cfg.Ledger.DropJournal(o.ID); err != nil {
			o.log.Warn("cannot remove item journal", "error", err)
		}
	}
}

// release ends the place's hold on the transfer's sources.
func release(o *Outgoing) error {
	if len(o.held) == 0 {
		return nil
	}
	return o.cfg.Place.(place.Releaser).Release(o.ID, o.held)
}
