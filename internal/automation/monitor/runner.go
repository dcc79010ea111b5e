package monitor

import (
	"context"
	"errors"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/transfer"
)

// A runner does the polls of one monitor.
type runner struct {
	book    *monitorEntries
	scans   chan struct{} // a token for each directory that is being read
	stamps  *stamps
	notices *listener
	changed chan struct{} // the record has changed
	seen    sightings
	display display
}

func newRunner(services *duty.Services, name string, scans chan struct{}, stamps *stamps, w watcher) *runner {
	return &runner{book: &monitorEntries{services, name}, scans: scans, stamps: stamps, notices: newListener(w), changed: make(chan struct{}, 1), display: display{now: Snapshot{State: StateWatching}}}
}

const (
	retryPause = time.Second           // pause before a waiting trigger is tried again
	minGap     = 20 * time.Millisecond // between polls, even if files arrive more often
)

// run polls until the monitor is removed, or ctx ends.
func (r *runner) run(ctx context.Context) {
	defer r.notices.watch(nil)
	services := r.book.services
	for ctx.Err() == nil {
		rec, err := r.book.load()
		if err == nil && rec == nil {
			return
		}
		began := services.Clock.Now()
		pause := retryPause
		if err == nil {
			pause, err = r.step(ctx, rec)
		}
		if errors.Is(err, errChanged) || ctx.Err() != nil {
			continue
		}
		r.display.stepEnded(r.book.name, rec != nil && rec.Paused, err, services.Clock.Now(), services.Log)
		r.rest(ctx, rec, pause, max(minGap, 2*services.Clock.Now().Sub(began)))
	}
}

// step does the work that is due, and returns the time until the next step. The error is the reason why it could not do
// all.
func (r *runner) step(ctx context.Context, rec *record) (pause time.Duration, err error) {
	services, poll := r.book.services, time.Duration(rec.Poll)
	if rec.Paused {
		r.notices.listen(nil)
		return MaxPoll, nil
	}
	if err := services.CheckKeys(rec.Origin); err != nil {
		r.notices.listen(nil)
		return MaxPoll, err
	}
	for _, right := range []transfer.Authority{transfer.AuthMonitor, transfer.AuthSource} {
		if err := services.May(rec.Principal, right); err != nil {
			return max(poll, retryPause), err
		}
	}
	if err := r.submitter().drain(ctx, rec); err != nil {
		return retryPause, err
	}
	held, err := r.holds(rec)
	if err != nil {
		return retryPause, err
	}
	if held && !r.due(poll) {
		return retryPause, nil
	}
	began := services.Clock.Now()
	next, err := r.poll(ctx, rec, held)
	switch {
	case rec.Exact:
		return max(poll-services.Clock.Now().Sub(began), minGap), err
	case transfer.KindOf(err).Waits(), held:
		poll = min(poll, retryPause)
	case next > 0:
		poll = max(min(poll, next), minGap, 2*services.Clock.Now().Sub(began))
	}
	return poll, err
}

func (r *runner) submitter() submitter { return submitter{r.book, &r.display} }

// holds reports whether a monitor is ordered and its last transfer is running.
func (r *runner) holds(rec *record) (bool, error) {
	if !rec.Ordered {
		return false, nil
	}
	st, err := r.book.status()
	if err != nil || st.Transfer.IsZero() {
		return false, err
	}
	over, err := host{r.book.services, rec.Principal}.over(st.Transfer)
	return !over, err
}

// due reports whether a poll interval has passed since the last complete poll.
func (r *runner) due(poll time.Duration) bool {
	last := r.display.picture().Polled
	return last.IsZero() || r.book.services.Clock.Now().Sub(last) >= poll
}

// poll reads the directory once, and records and submits the triggers that it finds. The error is the reason why it
// could not do all. next is the time until a waiting file may be complete, or 0 if none waits.
func (r *runner) poll(ctx context.Context, rec *record, held bool) (next time.Duration, err error) {
	select {
	case r.scans <- struct{}{}:
		defer func() { <-r.scans }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	now, at := r.book.services.Clock.Now(), host{r.book.services, rec.Principal}
	collect := &collector{ctx: ctx, rec: rec, book: r.book, submitter: r.submitter()}
	p := &poll{rec: rec, host: at, book: r.book, held: held, collect: collect,
		compare: &comparison{history: r.book.history(), collect: collect, now: now, keeps: keepsGone(r.display.picture().Gone)},
		maker:   &maker{rec: rec, host: at, now: now, stamps: r.stamps}}
	if rec.OnQueue() {
		r.notices.listen(nil)
		if err := pollQueue(ctx, p); err != nil {
			return 0, err
		}
		if err := p.finish(); err != nil {
			return 0, err
		}
		r.polled(p, nil, false)
		return 0, p.problem
	}
	d, err := r.directory(ctx, p)
	if err != nil {
		return 0, err
	}
	if err := d.examine(); err != nil {
		return 0, err
	}
	if err := p.finish(); err != nil {
		return 0, err
	}
	r.polled(p, d.dirs, d.notified())
	return d.arrived.next, p.problem
}

// directory prepares a poll of a directory, and counts it.
func (r *runner) directory(ctx context.Context, p *poll) (d *directoryPoll, err error) {
	d = &directoryPoll{ctx: ctx, poll: p, notices: r.notices}
	if d.match, err = p.rec.matcher(); err != nil {
		return nil, err
	}
	if t := p.rec.TriggerFile; t != nil {
		if p.maker.form, err = t.form(); err != nil {
			return nil, err
		}
	}
	now := p.compare.now
	d.arrived = &arrivals{condition: p.rec.Condition, wanted: time.Duration(p.rec.Settle), seen: &r.seen, notices: r.notices, clock: r.book.services.Clock, now: now,
		counts: r.seen.begin(now, time.Duration(p.rec.Poll))}
	r.notices.begin(r.seen.polls)
	return d, nil
}

// polled records the results of a complete poll. watching reports whether notices of the directories are wanted.
func (r *runner) polled(p *poll, dirs []string, watching bool) {
	r.seen.forget()
	if !watching {
		dirs = nil
	}
	r.notices.watch(dirs)
	r.notices.polled(watching)
	settling := 0
	if p.rec.Settle > 0 {
		settling = len(r.seen.files)
	}
	now := r.book.services.Clock.Now()
	r.display.polled(Snapshot{Polled: now, Took: now.Sub(p.compare.now), Matched: p.matched, Gone: p.compare.gone, Skipped: len(p.compare.unread), Watched: watching, Settling: settling})
}

// rest waits until the next poll is due. It returns earlier if the monitor is changed, or if a file has arrived and gap
// is over. A change of another monitor does not shorten it.
func (r *runner) rest(ctx context.Context, rec *record, pause, gap time.Duration) {
	due := r.book.services.Clock.NewTimer(pause)
	defer due.Stop()
	early := r.book.services.Clock.NewTimer(gap)
	defer early.Stop()
	wake := (chan struct{})(nil) // nil until gap is over
	for {
		select {
		case <-due.C():
			return
		case <-r.changed:
			if now, err := r.book.load(); err != nil || rec == nil || now == nil || now.Generation != rec.Generation {
				return
			}
		case <-ctx.Done():
			return
		case <-early.C():
			wake = r.notices.wake
		case <-wake:
			return
		}
	}
}
