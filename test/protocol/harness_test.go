// Package protocol_test runs the two sides of a transfer against each other:
// real ledgers and real files, a courier that loses, doubles, reorders, delays
// and damages messages in place of the queue manager, and crashes at any step.
//
// Every test runs in a synctest bubble: time stands still while anything is at
// work and jumps when everything waits, so hours cost nothing and no test
// depends on how fast the host is. A bubble ends only when all its goroutines
// have, so nothing is left running either.
package protocol_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/audit"
	"ferry/internal/clock"
	"ferry/internal/digest"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/localfs"
	"ferry/internal/receiver"
	"ferry/internal/sender"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	srcName transfer.AgentName = "SRC"
	dstName transfer.AgentName = "DST"
)

// small makes every limit of flow control matter with files of some kilobytes:
// a run-ahead and a checkpoint are 16 KiB.
var small = transfer.Settings{ChunkSize: 4 << 10, WindowSize: 2, FrameSize: 2, CheckpointInterval: 1}

// A setup is what a world begins with.
type setup struct {
	settings transfer.Settings
	pool     int64
	slots    int
	nudge    bool // the source hears at once that the destination has started anew
}

// A world has a source agent, a destination agent, and the courier between.
type world struct {
	t   *testing.T
	set setup
	net *courier
	log *logbook
	src *node
	dst *node

	mu      sync.Mutex
	crash   func(n *node, op, name string, count int, after bool) bool
	inject  func(n *node, op, name string) error
	noted   func(r *run, rec *audit.Record) bool // true: dies in this transaction
	renames map[string]int
	wants   []*wanted
	wg      sync.WaitGroup
	quit    chan struct{}
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
	w := &world{t: t, set: set, net: newCourier(), log: &logbook{}, renames: map[string]int{}, quit: make(chan struct{})}
	w.src, w.dst = w.newNode(srcName), w.newNode(dstName)
	w.src.start(w.src.nextDir())
	w.dst.start(w.dst.nextDir())
	return w
}

func (w *world) close() {
	w.src.stop()
	w.dst.stop()
	close(w.quit)
	w.wg.Wait()
	w.net.close()
	if w.t.Failed() {
		w.t.Log(w.log.String())
	}
}

func (w *world) plan() func(*node, string, string, int, bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.crash
}

func (w *world) injection() func(*node, string, string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inject
}

