// Package walk turns the request of a transfer into its items: it reads the request, walks the sources, and keeps the
// item journal. It also has the destinations that a request names.
package walk

import (
	"context"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// A Config is the configuration of the walks of an agent, or of one transfer.
type Config struct {
	Agent  transfer.AgentName
	Beside transfer.AgentName // another agent with the same roots on this host; may be empty
	Ledger *ledger.Ledger
	Place  place.Source
	Clock  clock.Clock
	// MaxTargets bounds the targets of one OPEN, in bytes; 0: 32 KiB. On a slow link no OPEN must take long.
	MaxTargets int
	// Scratch is a directory of this agent alone, for items to be sorted that are too many for memory; empty: all stay
	// in memory.
	Scratch string
	// Choice returns the answer of the source-start exit of a transfer; nil: there are no exits.
	Choice func(*transfer.Request) (*transfer.Choice, error)
}

// journalBatch is how many items are synced into the journal at once.
const journalBatch = 1024

// Scarce reports whether a waiting transfer should keep no file open.
func (c *Config) Scarce() bool {
	l, ok := c.Place.(place.FileBudget)
	return ok && l.Scarce()
}

// borrow asks for a descriptor that is not essential; giveBack returns it.
func (c *Config) borrow() bool {
	l, ok := c.Place.(place.FileBudget)
	return !ok || l.Borrow()
}

func (c *Config) giveBack() {
	if l, ok := c.Place.(place.FileBudget); ok {
		l.Return()
	}
}

// bothEnds reports whether the destination is known to have the files of this host beneath the same roots.
func (c *Config) bothEnds(q *transfer.Request) bool {
	return q.Destination == c.Agent || q.Destination == c.Beside && c.Beside != ""
}

// A GuardError reports a request with more sources than it allows.
type GuardError struct{ err *transfer.Error }

func (e *GuardError) Error() string { return e.err.Error() }
func (e *GuardError) Unwrap() error { return e.err }

// TooMuch returns a *GuardError of KindTooLarge for a walk that finds more items, more files, or more bytes in them,
// than the request allows; otherwise nil.
func TooMuch(q *transfer.Request, items, files, bytes int64) error {
	var err *transfer.Error
	switch {
	case q.Together && items > transfer.MaxSet:
		err = transfer.Errorf(transfer.KindTooLarge, "there are more than %d files and directories, the most that --together takes; nothing was sent", transfer.MaxSet).
			WithHint("send them in several transfers, or without --together")
	case q.MaxFiles > 0 && files > q.MaxFiles:
		err = transfer.Errorf(transfer.KindTooLarge, "there are more than %d files, the most that --max-files allows; nothing was sent", q.MaxFiles)
	case q.MaxBytes > 0 && bytes > q.MaxBytes:
		err = transfer.Errorf(transfer.KindTooLarge, "the files have more than %s, the most that --max-size allows; nothing was sent", transfer.FormatBytes(q.MaxBytes))
	default:
		return nil
	}
	return &GuardError{err}
}

// walkItems writes the items of the request into the journal. It goes on from the last item there, unless the items
// have an order, or an exit has chosen them.
func (c *Config) walkItems(ctx context.Context, rec *ledger.Source, j *ledger.Journal) (tally ledger.Tally, err error) {
	if rec.Request.Order != "" {
		return c.walkOrdered(ctx, rec, j)
	}

	w := journalWriter{c: c, j: j, last: c.Clock.Now()}
	if rec.Programs.Chosen { // the last item there may have another name than the walk gives it
		if err := j.Restart(); err != nil {
			return tally, err
		}
		return c.walk(ctx, rec, nil, ledger.Totals{}, w.put)
	}
	return c.walk(ctx, rec, j.Last(), j.Totals(), w.put) // both of the synced part
}

// walk passes the items that the request takes to put, from behind the last item that was found before.
func (c *Config) walk(ctx context.Context, rec *ledger.Source, after *transfer.Item, found ledger.Totals, put func(transfer.Item) error) (tally ledger.Tally, err error) {
	walk, err := c.walkRequest(rec)
	if err != nil {
		return tally, err
	}

	chosen, err := c.chosen(rec)
	if err != nil {
		return tally, err
	}

	walk.After = after
	tally.Links, err = c.Place.Walk(ctx, walk, func(it transfer.Item) error {
		if !rec.Request.Takes(&it) || !chosen.takes(&it) {
			if it.Type != transfer.ItemDir {
				tally.LeftOut++
			}
			return nil
		}
		found.Items++
		if it.Type == transfer.ItemFile {
			found.Files, found.Bytes = found.Files+1, found.Bytes+it.Size
		}
		if err := TooMuch(&rec.Request, found.Items, found.Files, found.Bytes); err != nil {
			return err
		}
		return put(it)
	})
	return tally, err
}

// A journalWriter puts items into a journal, and syncs it from time to time: the first items soon.
type journalWriter struct {
	c        *Config
	j        *ledger.Journal
	unsynced int
	last     time.Time
}

func (w *journalWriter) put(it transfer.Item) error {
	if err := w.j.Append(it); err != nil {
		return err
	}
	w.unsynced++
	if now := w.c.Clock.Now(); w.unsynced >= journalBatch || now.Sub(w.last) > 20*time.Millisecond {
		w.unsynced, w.last = 0, now
		failpoint.Hit("walk.before_sync")
		return w.j.Sync()
	}
	return nil
}

// Guarded reports whether no item is offered before the end of the walk, because the request limits the items, or gives
// them an order, or because an exit has chosen them.
func Guarded(rec *ledger.Source) bool {
	q := &rec.Request
	return rec.Programs.Chosen || q.MaxFiles != 0 || q.MaxBytes != 0 || q.Together || q.Order != ""
}
