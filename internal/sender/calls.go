package sender

import (
	"context"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// Programs runs the exits and programs of transfers at their source, and records their ends; see exit.Executor.
type Programs interface {
	// Runs reports whether something runs at a call point of a transfer.
	Runs(q *transfer.Request, at transfer.CallPoint) bool
	// Choice returns the answer of the source-start exit; nil: it changes nothing.
	Choice(q *transfer.Request) (*transfer.Choice, error)
	Run(ctx context.Context, c *transfer.Call) (failure *transfer.Error, err error)
	Forget(t *ledger.Tx, q *transfer.Request, atDest bool) error
}

// A driver moves a transfer on when the work of its present state cannot.
type driver interface {
	// wait and waitFor move to Waiting, until the next attempt. waitSettling waits without a state of its own.
	wait(reason *transfer.Error, place int) (*DriveResult, error)
	waitFor(reason *transfer.Error, place int, retry time.Duration) (*DriveResult, error)
	waitSettling(reason *transfer.Error) (*DriveResult, error)
	// giveUp, fail and refused end the transfer. pumpFailed ends it, or waits.
	giveUp(why *transfer.Error) (*DriveResult, error)
	fail(e *transfer.Error) (*DriveResult, error)
	refused(e *transfer.Error) (*DriveResult, error)
	pumpFailed(err error) (*DriveResult, error)
	beginCancel() (*DriveResult, error)
	// stopReading closes the open files, and Dispose removes all traces of a transfer that is over.
	stopReading()
	Dispose()
}

// A programRunner checks the triggers of a transfer, and runs its programs.
type programRunner struct {
	parts
	next driver
}

// prepare runs the steps before the destination is asked: it checks the triggers, once, and runs the source-start exit
// and the pre-source program. A transfer with an epoch has begun, and none of them decides about it any more. ready is
// false if the transfer ends, waits or stops.
func (o *programRunner) prepare(ctx context.Context) (ready bool, v *DriveResult, err error) {
	rec := o.rec.read()
	q := &rec.Request
	if rec.Programs.Ready || rec.Dest != "" || rec.Epoch > 0 || len(q.Triggers) == 0 && !o.cfg.runs(q, transfer.PreSource) {
		return true, nil, nil
	}
	if !rec.Programs.Met && len(q.Triggers) > 0 {
		unmet, err := unmetTrigger(o.cfg.Place, q)
		switch {
		case transfer.KindOf(err).Waits():
			v, err = o.waitOrGiveUp(transfer.AsError(err))
			return false, v, err
		case err != nil:
			unmet = transfer.AsError(err)
		}
		if unmet != nil {
			v, err = o.next.fail(unmet)
			return false, v, err
		}
		if err := o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
			rec.Programs.Met = true
			return nil
		}); err != nil {
			return false, nil, err
		}
		failpoint.Hit("sender.after_trigger")
	}

	failure, err := o.runProgram(ctx, transfer.PreSource)
	switch {
	case ctx.Err() != nil:
		return false, nil, nil
	case o.rec.cancelled():
		v, err = o.next.beginCancel()
		return false, v, err
	case transfer.KindOf(err).Waits():
		v, err = o.waitOrGiveUp(transfer.AsError(err))
		return false, v, err
	case err != nil:
		return false, nil, err
	case failure != nil:
		v, err = o.next.fail(failure)
		return false, v, err
	}
	choice, err := o.cfg.choice(q)
	if err != nil {
		return false, nil, err
	}
	return true, nil, o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Programs.Ready, rec.Progress.Reason = true, nil
		rec.Request.Meta, rec.Programs.Chosen = choice.ApplyMeta(rec.Request.Meta), choice != nil && choice.Chosen
		return nil
	})
}

// runs reports whether something runs here at a call point of a transfer. A program of the request counts also where
// none can be run, so that it is not left out in silence.
func (c *Config) runs(q *transfer.Request, at transfer.CallPoint) bool {
	return q.Programs.At(at) != nil || c.Programs != nil && c.Programs.Runs(q, at)
}

// waitOrGiveUp waits, or gives up once the recovery time-out is over.
func (o *programRunner) waitOrGiveUp(reason *transfer.Error) (*DriveResult, error) {
	if o.rec.overdue() {
		return o.next.giveUp(reason)
	}
	return o.next.wait(reason, 0)
}

