package monitor

import (
	"context"

	"ferry/internal/sys/failpoint"
)

// Limits of one transaction.
const (
	groupTriggers = 256
	groupFiles    = 1000
)

// A collector records the results of a poll in groups, and submits the triggers of each group.
type collector struct {
	ctx       context.Context
	rec       *record
	book      *monitorEntries
	submitter submitter
	triggers  []*trigger
	files     int // of the triggers
	marks     []known
}

// mark adds a change of the history.
func (c *collector) mark(e known) error {
	if c.marks = append(c.marks, e); len(c.marks) < groupFiles {
		return nil
	}
	return c.flush()
}

// add adds a trigger.
func (c *collector) add(t *trigger) error {
	c.triggers = append(c.triggers, t)
	if c.files += len(t.files); len(c.triggers) < groupTriggers && c.files < groupFiles {
		return nil
	}
	return c.flush()
}

// flush records the triggers and the changes of the history, and submits the triggers.
func (c *collector) flush() error {
	if len(c.triggers)+len(c.marks) == 0 {
		return nil
	}
	failpoint.Hit("monitor.before_record")
	if err := c.book.record(c.rec, c.marks, c.triggers); err != nil {
		return err
	}
	submit := len(c.triggers) > 0
	c.triggers, c.marks, c.files = nil, nil, 0
	if !submit {
		return nil
	}
	failpoint.Hit("monitor.after_record")
	return c.submitter.drain(c.ctx, c.rec)
}
