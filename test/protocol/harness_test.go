// Package protocol_test runs the two sides of a transfer against each other, with ledgers and files on disk or in
// memory. In place of the queue manager a courier loses, doubles, reorders, delays and damages messages. The sides
// crash at any step.
//
// Every test runs in a synctest bubble: time stands still during work and jumps when all goroutines wait. So hours cost
// nothing, and no test depends on the speed of the host. A bubble ends only when all its goroutines have ended, so that
// no goroutine is left running.
package protocol_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/audit"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	srcName transfer.AgentName = "SRC"
	dstName transfer.AgentName = "DST"
)

// small makes every limit of flow control matter with files of some kilobytes: a run-ahead and a checkpoint are 16 KiB.
var small = transfer.Settings{ChunkSize: 4 << 10, WindowSize: 2, FrameSize: 2, CheckpointInterval: 1}

// A setup is the configuration of a world.
type setup struct {
	settings transfer.Settings
	pool     int64
	slots    int
	places   int  // 0: as many as the protocol allows
	wake     bool // the source learns at once that the destination has restarted
	park     bool // three crashes without progress park a transfer at its source, as the agent does
	clocks   bool // each side has a clock of its own that can jump
	memory   bool // ledgers and files in memory
	targets  int  // bytes of targets in one OPEN; 0: 200
	objects  objectsOf
	stdin    io.Reader // content of SRC, in place of files
	stdout   io.Writer // output of DST for transfer id, in place of files
	id       transfer.ID
	stage    *stage // simulated programs; nil: none run
}

// A world has a source agent, a destination agent, and the courier between.
type world struct {
	t   *testing.T
	set setup
	net *faulty.Courier
	log *logbook
	src *node
	dst *node
	hooks

	naming sync.Mutex // held while a file gets its name

	mu      sync.Mutex
	renames map[string]int
	torn    []string // wrong contents seen under a final name
	early   []string // sources deleted before their files had arrived
	wants   []*wanted
	content map[string][]byte        // content of each final name at the destination
	beside  map[string][]byte        // required sidecar of a name when it is given; nil: none
	finals  map[transfer.ID][]string // every reported final state of a transfer
	wg      sync.WaitGroup
	quit    chan struct{}
}

// hooks control the events of a test. They are set through change, or before anything has begun.
type hooks struct {
	fates  func(p *faulty.Parcel) faulty.Handling
	before func(p *faulty.Parcel, to *node) bool // at delivery; true: it is not delivered
	after  func(p *faulty.Parcel, to *node)
	crash  func(n *node, op, name string, count int, after bool) bool
	inject func(n *node, op, name string) error
	reads  func(n *node, op, name string) error         // of an existing file: "open" or "read"
	lost   func(n *node, op, key string) bool           // the answer to a call to an object store, which had its effect
	linger func(n *node, op, name string) time.Duration // duration of a call
	wrote  func(n *node, name string, size int)         // bytes of a file are written
	noted  func(r *run, rec *audit.Record) bool         // true: dies in this transaction
	power  func(n *node) *rand.Rand                     // a crash is a power cut, with these losses; nil: of the process
	remote func(said *wire.Accept) bool                 // the source cannot dial the destination
	blind  bool                                         // the source does not see that its line carries bytes
	place  string                                       // HOST:PORT of the destination on the direct lane; "": there is none
}

// bubble runs a test in a world of its own.
func bubble(t *testing.T, set setup, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, set)
		defer w.close()
		test(w)
	})
}

func newWorld(t *testing.T, set setup) *world {
	if set.settings == (transfer.Settings{}) {
		set.settings = small
	}
	if set.pool == 0 {
		set.pool = 1 << 20
	}
	if set.slots == 0 {
		set.slots = 4
	}
	w := &world{t: t, set: set, net: faulty.NewCourier(), log: &logbook{}, renames: map[string]int{},
		content: map[string][]byte{}, beside: map[string][]byte{}, finals: map[transfer.ID][]string{}, quit: make(chan struct{})}
	w.net.Set(func(r *faulty.Rules) {
		r.Decide = func(p *faulty.Parcel) (h faulty.Handling) {
			if f := w.now().fates; f != nil {
				h = f(p)
			}
			w.log.parcel(p, h)
			return h
		}
	})
	w.src, w.dst = w.newNode(srcName), w.newNode(dstName)
	w.src.start(w.src.nextDir())
	w.dst.start(w.dst.nextDir())
	return w
}

func (w *world) close() {
	w.src.resume()
	w.dst.resume()
	w.src.stop()
	w.dst.stop()
	close(w.quit)
	w.wg.Wait()
	w.net.Close()
	if !w.set.memory {
		os.RemoveAll(w.src.root)
		os.RemoveAll(w.dst.root)
	}
	if w.t.Failed() {
		w.t.Log(w.log.String())
	}
}

// now returns the present hooks.
func (w *world) now() hooks {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hooks
}

