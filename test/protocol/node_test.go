package protocol_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// A node is an agent as it outlives its processes.
type node struct {
	w       *world
	name    transfer.AgentName
	root    string
	jumpy   *faulty.Clock // nil: the clock is right
	crashed chan *run     // whose crash is to be dealt with

	life sync.Mutex // held while a run begins or ends

	mu      sync.Mutex
	run     *run // nil while no process lives
	dirs    int
	ops     int
	boot    string // of the host; empty is the real one
	down    bool   // after a crash it is not started again
	left    string // the ledger that a crash has left, while down
	halted  chan struct{}
	losing  bool // what arrives is lost
	ledgers map[string]*books
}

// books are a ledger in memory.
type books struct {
	store *faulty.MemoryStore
	files *faulty.MemoryFiles
}

func (w *world) newNode(name transfer.AgentName) *node {
	root, err := os.MkdirTemp(swift(), "ferry-")
	must(w.t, err)
	root, err = filepath.EvalSymlinks(root)
	must(w.t, err)
	n := &node{w: w, name: name, root: root, crashed: make(chan *run, 8), ledgers: map[string]*books{}}
	if w.set.clocks {
		n.jumpy = faulty.NewClock()
	}
	w.net.Attach(name, n.take)
	w.wg.Go(func() {
		for {
			select {
			case r := <-n.crashed:
				n.afterCrash(r)
			case <-w.quit:
				return
			}
		}
	})
	return n
}

// take hands a message to whatever run lives now.
func (n *node) take(p *faulty.Parcel) {
	if h := n.w.now(); h.before != nil && h.before(p, n) {
		return
	}
	if n.wait(nil); n.loses() {
		return
	}
	if r := n.living(); r != nil {
		r.take(p)
	}
	if h := n.w.now(); h.after != nil {
		h.after(p, n)
	}
}

// nextDir names a ledger that is not there yet.
func (n *node) nextDir() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dirs++
	return filepath.Join(n.root, "state", fmt.Sprint(n.dirs))
}

// options are what a ledger is opened with.
func (n *node) options(dir string, m *mortal) ledger.Options {
	opt := ledger.Options{Reserve: -1, OutboxLimit: 1 << 40, Clock: n.clockOf()}
	if n.w.set.memory {
		n.mu.Lock()
		defer n.mu.Unlock()
		b := n.ledgers[dir]
		if b == nil {
			b = &books{faulty.NewMemoryStore(), faulty.NewMemoryFiles()}
		} else {
			b = &books{b.store.Snapshot(), b.files.Killed()}
		}
		n.ledgers[dir] = b
		opt.Store, opt.Files = mortalStore{b.store, m}, mortalFiles{b.files, m}
	}
	return opt
}

// leave keeps the ledger as a crash leaves it: of the process, or of the host
// where the power is cut.
func (n *node) leave(from, to string, power *rand.Rand) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.ledgers[from]
	left := &books{store: b.store.Snapshot()}
	if power != nil {
		left.files = b.files.Crashed(power)
	} else {
		left.files = b.files.Killed()
	}
	n.ledgers[to] = left
}

func (n *node) countOp() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ops++
	return n.ops
}

func (n *node) living() *run {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run == nil || n.run.mortal.doomed() {
		return nil
	}
	return n.run
}

// files is where the node's files are.
func (n *node) files(name string) string { return filepath.Join(n.root, "files", name) }

// pause makes the process stand still: it neither sends nor hears, and none of
// its calls to the disk or to its ledger goes on, until resume.
func (n *node) pause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.halted == nil {
		n.halted = make(chan struct{})
	}
}

// resume lets it go on with everything that has arrived meanwhile.
func (n *node) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.halted != nil {
		close(n.halted)
		n.halted = nil
	}
}

// resumeEmpty lets it go on as one whose connection was cut meanwhile: nothing
// of what is on its way arrives.
func (n *node) resumeEmpty() {
	n.mu.Lock()
	n.losing = true
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

// wait is where a paused process stands still. One that is killed does not.
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

// start begins a run on a ledger.
func (n *node) start(dir string) {
	n.life.Lock()
	defer n.life.Unlock()
	n.begin(dir)
}

func (n *node) begin(dir string) {
	r, err := n.newRun(dir)
	for err != nil { // whoever looks after the agent tries again
		n.w.log.say(n, "does not start: %v", err)
		if r.mortal.doomed() {
			<-r.mortal.gone
		}
		if r.mortal.left != "" {
			dir = r.mortal.left
		}
		select {
		case <-time.After(time.Second):
		case <-n.w.quit:
			return
		}
		r, err = n.newRun(dir)
	}
	n.mu.Lock()
	n.run = r
	n.mu.Unlock()
	if n.w.set.nudge && n == n.w.dst && r.ledger.Generation() > 1 {
		n.w.src.nudged()
	}
}

// nudged is what the agent does at the heartbeat of a destination's new run.
func (n *node) nudged() {
	r := n.living()
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.outs {
		d.o.Nudge()
		d.poke()
	}
}

// stop ends the run in an orderly way. It returns the name of the ledger.
func (n *node) stop() string {
	n.life.Lock()
	defer n.life.Unlock()
	n.mu.Lock()
	r := n.run
	n.run = nil
	n.mu.Unlock()
	if r == nil {
		return ""
	}
	r.end()
	return r.dir
}

// restart is an orderly stop and a start. One that is crashing starts anyway.
func (n *node) restart() {
	if n.living() == nil {
		return
	}
	n.resume()
	if dir := n.stop(); dir != "" {
		n.start(dir)
	}
}

// kill crashes the run now; the node starts again by itself.
func (n *node) kill() {
	if r := n.living(); r != nil {
		r.mortal.die(false)
	}
}

// killed crashes the run and returns the ledger that is left; start goes on
// with it.
func (n *node) killed() string {
	n.w.t.Helper()
	n.stayDown()
	n.kill()
	return n.fallen()
}

// stayDown makes the next crash one after which the node is not started again.
func (n *node) stayDown() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down, n.left = true, ""
}

// fallen waits for that crash and returns the ledger that it left.
func (n *node) fallen() (dir string) {
	n.w.t.Helper()
	n.w.until(time.Minute, string(n.name)+" does not die", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		dir = n.left
		return dir != ""
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
	return dir
}

func (n *node) afterCrash(r *run) {
	n.life.Lock()
	defer n.life.Unlock()
	n.mu.Lock()
	ours := n.run == r
	if ours {
		n.run = nil
	}
	n.mu.Unlock()
	if !ours { // it has been stopped meanwhile, or never came up
		return
	}
	r.end()
	n.resume() // it is another process that starts now
	n.mu.Lock()
	down := n.down
	if down {
		n.left = r.mortal.left
	}
	n.mu.Unlock()
	if !down {
		n.begin(r.mortal.left)
	}
}