// change sets hooks under the lock.
func (w *world) change(f func(w *world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

func (w *world) renamed(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renames[path]++
}

// A node is an agent as it outlives its processes.
type node struct {
	w       *world
	name    transfer.AgentName
	root    string
	crashed chan string // ledger directories that crashes have left

	life sync.Mutex // held while a run begins or ends

	mu   sync.Mutex
	run  *run // nil while no process lives
	dirs int
	ops  int
	boot string // of the host; empty is the real one
	down bool   // after a crash it is not started again
	left string // the ledger that a crash has left, while down
}

func (w *world) newNode(name transfer.AgentName) *node {
	root, err := filepath.EvalSymlinks(w.t.TempDir())
	must(w.t, err)
	n := &node{w: w, name: name, root: root, crashed: make(chan string, 1)}
	w.net.nodes[name] = n
	w.wg.Go(func() {
		for {
			select {
			case dir := <-n.crashed:
				n.afterCrash(dir)
			case <-w.quit:
				return
			}
		}
	})
	return n
}

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
	if n.run == nil || n.run.disk.doomed() {
		return nil
	}
	return n.run
}

// files is where the node's files are.
func (n *node) files(name string) string { return filepath.Join(n.root, "files", name) }

// A run is one process of an agent.
type run struct {
	node   *node
	dir    string
	ctx    context.Context
	cancel context.CancelFunc
	ledger *ledger.Ledger
	fs     *localfs.FS
	disk   *mortalDisk
	pool   *flow.Pool
	recv   *receiver.Receiver
	cfg    sender.Config
	wg     sync.WaitGroup

	mu   sync.Mutex
	outs map[transfer.ID]*driven
}

// A driven is a transfer that the run sends.
type driven struct {
	o       *sender.Outgoing
	wake    chan struct{}
	running bool
}

// start begins a run on a ledger directory.
func (n *node) start(dir string) {
	n.life.Lock()
	defer n.life.Unlock()
	n.begin(dir)
}

func (n *node) begin(dir string) {
	w := n.w
	must(w.t, os.MkdirAll(n.files("."), 0o755))
	r := &run{node: n, dir: dir, outs: map[transfer.ID]*driven{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.disk = &mortalDisk{Disk: localfs.RealDisk(), r: r, gone: make(chan struct{})}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})).With("at", n.name)
	var err error
	r.ledger, err = ledger.Open(dir, ledger.Options{Log: log, Reserve: -1, OutboxLimit: 1 << 40})
	must(w.t, err)
	r.fs, err = localfs.Open(localfs.Config{Roots: []string{n.files(".")}, StateDir: filepath.Join(n.root, "state"),
		Incarnation: r.ledger.Incarnation(), Log: log, Digest: digest.ByName, Disk: r.disk, Boot: n.boot})
	must(w.t, err)
	boot := n.boot
	if boot == "" {
		boot = localfs.BootID()
	}
	r.pool = flow.NewPool(w.set.pool, w.set.slots, int64(w.set.settings.ChunkSize))
	r.recv = receiver.New(receiver.Config{Agent: n.name, Ledger: r.ledger, FS: r.fs, Link: line{r}, Note: r.note,
		Clock: clock.System, Log: log, Slots: w.set.slots, Pool: r.pool, MaxChunk: transfer.MaxChunk, Boot: boot,
		Changed: func() {}})
	r.cfg = sender.Config{Agent: n.name, Ledger: r.ledger, FS: r.fs, Link: line{r}, Lane: lane{r}, Note: r.note,
		Progress: func(*transfer.Progress) {}, Changed: r.changed, Clock: clock.System, Log: log,
		Settings: w.set.settings, MaxChunk: transfer.MaxChunk}
	if err := r.recv.Recover(); err != nil && !r.disk.doomed() {
		w.t.Errorf("%s does not recover: %v", n.name, err)
	}
	r.recoverSources()
	n.mu.Lock()
	n.run = r
	n.mu.Unlock()
	if w.set.nudge && n == w.dst && r.ledger.Generation() > 1 {
		w.src.nudged()
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

// end lets go of everything that a run has.
func (r *run) end() {
	r.cancel()
	r.wg.Wait()
	r.mu.Lock()
	outs := r.outs
	r.mu.Unlock()
	for _, d := range outs {
		d.o.Dispose()
	}
	r.recv.Stop()
	r.disk.end()
	r.ledger.Close()
	r.fs.Close()
}

// stop ends the run in an orderly way. It returns the ledger's directory.
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
	if dir := n.stop(); dir != "" {
		n.start(dir)
	}
}

// kill crashes the run now; the node starts again by itself.
func (n *node) kill() {
	if r := n.living(); r != nil {
		r.disk.die(false)
	}
}

// killed crashes the run and returns the ledger directory that is left; start
// goes on with it.
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

// fallen waits for that crash and returns the ledger directory that it left.
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

func (n *node) afterCrash(dir string) {
	n.life.Lock()
	defer n.life.Unlock()
	n.mu.Lock()
	r := n.run
	n.run = nil
	n.mu.Unlock()
	if r == nil { // it has been stopped meanwhile
		return
	}
	r.end()
	n.mu.Lock()
	down := n.down
	if down {
		n.left = dir
	}
	n.mu.Unlock()
	if !down {
		n.begin(dir)
	}
}

// note puts an audit record into the outbox, as the agent does.
func (r *run) note(t *ledger.Tx, rec audit.Record) error {
	r.node.w.mu.Lock()
	noted := r.node.w.noted
	r.node.w.mu.Unlock()
	if noted != nil && !r.disk.doomed() && noted(r, &rec) {
		r.disk.die(true)
		return errDead
	}
	var failed error
	err := t.Audit(func(n uint64) []byte {
		rec.Agent, rec.Incarnation, rec.N, rec.Time = r.node.name, r.ledger.IncarnationText(), n, time.Now().UTC()
		b, err := audit.Encode(&rec)
		failed = err
		return b
	})
	if failed != nil {
		return failed
	}
	return err
}

// take is what the agent's dispatch does with a message.
func (r *run) take(p parcel) {
	if p.kind == chunkKind {
		r.recv.Chunk(p.from, bytes.Clone(p.data))
		return
	}
	m, err := wire.Decode(p.data)
	if err != nil {
		return
	}
	switch m.Kind {
	case wire.KindOpen, wire.KindOutcomesAck, wire.KindCancel:
		r.recv.Control(m)
		return
	}
	r.mu.Lock()
	d := r.outs[m.Transfer]
	r.mu.Unlock()
	if d != nil {
		d.o.Deliver(m)
		if m.Kind == wire.KindBusy && m.Busy.Place == 0 {
			d.poke()
		}
		return
	}
	if m.Kind != wire.KindOutcomes {
		return
	}
	var rec *ledger.Source
	if err := r.ledger.View(func(t *ledger.Tx) (err error) {
		rec, err = t.Source(m.Transfer)
		return err
	}); err != nil {
		return
	}
	if rec != nil {
		sender.New(r.cfg, rec).Deliver(m)
		return
	}
	line{r}.Send(m.From, &wire.Message{Kind: wire.KindOutcomesAck, From: r.node.name, Transfer: m.Transfer,
		OutcomesAck: &wire.OutcomesAck{Batch: m.Outcomes.Batch}})
}

func (d *driven) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// add drives a transfer until it ends, as the agent's scheduler does.
func (r *run) add(rec *ledger.Source) {
	d := &driven{o: sender.New(r.cfg, rec), wake: make(chan struct{}, 1)}
	r.mu.Lock()
	r.outs[d.o.ID] = d
	r.mu.Unlock()
	r.wg.Go(func() { r.drive(d) })
}

func (r *run) drive(d *driven) {
	for {
		r.mu.Lock()
		d.running = true
		r.mu.Unlock()
		v := r.step(d)
		r.mu.Lock()
		d.running = false
		state := d.o.State()
		if v.Final || state.Final() {
			delete(r.outs, d.o.ID)
		}
		r.mu.Unlock()
		switch {
		case state.Final() && !v.Final:
			d.o.Dispose()
			return
		case v.Final || v.Stopped:
			return
		case state == transfer.Settling:
			continue
		}
		timer := time.NewTimer(max(v.Retry, time.Millisecond))
		select {
		case <-d.wake:
		case <-timer.C:
		case <-r.ctx.Done():
		}
		timer.Stop()
		if r.ctx.Err() != nil {
			return
		}
	}
}

func (r *run) step(d *driven) sender.Verdict {
	state := d.o.State()
	if (state == transfer.Accepted || state == transfer.Waiting) && r.node.w.net.severed() && !d.o.Cancelled() {
		ended, err := d.o.MarkUnreachable()
		if err != nil && !r.disk.doomed() {
			r.node.w.t.Errorf("MarkUnreachable: %v", err)
		}
		return sender.Verdict{Final: ended, Retry: 4 * time.Second}
	}
	if d.o.Cancelled() {
		if done, err := d.o.CancelNow(); done {
			return sender.Verdict{Final: true}
		} else if err != nil {
			return sender.Verdict{Retry: time.Second}
		}
	}
	return d.o.Drive(r.ctx)
}

func (r *run) changed(o *sender.Outgoing) {
	r.mu.Lock()
	d := r.outs[o.ID]
	r.mu.Unlock()
	if d != nil {
		d.poke()
	}
}

// recoverSources is what the agent does with its ledger at a start.
func (r *run) recoverSources() {
	var recs []*ledger.Source
	must(r.node.w.t, r.ledger.View(func(t *ledger.Tx) error {
		return t.Sources(func(s *ledger.Source) error {
			if !s.State.Final() && s.State != transfer.Parked {
				recs = append(recs, s)
			}
			return nil
		})
	}))
	for _, rec := range recs {
		if rec.State == transfer.Running {
			rec.State = transfer.Negotiating
		}
		if rec.State == transfer.Negotiating {
			rec.Nonce++
			if rec.Recovering.IsZero() {
				rec.Recovering = time.Now()
			}
		}
		rec.Progress.State = rec.State
		must(r.node.w.t, r.ledger.Update(func(t *ledger.Tx) error { return t.PutSource(rec) }))
		r.add(rec)
	}
}

// submit hands a request to the source agent, which accepts it.
func (w *world) submit(q transfer.Request) transfer.ID {
	w.t.Helper()
	if q.ID.IsZero() {
		q.ID = transfer.NewID(time.Now())
	}
	q.Version, q.Submitted, q.Source, q.Destination = transfer.RequestVersion, time.Now(), srcName, dstName
	q.Originator = transfer.Originator{User: "user", Host: "host"}
	must(w.t, q.Check())
	r := w.src.living()
	rec := sender.NewRecord(q, "user", time.Now())
	must(w.t, r.ledger.Update(func(t *ledger.Tx) error { return t.PutSource(rec) }))
	r.add(rec)
	return q.ID
}

// cancel asks the source agent to cancel.
func (w *world) cancel(id transfer.ID) error {
	r := w.src.living()
	r.mu.Lock()
	d := r.outs[id]
	r.mu.Unlock()
	if d == nil {
		return transfer.Errorf(transfer.KindEnding, "it is over")
	}
	err := d.o.Cancel()
	d.poke()
	return err
}

// pass lets time go by.
func pass(d time.Duration) {
	//house:sleep because it runs in a bubble
	time.Sleep(d)
}

// until waits for a condition, and fails the test after a limit of the
// bubble's time. It says how long it took.
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

// picture says where everything stands.
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

// A logbook keeps what the agents log, for a test that fails.
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

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.b.Bytes()
	return "the end of the log:\n" + string(b[max(0, len(b)-24<<10):])
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
