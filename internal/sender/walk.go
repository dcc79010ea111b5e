package sender

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/localfs"
	"ferry/internal/record"
	"ferry/internal/transfer"
)

// journalBatch is how many items are synced into the journal at once.
const journalBatch = 1024

// openJournal opens the item journal. It is made before the ledger says that it
// is there, and from then on it must be.
func (o *Outgoing) openJournal() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unlend()
	if o.journal != nil {
		return nil
	}
	open := o.cfg.Ledger.Journal
	if o.rec.Journal {
		open = o.cfg.Ledger.ResumeJournal
	}
	j, err := open(o.ID)
	if err != nil {
		return err
	}
	if err := j.CheckDamage(o.rec.Decided.Below()); err != nil {
		j.Close()
		return err
	}
	o.journal = j
	return nil
}

// startWalk goes on walking from the journal's last item, where the walk is not
// over and not under way.
func (o *Outgoing) startWalk() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stopWalk != nil && o.walkErr == nil {
		return
	}
	o.walkErr = nil
	if o.journal.Totals().Ended {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.stopWalk, o.walked = cancel, make(chan struct{})
	go o.walk(ctx, o.journal, o.walked)
}

// CheckItself is the error of a request that would send something into itself, or
// onto itself, at an agent that is both ends of it.
func (c *Config) CheckItself(q *transfer.Request) error {
	if !c.bothEnds(q) || record.IsDataset(string(q.Dest)) {
		return nil
	}
	return c.FS.IntoItself(record.HostPaths(c.RecordRoot, q.Sources), q.Recursive, q.Dest)
}

// bothEnds reports whether the destination is known to have the files of this host
// beneath the same roots.
func (c *Config) bothEnds(q *transfer.Request) bool {
	return q.Destination == c.Agent || q.Destination == c.Beside && c.Beside != ""
}

// into is where the items of a transfer land, where that is here.
func (c *Config) into(rec *ledger.Source) *transfer.Resolution {
	if !c.bothEnds(&rec.Request) {
		return nil
	}
	return rec.Resolution
}

// walk expands what was asked for into the journal. A batch is synced before
// its items are offered (R6); the first items are offered soon.
func (o *Outgoing) walk(ctx context.Context, j *ledger.Journal, done chan struct{}) {
	defer close(done)
	defer func() {
		if p := recover(); p != nil {
			o.log.Error("the walk has crashed", "panic", p, "stack", string(debug.Stack()))
			o.mu.Lock()
			o.walkErr = transfer.Errorf(transfer.KindInternal, "the walk crashed: %v", p)
			o.mu.Unlock()
			o.pokePump()
		}
	}()
	rec := o.Record()
	after, arg := j.Last()
	unsynced, last := 0, o.cfg.Clock.Now()
	links, err := o.cfg.FS.Walk(ctx, localfs.WalkRequest{Sources: record.HostPaths(o.cfg.RecordRoot, rec.Request.Sources), Recursive: rec.Request.Recursive,
		After: after, AfterArg: arg, Into: o.cfg.into(&rec)}, func(arg int, it transfer.Item) error {
		if err := j.Append(arg, it); err != nil {
			return err
		}
		unsynced++
		if now := o.cfg.Clock.Now(); unsynced >= journalBatch || now.Sub(last) > 20*time.Millisecond {
			unsynced, last = 0, now
			failpoint.Hit("walk.before_sync")
			return j.Sync()
		}
		return nil
	})
	if err == nil {
		err = j.End(links)
		failpoint.Hit("walk.after_end")
	}
	if err != nil && ctx.Err() == nil {
		o.mu.Lock()
		o.walkErr = err
		o.mu.Unlock()
		level := slog.LevelError
		if transfer.KindOf(err).Waits() {
			level = slog.LevelInfo
		}
		o.log.Log(ctx, level, "the walk has stopped", "error", err)
	}
	o.pokePump()
	o.poke()
}