// unmetTrigger returns the first trigger that is not met; nil: all are.
func unmetTrigger(from place.Source, q *transfer.Request) (*transfer.Error, error) {
	examiner, ok := from.(place.Examiner)
	if !ok {
		return nil, transfer.Errorf(transfer.KindUsage, "%s cannot look whether a file is there; it has no triggers", q.Source)
	}
	for n := range q.Triggers {
		t, met := &q.Triggers[n], false
		for _, p := range t.Files {
			size, there, err := examiner.Examine(p)
			if err != nil {
				return nil, err
			}
			met = met || there == (t.When != transfer.TriggerNoExist) && (t.When != transfer.TriggerSize || size >= t.Size)
		}
		if !met {
			return transfer.Errorf(transfer.KindTrigger, "the transfer was not started: at %s %s", q.Source, t.Unmet()).
				WithHint("submit it again when that has changed"), nil
		}
	}
	return nil, nil
}

// runProgram runs a program, if there is one, and waits for it. The recovery time-out does not count while it runs. If
// the transfer is cancelled before its destination was asked, the program is killed.
func (o *programRunner) runProgram(ctx context.Context, at transfer.CallPoint) (failure *transfer.Error, err error) {
	rec := o.rec.read()
	c := &transfer.Call{At: at, Request: &rec.Request, Principal: rec.Principal, State: endingOf(rec), Counts: rec.Progress.Counts, Files: o.files(at)}
	if !o.cfg.runs(&rec.Request, at) {
		return nil, nil
	}
	if o.cfg.Programs == nil {
		return transfer.Errorf(transfer.KindProgram, "%s runs no programs", o.cfg.Agent), nil
	}

	if err := o.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		rec.Progress.Reason = transfer.Errorf(transfer.KindBusy, "%s runs %s", o.cfg.Agent, at.Exit().Noun())
		if p := c.Program(); p != nil {
			rec.Progress.Reason = transfer.Errorf(transfer.KindBusy, "%s runs the %s program %s", o.cfg.Agent, at, p.Name)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	o.shown.show(true)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	start := o.cfg.Clock.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		failure, err = o.cfg.Programs.Run(ctx, c)
	}()
	for {
		if at == transfer.PreSource && o.rec.cancelled() {
			end(transfer.Errorf(transfer.KindCancelled, "the transfer was cancelled"))
		}
		select {
		case <-done:
			o.rec.extendDeadline(o.cfg.Clock.Now().Sub(start))
			return failure, err
		case <-o.driver:
		}
	}
}

// files returns the files of the transfer for an exit: before the transfer those that it would send, after it those of
// its journal.
func (o *programRunner) files(at transfer.CallPoint) transfer.ExitFiles {
	return func(ctx context.Context, put func(transfer.ExitFile) error) error {
		if at.Post() {
			rec := o.rec.read()
			return o.items.ItemsFor(rec.Progress.Failures, rec.Programs.Arrived, put)
		}
		return o.cfg.walks().Files(ctx, o.rec.read(), put)
	}
}

// finish runs the source-end exit and the post-source program, and ends the transfer.
func (o *programRunner) finish(ctx context.Context) (*DriveResult, error) {
	failure, err := o.runProgram(ctx, transfer.PostSource)
	if ctx.Err() != nil && err != nil {
		return nil, nil
	}
	if transfer.KindOf(err).Waits() {
		if !o.rec.overdue() {
			return o.next.waitSettling(transfer.AsError(err))
		}
		failure, err = transfer.AsError(err), nil
	}
	if err != nil {
		return nil, err
	}

	rec := *o.rec.read()
	rec.Programs.Fail(failure)
	err = o.rec.update(func(t *ledger.Tx, rec *ledger.Source) error {
		rec.Programs.Fail(failure)
		return o.rec.end(t, rec, failureOf(rec))
	}, endingOf(&rec))
	failpoint.Hit("sender.after_settled")
	return &DriveResult{Final: true}, err
}

// programRuns records that the destination runs a program of the transfer, or an exit: meanwhile the recovery time-out
// does not count. Without a program in the request only the destination knows, and it counts again after
// transfer.MaxProgramTime without progress: counts reports that.
func (r *record) programRuns(now time.Time) (counts bool, err error) {
	rec := r.read()
	if rec.Request.Programs.OfDest() == nil && !rec.Programs.AtDest.IsZero() && now.Sub(rec.Programs.AtDest) > transfer.MaxProgramTime {
		return true, nil
	}
	return false, r.update(func(_ *ledger.Tx, rec *ledger.Source) error {
		if rec.Recovering = now; rec.Programs.AtDest.IsZero() {
			rec.Programs.AtDest = now
		}
		return nil
	})
}
