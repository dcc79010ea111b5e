package sender

import (
	"fmt"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// cancel returns the CANCEL of a transfer. It names the principal that asked for it, if any.
func cancel(rec *ledger.Source) *wire.Message {
	return &wire.Message{Kind: wire.KindCancel, Cancel: &wire.Cancel{Principal: rec.Canceller.Principal}}
}

// done returns the word for the end of a source: archived or deleted.
func done(d *ledger.Delete) string {
	if d.Archive != "" {
		return "archived"
	}
	return "deleted"
}

// failureOf returns the error of a transfer with failed items: the error of the first one. Without failed items it
// returns the error of a failed later program.
func failureOf(rec *ledger.Source) *transfer.Error {
	p := &rec.Progress
	if p.FilesFailed == 0 || len(p.Failures) == 0 {
		return rec.Programs.Failed
	}
	e := *p.Failures[0].Err
	if p.FilesFailed > 1 {
		e.Text = fmt.Sprintf("%d items failed, the first: %s", p.FilesFailed, e.Text)
	}
	return &e
}

// endingOf returns the final state of a transfer with all outcomes on record. If all items have arrived but a later
// program has failed, the state is Partial.
func endingOf(rec *ledger.Source) transfer.State {
	s := rec.Progress.Counts.Ending()
	if s == transfer.Successful && rec.Programs.Failed != nil {
		return transfer.Partial
	}
	return s
}
