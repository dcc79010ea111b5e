package land

import (
	"context"
	"fmt"

	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// Commit ends a group of items. Its steps, each once for the whole group:
//
//  1. appended items are joined with their bases (append.go); sidecars are written under temporary names; modes and times
//     are set on the open temporaries, which are synced and closed; the directories
//     that hold them are synced, and those above them that are new
//  2. Journal.Committing
//  3. the path of every directory is looked up; a sidecar gets its
//     name there, and each temporary that is still the written file is renamed to its
//     final name; an old sidecar of a replaced file goes, and the sidecar
//     of a name that was refused comes back; directories are made; then the
//     modes and times of directories are set, in the group's order
//  4. every directory that has a new name in it is synced, and its path and each new name
//     are looked up again
//  5. Journal.Committed, and only then the temporaries of failed items go
//
// If a path leads elsewhere, or a temporary belongs to another program, an item without a name begins again. An item
// that has its name by then is recorded as moved away (KindMoved).
//
// A crash before step 2 leaves temporaries that no ledger mentions. After a crash later, Recover decides each item.
// Therefore, once the commit has called Committing, it never removes a temporary before the item's outcome is recorded:
// Recover takes a missing temporary for a renamed one.
//
// done lists the recorded outcomes. Items with a taken or refused name are among them, with an Err. If the host lacks a
// resource before step 1, Commit returns the error unchanged and leaves the temporaries. The error is a *SyncError
// before step 2, a *PendingError, an *AgainError or both after it. If Journal.Committing itself failed, Commit returns
// its error and leaves the temporaries; it is unknown whether the intents are recorded. Commit always closes the
// partials, unless ctx is done at the start.
//
// If the items of the group get their names together, Commit checks the refusals of step 3 before step 1 and after it,
// too. A failure by step 2 then fails all items: see set.go. An error before step 2 that is no *SyncError leaves the
// temporaries.
//
// With durability process the syncs are left out and the order is kept.
func (l *Landing) Commit(ctx context.Context, group []place.Pending) (done []transfer.Outcome, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	c := &commit{l: l, together: oneSet(group)}
	defer c.release()
	for i := range group {
		c.add(&group[i])
	}

	c.refuseDuplicates()
	if c.short != nil {
		return nil, c.short
	}
	if err := c.checkSet(); err != nil {
		return nil, err
	}
	c.failTogether()
	over, err := c.join(ctx)
	if over != nil {
		defer over()
	}
	if err != nil {
		return nil, err
	}
	if c.short != nil {
		return nil, c.short
	}
	if err := c.syncTemporaries(); err != nil {
		c.discard()
		return nil, &place.SyncError{Items: c.files(), Err: err}
	}
	if c.together {
		if err := c.againTogether(); err != nil {
			return nil, err
		}
		clear(c.pathChecks)
		if err := c.checkSet(); err != nil { // once more: the syncs may have taken minutes
			return nil, err
		}
	}
	c.failTogether()
	clear(c.pathChecks) // they are looked up once more when the names are durable

	if intents := c.intents(); len(intents) > 0 {
		if err := l.cfg.Journal.Committing(intents); err != nil {
			l.renames.leaveUnnamed(c.work)
			return nil, fmt.Errorf("the commit of %d items could not be recorded: %w", len(intents), err)
		}
	}

	failpoint.Hit("commit.after_committing")
	return c.finish()
}

// finish does all steps that follow the journal's Committing.
func (c *commit) finish() ([]transfer.Outcome, error) {
	for _, w := range c.work {
		if !w.isDir() && !w.named() && !w.over() {
			c.lookUp(w)
		}
	}

	for _, w := range c.work {
		if !w.isDir() && !w.named() && !w.over() {
			c.rename(w)
			failpoint.Hit("commit.after_rename")
		}
	}

	c.settleSidecars()
	c.makeDirs()
	failpoint.Hit("commit.before_dirsync")
	err := c.syncNames()
	failpoint.Hit("commit.after_dirsync")
	if err == nil {
		for _, w := range c.work {
			if w.named() && !w.over() && !w.isDir() {
				w.lookAgain()
			}
		}
	}
	clear(c.pathChecks) // directories are looked up last: the earlier checks of names used the handles, wherever the directories are
	for _, w := range c.work {
		if w.named() && !w.over() && w.dir != nil {
			c.lookUp(w)
		}
	}
	return c.record(err)
}
