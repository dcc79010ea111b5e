package protocol_test

import (
	"sync"
	"time"

	"ferry/internal/clock"
)

// pause makes the process stand still: it neither sends nor hears, its timers
// do not fire, and none of its calls to the disk goes on, until resume.
func (n *node) pause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.halted == nil {
		n.halted = make(chan struct{})
		toll.add("pauses", 1)
	}
}

// resume lets it go on with everything that has come and come due meanwhile.
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

// resumeEmpty lets it go on as one whose connection was cut meanwhile: nothing
// of what is on its way arrives.
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

// wait is where a process stands still. One that is killed does not.
func (n *node) wait(m *mortal) {
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

// later keeps a message until the process goes on; false: it does go on.
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

// A stillClock is the clock of a node: it jumps where the node's clock does, and
// its timers stand still with the process.
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

// A stillTimer that comes due while its process stands still fires afterwards.
type stillTimer struct {
	n *node
	c chan time.Time

	mu    sync.Mutex
	t     *time.Timer
	round int // counts how often it was set
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

// off leaves nothing of an earlier round in the channel. t.mu is held.
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
