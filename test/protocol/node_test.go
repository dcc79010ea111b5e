package protocol_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
)

// A node is an agent with its state across processes.
type node struct {
	w       *world
	name    transfer.AgentName
	root    string
	jumpy   *faulty.Clock // nil: the clock is right
	crashed chan *run     // crashed runs to be handled

	life bubbleMutex // taken while a run begins or ends

	mu     sync.Mutex
	run    *run // nil while no process lives
	dirs   int
	ops    int
	boot   string // of the host; empty is the real one, or the machine's
	down   bool   // after a crash it is not started again
	left   string // the ledger that a crash has left, while down
	halted chan struct{}
	losing bool                // incoming messages are lost
	unsent []func()            // messages of a stopped process
	unrung []func()            // timers that have come due meanwhile
	memory *memoryMachine      // nil: the files are on the test's host
	store  *faulty.ObjectStore // nil: the files are not in one
}

func (w *world) newNode(name transfer.AgentName) *node {
	n := &node{w: w, name: name, crashed: make(chan *run, 8), life: make(bubbleMutex, 1)}
	if slices.Contains(w.set.objects, name) {
		n.store = faulty.NewObjectStore()
	}
	if w.set.memory {
		n.memory = newMemoryMachine()
		n.root = "/"
	} else {
		root, err := os.MkdirTemp(swift(), "ferry-")
		must(w.t, err)
		n.root, err = filepath.EvalSymlinks(root)
		must(w.t, err)
		must(w.t, os.MkdirAll(n.files("."), 0o755))
	}
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

// A bubbleMutex is a mutex. A goroutine that waits for it does not stop the time of a bubble.
type bubbleMutex chan struct{}

func (t bubbleMutex) take() (give func()) {
	t <- struct{}{}
	return func() { <-t }
}

// take hands a message to the present run.
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

// nextDir names a new ledger.
func (n *node) nextDir() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dirs++
	return filepath.Join(n.root, "state", fmt.Sprint(n.dirs))
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
	if n.run == nil || n.run.crashable.crashed() {
		return nil
	}
	return n.run
}

// files returns the path of a file of the node.
func (n *node) files(name string) string { return filepath.Join(n.root, "files", name) }

// start begins a run on a ledger.
func (n *node) start(dir string) {
	defer n.life.take()()
	n.begin(dir)
}

// tryStart begins a run, and returns the error if it fails.
func (n *node) tryStart(dir string) error {
	defer n.life.take()()
	r, err := n.newRun(dir)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.run = r
	n.mu.Unlock()
	return nil
}

func (n *node) begin(dir string) {
	r, err := n.newRun(dir)
	for err != nil { // try again, as the agent's supervisor does
		n.w.log.say(n, "does not start: %v", err)
		if r.crashable.crashed() {
			<-r.crashable.gone
		}
		if r.crashable.left != "" {
			dir = r.crashable.left
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
	if n.w.set.wake && n == n.w.dst && r.ledger.Generation() > 1 {
		n.w.src.woken()
	}
}

// woken acts as the agent does at the heartbeat of a destination's new run.
func (n *node) woken() {
	r := n.living()
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.outs {
		d.o.DestinationRestarted("")
		d.poke()
	}
}

// stop ends the run in an orderly way. It returns the name of the ledger.
func (n *node) stop() string {
	defer n.life.take()()
	n.mu.Lock()
	r := n.run
	n.run = nil
	n.mu.Unlock()
	if r == nil {
		return ""
	}
	r.end()
	if r.crashable.left != "" { // it has crashed meanwhile
		return r.crashable.left
	}
	return r.dir
}

// restart is an orderly stop and a start. A crashing node starts anyway.
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
		r.crashable.die(false)
	}
}

// killed crashes the run and returns the remaining ledger; start continues with it.
func (n *node) killed() string {
	n.w.t.Helper()
	n.stayDown()
	n.kill()
	return n.fallen()
}

// stayDown keeps the node down after the next crash.
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
	defer n.life.take()()
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
	n.resume() // a new process starts now
	n.mu.Lock()
	down := n.down
	if down {
		n.left = r.crashable.left
	}
	n.mu.Unlock()
	if !down {
		n.begin(r.crashable.left)
	}
}
