package land

import (
	"errors"
	"fmt"

	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// A groupResult group holds the outcomes and changes that are to be recorded.
type groupResult struct {
	outs    []transfer.Outcome
	decided []*work // the items of outs
	waiting []*work
	again   []*work
	why     error // the error of the first waiting item
}

// sortResults sorts a group. If names could not be made durable, only failures and items that begin again are recorded.
func (c *commit) sortResults(syncErr error) (e groupResult) {
	e.why = syncErr
	for _, w := range c.work {
		switch {
		case w.again != nil && w.wait == nil && (syncErr == nil || !w.sidecarRestored):
			e.again = append(e.again, w)
		case w.wait == nil && w.again == nil && (syncErr == nil || w.failed() && !w.sidecarRestored):
			e.outs, e.decided = append(e.outs, w.in.Outcome), append(e.decided, w)
		default:
			e.waiting = append(e.waiting, w)
			if e.why == nil {
				e.why = w.wait
			}
		}
	}
	return e
}

// record passes the outcomes to the journal, and then the items that begin again. Only after that it removes
// temporaries.
func (c *commit) record(syncErr error) ([]transfer.Outcome, error) {
	e := c.sortResults(syncErr)
	if len(e.outs) > 0 {
		if err := c.l.cfg.Journal.Committed(e.outs); err != nil {
			c.l.renames.leaveUnnamed(c.work)
			return nil, &place.PendingError{Intents: intentsOf(c.work), Err: fmt.Errorf("the outcomes could not be recorded: %w", err)}
		}
	}

	failpoint.Hit("commit.after_committed")
	again, err := c.recordAgain(e.again)
	for _, w := range e.again {
		if w.wait = err; err == nil {
			c.removeTemp(w)
		}
	}
	if err != nil {
		e.waiting, e.why = append(e.waiting, e.again...), err
	}

	for _, w := range e.decided {
		if w.failed() {
			c.removeTemp(w)
		} else {
			c.removeData(w)
		}
	}

	for _, w := range c.work {
		if w.wait == nil {
			c.l.sidecars.removeTemp(w)
		}
	}

	c.l.renames.leaveUnnamed(e.waiting)
	if len(e.waiting) > 0 {
		again = errors.Join(&place.PendingError{Intents: intentsOf(e.waiting), Err: e.why}, again)
	}
	return e.outs, again
}

func intentsOf(work []*work) (ins []transfer.Intent) {
	for _, w := range work {
		ins = append(ins, w.in.Record())
	}
	return ins
}

// recordAgain removes the items that begin again from the journal. It returns the *AgainError, if there are any.
func (c *commit) recordAgain(work []*work) (again, err error) {
	if len(work) == 0 {
		return nil, nil
	}

	all := &place.AgainError{}
	var items []uint64
	for _, w := range work {
		items = append(items, w.in.Outcome.Item)
		all.Items = append(all.Items, place.Again{Item: w.in.Outcome.Item, Err: w.again})
	}
	if err := c.l.cfg.Journal.Again(items); err != nil {
		return nil, fmt.Errorf("that %d items begin again could not be recorded: %w", len(items), err)
	}
	return all, nil
}

func (c *commit) intents() (ins []transfer.Intent) {
	for _, w := range c.work {
		if !w.early && w.again == nil {
			in := w.in.Record()
			in.FileID = w.mark
			ins = append(ins, in)
		}
	}
	return ins
}
