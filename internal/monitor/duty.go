package monitor

import (
	"context"
	"sync"
	"time"

	"ferry/internal/duty"
	"ferry/internal/ledger"
	"ferry/internal/wire"
)

// maxScans is how many directories are read at once, of all monitors of an agent.
const maxScans = 16

// monitors is the duty.
type monitors struct {
	duty.Desk
	watch func() watcher // nil: directories are polled and nothing else
	scans chan struct{}  // a token for each directory that is read
	stir  chan struct{}  // a monitor was made, or a runner has ended
	mu    sync.Mutex
	all   map[string]*runner
	last  time.Time // that stamp has given
}

// A watcher says when something has come into a directory. What it misses the next poll finds.
type watcher interface {
	// Watch replaces the directories that are watched for somebody, by their real paths.
	Watch(who *runner, dirs []string)
	// CatchUp passes on all that the system has told so far.
	CatchUp()
	// Run wakes runners until ctx ends.
	Run(ctx context.Context)
}

// New makes the duty of one agent.
func New(desk duty.Desk) (duty.Duty, error) { return newMonitors(desk, newWatcher), nil }

func newMonitors(desk duty.Desk, watch func() watcher) *monitors {
	return &monitors{Desk: desk, watch: watch, scans: make(chan struct{}, maxScans), stir: make(chan struct{}, 1), all: map[string]*runner{}}
}

// Commands are those of the table in commands.go.
func (m *monitors) Commands() map[wire.Kind]duty.Command { return m.commands() }

// Questions are those of the table in questions.go.
func (m *monitors) Questions() map[wire.Kind]duty.Question { return m.questions() }

// Run polls each monitor in a goroutine of its own.
func (m *monitors) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	var w watcher
	if m.watch != nil {
		if w = m.watch(); w != nil {
			wg.Go(func() { w.Run(ctx) })
		}
	}
	for {
		names, err := m.names()
		if err != nil {
			m.Log.Error("cannot read the monitors", "error", err)
		}
		for _, name := range names {
			if r := m.enter(name, w); r != nil {
				wg.Go(func() {
					r.run(ctx)
					m.leave(r)
				})
			}
		}
		select {
		case <-m.stir:
		case <-ctx.Done():
			return
		}
	}
}

// enter makes the runner of a monitor that has none.
func (m *monitors) enter(name string, w watcher) *runner {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all[name] != nil {
		return nil
	}
	r := newRunner(m, name, w)
	m.all[name] = r
	return r
}

// leave ends a runner. Its monitor may have been made again just then.
func (m *monitors) leave(r *runner) {
	m.mu.Lock()
	delete(m.all, r.name)
	m.mu.Unlock()
	poke(m.stir)
}

// changed tells whoever runs a monitor that it is another one now.
func (m *monitors) changed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.all {
		poke(r.changed)
	}
	poke(m.stir)
}

// stamp is the time of a trigger, to the millisecond. No two are the same while the agent runs, so that
// a name made of the time is one file's alone.
func (m *monitors) stamp(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	now = now.Truncate(time.Millisecond)
	if !now.After(m.last) {
		now = m.last.Add(time.Millisecond)
	}
	m.last = now
	return now
}

// poke wakes whoever waits for a channel with room for one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// names are those of all monitors.
func (m *monitors) names() (all []string, err error) {
	err = m.Ledger.View(func(t *ledger.Tx) error {
		for key := range drawerOf(t).All("d/", "") {
			all = append(all, key[len("d/"):])
		}
		return nil
	})
	return all, err
}
