package monitor

import (
	"log/slog"
	"sync"
	"time"

	"ferry/internal/transfer"
)

// A Snapshot is the present state of a monitor.
type Snapshot struct {
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

// States of a Snapshot.
const (
	StateWatching = "watching"
	StatePaused   = "paused"
	StateWaiting  = "waiting" // it cannot poll, or cannot submit
	StateAway     = "away"    // its agent is away
	StateUnknown  = "unknown" // its agent is up and does not answer
)

// A display has the state of a monitor. The monitor changes it, and questions read it.
type display struct {
	mu  sync.Mutex
	now Snapshot
}

// picture returns the state.
func (d *display) picture() Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// waiting sets the number of triggers that are recorded and not submitted.
func (d *display) waiting(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now.Waiting = n
}

// polled sets the results of a complete poll: the fields Polled, Took, Matched, Gone, Skipped, Watched and Settling.
func (d *display) polled(p Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.State, p.Problem, p.Since, p.Waiting = d.now.State, d.now.Problem, d.now.Since, d.now.Waiting
	d.now = p
}

// stepEnded sets the result of a step that has ended now. It logs the beginning and the end of a problem once each.
func (d *display) stepEnded(name string, paused bool, err error, now time.Time, log *slog.Logger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, problem := d.now.Problem, transfer.AsError(err)
	d.now.State = StateWatching
	switch {
	case paused:
		d.now.State = StatePaused
	case err != nil:
		d.now.State = StateWaiting
	}
	d.now.Problem = problem
	switch {
	case problem == nil && before == nil:
	case problem == nil:
		d.now.Since = time.Time{}
		log.Info("monitor goes on", "monitor", name)
	case before == nil || before.Kind != problem.Kind:
		d.now.Since = now
		log.Warn("monitor waits", "monitor", name, "error", err)
	}
}
