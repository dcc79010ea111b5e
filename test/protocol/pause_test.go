package protocol_test

import (
	"sync"
	"time"

	"ferry/internal/sys/clock"
)

// pause stops the process until resume: it neither sends nor receives, its timers do not fire, and its calls to the
// disk wait.
func (n *node) pause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.halted == nil {
		n.halted = make(chan struct{})
		toll.add("pauses", 1)
	}
}

// resume continues the process, with all messages and timers that have become due meanwhile.
func (n *node) resume() {
	n.mu.Lock()
	if n.halted != nil {
		close(n.halted)
		n.halted = nil
	}
	unsent, unrung := n.unsent, n.unrung
	n.unsent, n.unrung = nil, nil
	n.mu.Unlock()
	for _, ring := range unrung {
		ring()
	}
	for _, send := range unsent {
		send()
	}
}

// resumeEmpty continues the process as if its connection had been cut meanwhile: messages in flight are lost.
func (n *node) resumeEmpty() {
	n.mu.Lock()
	n.losing, n.unsent = true, nil
	n.mu.Unlock()
	n.resume()
	n.w.net.Forget()
	pass(time.Millisecond)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.losing = false
}

func (n *node) loses() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.losing
}

// wait blocks while the process is stopped, but not a killed process.
func (n *node) wait(m *crashable) {
	for {
		n.mu.Lock()
		halted := n.halted
		n.mu.Unlock()
		if halted == nil {
			return
		}
		var dying <-chan struct{}
		if m != nil {
			dying = m.dying
		}
		select {
		case <-halted:
		case <-dying:
			return
		case <-n.w.quit:
			return
		}
	}
}

// later keeps a message until the process continues. It returns false if the process is not stopped.
func (n *node) later(send func()) bool { return n.keep(&n.unsent, send) }

// whenAwake does that with a timer.
func (n *node) whenAwake(ring func()) bool { return n.keep(&n.unrung, ring) }

func (n *node) keep(in *[]func(), do func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.halted == nil {
		return false
	}
	*in = append(*in, do)
	return true
}

// A stillClock is the clock of a node. It jumps with the node's clock, and its timers stop with the process.
type stillClock struct{ n *node }

func (n *node) clockOf() clock.Clock { return stillClock{n} }

func (c stillClock) Now() time.Time {
	if c.n.jumpy != nil {
		return c.n.jumpy.Now()
	}
	return time.Now()
}

func (c stillClock) NewTimer(d time.Duration) clock.Timer {
	t := &stillTimer{n: c.n, c: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

// A stillTimer that comes due while its process is stopped fires afterwards.
type stillTimer struct {
	n *node
	c chan time.Time

	mu    sync.Mutex
	t     *time.Timer
	round int // number of times it was set
	on    bool
}

func (t *stillTimer) C() <-chan time.Time { return t.c }

func (t *stillTimer) Reset(d time.Duration) (was bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was = t.off()
	t.on = true
	t.round++
	round := t.round
	t.t = time.AfterFunc(d, func() { t.ring(round) })
	return was
}

func (t *stillTimer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.off()
}

// off stops the timer and empties the channel. t.mu is held.
func (t *stillTimer) off() (was bool) {
	was, t.on = t.on, false
	if t.t != nil {
		t.t.Stop()
	}
	select {
	case <-t.c:
	default:
	}
	return was
}

func (t *stillTimer) ring(round int) {
	if t.n.whenAwake(func() { t.ring(round) }) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.on && round == t.round {
		t.on = false
		t.c <- time.Now()
	}
}
