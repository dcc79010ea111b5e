package monitor

import (
	"context"

	"ferry/internal/ledger"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// A submitter submits the recorded triggers of one monitor.
type submitter struct {
	book    *monitorEntries
	display *display
}

// final reports whether an error of a submission is permanent, so that the trigger is refused. Other errors concern the
// agent, and pass.
func final(err error) bool {
	switch transfer.KindOf(err) {
	case transfer.KindUsage, transfer.KindTooLarge, transfer.KindMalformed, transfer.KindVersion, transfer.KindNotBuilt,
		transfer.KindDenied, transfer.KindConflict, transfer.KindUnknownAgent, transfer.KindOutsideRoot, transfer.KindWrongType,
		transfer.KindMissing, transfer.KindExists, transfer.KindUnreadable, transfer.KindUnwritable, transfer.KindExit:
		return true
	}
	return false
}

// drain submits the recorded triggers in order. It ends at the first trigger that has to wait, and returns the reason.
// It submits each trigger as it is in the ledger, and therefore the same request each time.
func (s submitter) drain(ctx context.Context, rec *record) error {
	for {
		page, more, err := s.book.recorded()
		if err != nil {
			return err
		}
		s.display.waiting(more)
		if len(page) == 0 {
			return nil
		}
		var done []result
		var stop error
		for n := range page {
			if stop = s.mayGoOn(ctx, rec); stop != nil {
				break
			}
			q := page[n].Request
			err := s.exit(ctx, &page[n], &q)
			if stop = s.mayGoOn(ctx, rec); stop != nil { // the exit may have taken long
				break
			}
			if err == nil {
				_, err = s.book.services.Offer(page[n].Origin, &q)
			}
			if err != nil && !final(err) {
				stop = err
				break
			}
			done = append(done, result{page[n], err})
		}
		failpoint.Hit("monitor.before_done")
		if err := s.book.written(done); err != nil {
			return err
		}
		if stop != nil {
			return stop
		}
	}
}

// exit runs the agent's monitor exit for a trigger. An error of KindExit refuses the trigger.
func (s submitter) exit(ctx context.Context, one *pending, q *transfer.Request) error {
	exits := s.book.services.Exits
	if exits == nil {
		return nil
	}
	failure, err := exits.Trigger(ctx, s.book.name, one.Principal, q)
	if failure != nil {
		return failure
	}
	return err
}

// mayGoOn returns the reason why no more triggers are submitted now: the agent ends, or the monitor has changed.
func (s submitter) mayGoOn(ctx context.Context, rec *record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.book.services.Ledger.View(func(t *ledger.Tx) error { return s.book.unchanged(drawerOf(t), rec) })
}
