package entry

import (
	"context"
	"log/slog"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// AllDecided moves the transfer to Decided, with the number of its items.
func (e *Entry) AllDecided(total uint64) error {
	return e.update(func(_ *ledger.Tx, in *ledger.Incoming) error {
		in.HasTotal, in.Total = true, total
		return in.Move(transfer.Decided)
	})
}

// Acked drops outcomes that the source has recorded.
func (e *Entry) Acked(outcomes []transfer.Outcome) error { return e.acked(outcomes, nil) }

// AckedLast drops the last outcomes, and moves the transfer to DONE with its audit record. unswept says that
// temporaries may be left.
func (e *Entry) AckedLast(outcomes []transfer.Outcome, unswept bool) error {
	return e.acked(outcomes, func(t *ledger.Tx, in *ledger.Incoming) error {
		if err := in.Move(transfer.Done); err != nil {
			return err
		}
		if err := e.all.Forget(t, &in.Request); err != nil {
			return err
		}
		in.Unswept = unswept
		event := audit.Completed
		if in.Counts.Ending() == transfer.Failed {
			event = audit.Failed
		}
		return e.all.Note(t, e.journal.record(event, func(a *audit.Record) {
			a.Counts, a.State = &in.Counts, in.Counts.Ending()
			a.Seconds = in.LastContact.Sub(in.Started).Seconds()
		}))
	})
}

func (e *Entry) acked(outcomes []transfer.Outcome, end func(*ledger.Tx, *ledger.Incoming) error) error {
	return e.update(func(t *ledger.Tx, in *ledger.Incoming) error {
		e.all.heard(t, in)
		items := make([]uint64, len(outcomes))
		for n := range outcomes {
			items[n] = outcomes[n].Item
		}
		if err := t.DropItems(e.ID, items); err != nil || end == nil {
			return err
		}
		return end(t, in)
	})
}

// An End is an end of a transfer at this side other than by the acknowledgement of its last outcomes.
type End struct {
	State    transfer.Incoming
	Event    audit.Event
	Text     string
	Unswept  bool                // temporaries may be left
	Complete func(*audit.Record) // completes the audit record; nil: it is complete
}

// Finish writes a final state.
func (e *Entry) Finish(end *End) error {
	failpoint.Hit("receiver.before_done")
	return e.update(func(t *ledger.Tx, in *ledger.Incoming) error {
		if err := in.Move(end.State); err != nil {
			return err
		}
		if err := e.all.Forget(t, &in.Request); err != nil {
			return err
		}
		in.Unswept = end.Unswept
		return e.all.Note(t, e.journal.record(end.Event, func(a *audit.Record) {
			a.Counts, a.Reason = &in.Counts, end.Text
			if end.State == transfer.Done {
				a.State = in.Counts.Ending()
			}
			if end.Complete != nil {
				end.Complete(a)
			}
		}))
	})
}

// LogEnd logs the end of the transfer at this side; reason is "" if all of it is decided and delivered.
func (e *Entry) LogEnd(ctx context.Context, reason string) {
	c := &e.In.Counts
	level, state := slog.LevelInfo, string(e.In.State)
	if e.In.State == transfer.Done {
		state = string(c.Ending())
	}

	if e.In.State != transfer.Done || c.Ending() != transfer.Successful {
		level = slog.LevelWarn
	}

	attrs := []any{"state", state, "job", e.In.Request.Job, "files", c.Files, "failed", c.FilesFailed, "bytes", c.Bytes,
		"seconds", e.all.Clock.Now().Sub(e.In.Started).Seconds(), "epoch", e.In.Epoch}
	if c.FilesSkipped > 0 {
		attrs = append(attrs, "skipped", c.FilesSkipped)
	}

	if reason != "" {
		attrs = append(attrs, "error", reason)
	}

	e.Log.Log(ctx, level, "incoming transfer ended", attrs...)
}
