package monitor

import (
	"context"
	"errors"
	"sync"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// A runner does the polls of one monitor.
type runner struct {
	*monitors
	name    string
	watcher watcher
	wake    chan struct{} // a file has arrived in a directory
	changed chan struct{} // the record has changed
	sightings
	mu      sync.Mutex
	wanted  func(name string) bool // of the record of the last poll; nil: no name wakes the runner
	moved   map[string]uint64      // paths of files that were moved there and not written to since, with the number of the latest poll at that time
	awaited string                 // real path of a missing directory: the watched one, or the topmost missing one above it
	begun   uint64                 // number of the latest poll that has begun
	state   Picture
}

// A Picture is the present state of a monitor.
type Picture struct {
	State    string          `json:"state"`
	Problem  *transfer.Error `json:"problem,omitempty"` // the reason why it cannot do all its work
	Since    time.Time       `json:"problem_since,omitzero"`
	Polled   time.Time       `json:"polled,omitzero"`    // end of the last complete poll
	Took     time.Duration   `json:"poll_ns,omitempty"`  // duration of that poll
	Matched  int             `json:"matched"`            // matching files in that poll
	Gone     int             `json:"history_gone"`       // files in the history that were missing in that poll
	Waiting  int             `json:"waiting,omitempty"`  // triggers that are recorded and not submitted
	Skipped  int             `json:"unread,omitempty"`   // directories beneath that could not be read
	Watched  bool            `json:"notified,omitempty"` // the system notifies, so that polls come at once
	Settling int             `json:"settling,omitempty"` // files that wait until they have not changed for the settle time
}

// States of a Picture.
const (
	StateWatching = "watching"
	StatePaused   = "paused"
	StateWaiting  = "waiting" // it cannot poll, or cannot submit
)

func newRunner(m *monitors, name string, w watcher) *runner {
	return &runner{monitors: m, name: name, watcher: w, wake: make(chan struct{}, 1), changed: make(chan struct{}, 1), moved: map[string]uint64{}, state: Picture{State: StateWatching}}
}

const (
	again    = time.Second           // pause before a waiting trigger is tried again
	leastGap = 20 * time.Millisecond // between polls, even if files arrive more often
)

// errChanged ends work for an earlier definition.
var errChanged = errors.New("the monitor is another by now")

// run polls until the monitor is removed, or ctx ends.
func (r *runner) run(ctx context.Context) {
	defer func() {
		if r.watcher != nil {
			r.watcher.Watch(r, nil)
		}
	}()
	for ctx.Err() == nil {
		rec, err := r.load()
		if err == nil && rec == nil {
			return
		}
		began := r.Clock.Now()
		pause := again
		if err == nil {
			pause, err = r.turn(ctx, rec)
		}
		if errors.Is(err, errChanged) || ctx.Err() != nil {
			continue
		}
		r.tell(rec, err)
		r.rest(ctx, rec, pause, max(leastGap, 2*r.Clock.Now().Sub(began)))
	}
}

// load reads the record of the monitor, or nil if it has been removed.
func (r *runner) load() (*record, error) {
	return ledger.Read(r.Ledger, func(t *ledger.Tx) (*record, error) { return drawerOf(t).Load(r.name) })
}

// turn does the work that is due, and returns the time until the next turn. The error is the reason why it could not do
// all.
func (r *runner) turn(ctx context.Context, rec *record) (pause time.Duration, err error) {
	poll := time.Duration(rec.Poll)
	if rec.Paused {
		r.listen(nil)
		return MaxPoll, nil
	}
	if err := r.Holds(rec.Origin); err != nil {
		r.listen(nil)
		return MaxPoll, err
	}
	for _, right := range []transfer.Authority{transfer.AuthMonitor, transfer.AuthSource} {
		if err := r.May(rec.Principal, right); err != nil {
			return max(poll, again), err
		}
	}
	if err := r.drain(ctx, rec); err != nil {
		return again, err
	}
	held, err := r.holds(rec)
	if err != nil {
		return again, err
	}
	if held && !r.due(poll) {
		return again, nil
	}
	began := r.Clock.Now()
	next, err := r.poll(ctx, rec, held)
	switch {
	case rec.Exact:
		return max(poll-r.Clock.Now().Sub(began), leastGap), err
	case transfer.KindOf(err).Waits(), held:
		poll = min(poll, again)
	case next > 0:
		poll = max(min(poll, next), leastGap, 2*r.Clock.Now().Sub(began))
	}
	return poll, err
}

// holds reports whether a monitor is ordered and its last transfer is running. A transfer that the agent has forgotten
// has ended.
func (r *runner) holds(rec *record) (bool, error) {
	if !rec.Ordered {
		return false, nil
	}
	st, err := r.status()
	if err != nil || st.Transfer.IsZero() {
		return false, err
	}
	over, err := r.over(st.Transfer)
	return !over, err
}

// over reports whether a transfer has ended. A transfer that the agent has forgotten has ended.
func (m *monitors) over(id transfer.ID) (bool, error) {
	t, err := m.Status(id)
	if transfer.KindOf(err) == transfer.KindNotFound {
		return true, nil
	}
	return err == nil && t.State.Final(), err
}

// due reports whether a poll interval has passed since the last complete poll.
func (r *runner) due(poll time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Polled.IsZero() || r.Clock.Now().Sub(r.state.Polled) >= poll
}

// begin counts a poll.
func (r *runner) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.polls++
	r.begun = r.polls
}

// rest waits until the next poll is due. It returns earlier if the monitor is changed, or if a file has arrived and gap
// is over. A change of another monitor does not shorten it.
func (r *runner) rest(ctx context.Context, rec *record, pause, gap time.Duration) {
	due := r.Clock.NewTimer(pause)
	defer due.Stop()
	early := r.Clock.NewTimer(gap)
	defer early.Stop()
	wake := (chan struct{})(nil) // nil until gap is over
	for {
		select {
		case <-due.C():
			return
		case <-r.changed:
			if now, err := r.load(); err != nil || rec == nil || now == nil || now.Generation != rec.Generation {
				return
			}
		case <-ctx.Done():
			return
		case <-early.C():
			wake = r.wake
		case <-wake:
			return
		}
	}
}

// tell records the result of a turn. It logs the beginning and the end of a problem once each.
func (r *runner) tell(rec *record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, now := r.state.Problem, transfer.AsError(err)
	r.state.State = StateWatching
	switch {
	case rec != nil && rec.Paused:
		r.state.State = StatePaused
	case err != nil:
		r.state.State = StateWaiting
	}
	r.state.Problem = now
	switch {
	case now == nil && was == nil:
	case now == nil:
		r.state.Since = time.Time{}
		r.Log.Info("monitor goes on", "monitor", r.name)
	case was == nil || was.Kind != now.Kind:
		r.state.Since = r.Clock.Now()
		r.Log.Warn("monitor waits", "monitor", r.name, "error", err)
	}
}

// picture returns the state of the monitor.
func (r *runner) picture() Picture {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// listen sets the names that cause a poll at once; nil: none.
func (r *runner) listen(wanted func(name string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = wanted
}