// change sets hooks under the lock.
func (w *world) change(f func(w *world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

// cut disconnects the two agents, or connects them again.
func (w *world) cut(cut bool) { w.net.Set(func(r *faulty.Rules) { r.Cut = cut }) }

// slow makes each chunk message take the given time to send.
func (w *world) slow(d time.Duration) { w.net.Set(func(r *faulty.Rules) { r.Slow = d }) }

// pass lets time go by.
func pass(d time.Duration) {
	//house:sleep because it runs in a bubble
	time.Sleep(d)
}

// until waits for a condition, and fails the test after a limit of the bubble's time. It returns the time that it took.
func (w *world) until(limit time.Duration, what string, ok func() bool) time.Duration {
	w.t.Helper()
	start, step := time.Now(), time.Millisecond
	for !ok() {
		if time.Since(start) > limit {
			w.t.Fatalf("after %v: %s; %s", limit, what, w.picture())
		}
		pass(step)
		step = min(2*step, max(limit/200, 100*time.Millisecond))
	}
	return time.Since(start)
}

// picture describes the state of both sides.
func (w *world) picture() string {
	var b bytes.Buffer
	for _, n := range []*node{w.src, w.dst} {
		r := n.living()
		if r == nil {
			fmt.Fprintf(&b, "%s is down. ", n.name)
			continue
		}
		r.ledger.View(func(t *ledger.Tx) error {
			t.Sources(func(s *ledger.Source) error {
				fmt.Fprintf(&b, "source %s: %s, epoch %d, reason %v, counts %+v. ", s.Request.ID, s.State, s.Epoch, s.Progress.Reason, s.Progress.Counts)
				return nil
			})
			return t.Incomings(func(in *ledger.Incoming) error {
				fmt.Fprintf(&b, "destination %s: %s, epoch %d, decided below %d, counts %+v. ", in.Request.ID, in.State, in.Epoch, in.Decided.Below(), in.Counts)
				return nil
			})
		})
	}
	return b.String()
}

// source reads a transfer's record at the source.
func (w *world) source(id transfer.ID) *ledger.Source {
	r := w.src.living()
	if r == nil {
		return nil
	}
	var rec *ledger.Source
	r.ledger.View(func(t *ledger.Tx) (err error) {
		rec, err = t.Source(id)
		return err
	})
	return rec
}

// incoming reads a transfer's record at the destination.
func (w *world) incoming(id transfer.ID) *ledger.Incoming {
	r := w.dst.living()
	if r == nil {
		return nil
	}
	var rec *ledger.Incoming
	r.ledger.View(func(t *ledger.Tx) (err error) {
		rec, err = t.Incoming(id)
		return err
	})
	return rec
}

// wholeLogEnv names a file for the whole log of a test that fails.
const wholeLogEnv = "FERRY_PROTOCOL_LOG"

// A logbook keeps the agents' logs, for a test that fails.
type logbook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b.Len() > 1<<20 {
		l.b.Next(1 << 19)
	}
	return l.b.Write(p)
}

// say writes an action of the test into the log.
func (l *logbook) say(n *node, format string, args ...any) {
	fmt.Fprintf(l, "time=%s at=%s: %s\n", time.Now().UTC().Format(time.RFC3339Nano), n.name, fmt.Sprintf(format, args...))
}

// parcel logs a message with its handling.
func (l *logbook) parcel(p *faulty.Parcel, h faulty.Handling) {
	if h.Fail || h.Drop || h.Swap || h.Damage != nil || h.Delay > 0 || h.Copies > 0 {
		toll.add("messages that met with something", 1)
	}
	seq := ""
	if p.Kind == faulty.Chunk {
		if head, err := wire.PeekHeader(p.Data); err == nil {
			seq = fmt.Sprintf(" epoch=%d seq=%d", head.Epoch, head.Seq)
		}
	}
	fate := ""
	switch {
	case h.Fail:
		fate = " REFUSED"
	case h.Drop:
		fate = " LOST"
	case h.Swap:
		fate = " SWAPPED"
	case h.Damage != nil:
		fate = " DAMAGED"
	case h.Delay > 0:
		fate = fmt.Sprintf(" LATE by %v", h.Delay)
	case h.Copies > 0:
		fate = fmt.Sprintf(" COPIED %d times", h.Copies)
	}
	fmt.Fprintf(l, "time=%s at=%s sends %s %d of %s%s%s\n", time.Now().UTC().Format(time.RFC3339Nano), p.From, p.Kind, p.N, p.Transfer, seq, fate)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.b.Bytes()
	if name := os.Getenv(wholeLogEnv); name != "" {
		os.WriteFile(name, b, 0o644)
	}
	return "the end of the log (all of it goes to the file that " + wholeLogEnv + " names):\n" + string(b[max(0, len(b)-24<<10):])
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// say sends any message in the name of any agent.
func (w *world) say(from, to transfer.AgentName, m *wire.Message) {
	w.t.Helper()
	m.From = from
	data, err := m.Encode()
	must(w.t, err)
	must(w.t, w.net.Send(faulty.Parcel{From: from, To: to, Kind: m.Kind, Transfer: m.Transfer, Data: data}))
}
