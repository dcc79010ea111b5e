package monitor

import (
	"context"
	"sync"

	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/sys/wake"
	"ferry/internal/wire"
)

// maxScans is the number of directories that all monitors of an agent read at once.
const maxScans = 16

// monitors implements the duty.
type monitors struct {
	duty.Services
	watch func() watcher // nil: directories are only polled
	scans chan struct{}  // a token for each directory that is being read
	wake  chan struct{}  // a monitor was made, or a runner has ended
	times stamps
	mu    sync.Mutex
	all   map[string]*runner
}

// New returns the duty of one agent.
func New(services duty.Services) (duty.Duty, error) { return newMonitors(services, newWatcher), nil }

func newMonitors(services duty.Services, watch func() watcher) *monitors {
	return &monitors{Services: services, watch: watch, scans: make(chan struct{}, maxScans), wake: make(chan struct{}, 1), all: map[string]*runner{}}
}

// Commands returns the table in commands.go.
func (m *monitors) Commands() map[wire.Kind]duty.Command { return m.commands() }

// Questions returns the table in questions.go.
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
		case <-m.wake:
		case <-ctx.Done():
			return
		}
	}
}

// enter makes the runner of a monitor without one.
func (m *monitors) enter(name string, w watcher) *runner {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all[name] != nil {
		return nil
	}
	r := newRunner(&m.Services, name, m.scans, &m.times, w)
	m.all[name] = r
	return r
}

// leave ends a runner. Its monitor may have been made again at the same time.
func (m *monitors) leave(r *runner) {
	m.mu.Lock()
	delete(m.all, r.book.name)
	m.mu.Unlock()
	wake.Up(m.wake)
}

// changed wakes the runners after a change of a monitor.
func (m *monitors) changed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.all {
		wake.Up(r.changed)
	}
	wake.Up(m.wake)
}

// names returns the names of all monitors.
func (m *monitors) names() (all []string, err error) {
	err = m.Ledger.View(func(t *ledger.Tx) error {
		for key := range drawerOf(t).All("d/", "") {
			all = append(all, key[len("d/"):])
		}
		return nil
	})
	return all, err
}
