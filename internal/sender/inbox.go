package sender

import (
	"slices"
	"sync"

	"ferry/internal/sys/wake"
	"ferry/internal/wire"
)

// A wakeup wakes one goroutine; several wakeups before it runs count once.
type wakeup chan struct{}

func (w wakeup) wake() {
	wake.Up(w)
}

// mostMessages is how many messages an inbox keeps.
const mostMessages = 256

// An inbox keeps the unread messages of the destination. It is safe for concurrent use.
type inbox struct {
	mu        sync.Mutex
	messages  []*wire.Message
	run       string // the run of the destination that accepted the last epoch
	restarted bool   // the destination has started again
}

// deliver keeps a message, if there is room.
func (b *inbox) deliver(m *wire.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.Kind == wire.KindAccept || m.Kind == wire.KindResync { // each may have a list of a thousand points
		b.messages = slices.DeleteFunc(b.messages, func(old *wire.Message) bool { return old.Kind == m.Kind })
	}
	if len(b.messages) < mostMessages {
		b.messages = append(b.messages, m)
	}
}

// take removes the oldest message and returns it; nil: there is none.
func (b *inbox) take() *wire.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.messages) == 0 {
		return nil
	}
	m := b.messages[0]
	b.messages = b.messages[1:]
	return m
}

// noteRestart records that the destination has started again. It reports false if that very run has accepted the epoch.
func (b *inbox) noteRestart(run string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := run != "" && b.run == run
	b.restarted = b.restarted || !known
	return !known
}

// accepted records the run of the destination that has accepted an epoch.
func (b *inbox) accepted(run string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.run, b.restarted = run, false
}

// takeRestart reports, once, whether the destination has started again.
func (b *inbox) takeRestart() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.restarted
	b.restarted = false
	return n
}
