package protocol_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/content/digest"
	"ferry/internal/faulty"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	localfs "ferry/internal/place/local"
	"ferry/internal/place/pipe"
	"ferry/internal/receiver"
	"ferry/internal/security/word"
	"ferry/internal/sender"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxCrashes is the number of crashes without progress that park a transfer at its source.
const maxCrashes = 3

// A run is one process of an agent.
type run struct {
	node      *node
	dir       string
	ctx       context.Context
	cancel    context.CancelFunc
	ledger    *ledger.Ledger
	fs        *localfs.FS // nil where the files are in an object store
	crashable *crashable
	pool      *flow.Pool
	recv      *receiver.Receiver
	cfg       sender.Config
	wg        sync.WaitGroup

	mu   sync.Mutex
	outs map[transfer.ID]*driven
	over bool // no transfer is added any more
}

// A driven is a transfer that the run sends.
type driven struct {
	o       *sender.Outgoing
	wake    chan struct{}
	running bool
}

// newRun starts an agent on a ledger, as the agent does. A run that dies meanwhile, with its ledger open, counts as a
// run, too.
func (n *node) newRun(dir string) (*run, error) {
	w := n.w
	r := &run{node: n, dir: dir, outs: map[transfer.ID]*driven{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.crashable = newCrashable(r)
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})).With("at", n.name)
	opt := n.options(dir, r.crashable)
	opt.Log = log
	var err error
	if r.ledger, err = ledger.Open(dir, opt); err != nil {
		return r, err
	}
	boot := n.bootID()
	source, target := r.place(log, boot)
	r.pool = flow.NewPool(w.set.pool, w.set.pool, w.set.slots, int64(w.set.settings.ChunkSize))
	executor := r.calls(log)
	r.recv = receiver.New(receiver.Config{Programs: executor, Agent: n.name, Ledger: r.ledger, Place: target, Link: line{r}, Note: r.note,
		Clock: n.clockOf(), Log: log, Slots: w.set.slots, ItemSlots: w.set.places, Pool: r.pool, MaxChunk: transfer.MaxChunk, Boot: boot,
		Changed: func() {}, Over: r.overAt, Lanes: lane{r: r}, Came: r.came})
	r.cfg = sender.Config{Programs: executor, Agent: n.name, Ledger: r.ledger, Place: source, Link: line{r}, Lanes: lane{r: r}, Note: r.note,
		Progress: func(p *transfer.Progress) {
			if !r.crashable.crashed() { // later changes of its ledger are lost
				w.said(p)
			}
		}, Changed: r.changed, Clock: n.clockOf(), Log: log, Controllers: new(flow.Controllers),
		Settings: w.set.settings, MaxChunk: transfer.MaxChunk, MaxTargets: cmp.Or(w.set.targets, 200), Throttle: flow.NewThrottle(n.clockOf())}
	err = r.ledger.DropOrphans()
	if err == nil {
		err = r.recv.Recover()
	}
	if err == nil {
		err = r.recoverSources()
	}
	if err == nil || r.crashable.crashed() {
		r.wg.Go(r.ageLoop)
		return r, nil
	}
	r.end()
	return r, err
}

// place opens the source and target of the agent.
func (r *run) place(log *slog.Logger, boot string) (place.Source, place.Target) {
	n := r.node
	if n.store != nil {
		o := &faulty.Objects{Session: faulty.Session{Store: n.store, Around: r.crashable.around}, Incarnation: r.ledger.Incarnation()}
		return o, o
	}
	switch w := n.w; {
	case n.name == srcName && w.set.stdin != nil:
		return pipe.NewSource(w.set.stdin), pipe.NoTarget{}
	case n.name == dstName && w.set.stdout != nil:
		return pipe.NoSource{}, pipe.NewTarget(w.set.stdout, w.set.id)
	}
	var err error
	r.fs, err = localfs.Open(localfs.Config{Roots: []string{n.files(".")}, StateDirs: []string{filepath.Join(n.root, "state")},
		Incarnation: r.ledger.Incarnation(), Log: log, Digest: digest.ByName, Disk: crashableDisk{n.host().disk(), r.crashable}, Boot: boot})
	must(n.w.t, err)
	local := r.fs.Place()
	return local, local
}

// came returns the number of bytes of chunk messages that have arrived from an agent over a slow link, including parts
// of messages.
func (r *run) came(from transfer.AgentName) int64 {
	n, _ := r.node.w.net.Carried(from, r.node.name)
	return int64(n)
}

// overAt asks the source's run whether a transfer is over, as the agent does by way of the queue manager.
func (r *run) overAt(_ context.Context, source transfer.AgentName, id transfer.ID) (*transfer.Progress, error) {
	silent := transfer.Errorf(transfer.KindUnreachable, "%s does not answer", source)
	w := r.node.w
	cut := false
	w.net.Set(func(rules *faulty.Rules) { cut = rules.Cut })
	s := w.src.living()
	if cut || s == nil || source != srcName || s.crashable.crashed() {
		return nil, silent
	}
	var rec *ledger.Source
	var tomb ledger.Tombstone
	err := s.ledger.View(func(t *ledger.Tx) (err error) {
		if rec, err = t.Source(id); err == nil && rec == nil {
			tomb, err = ledger.TombstoneByAny(t, id)
		}
		return err
	})
	switch {
	case err != nil || s.crashable.crashed():
		return nil, silent
	case rec != nil:
		return &rec.Progress, nil
	case tomb.As != "":
		return &transfer.Progress{ID: id, State: tomb.As, Source: source, Code: tomb.As.Code()}, nil
	}
	return nil, transfer.Errorf(transfer.KindNotFound, "%s has no transfer %s", source, id)
}

// ageLoop counts the running time, as the agent does.
func (r *run) ageLoop() {
	t := r.node.clockOf().NewTimer(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-t.C():
			r.ledger.AddRunning(time.Minute)
			t.Reset(time.Minute)
		case <-r.ctx.Done():
			return
		}
	}
}

// end releases all resources of a run.
func (r *run) end() {
	r.cancel()
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.wg.Wait()
	r.mu.Lock()
	outs := r.outs
	r.mu.Unlock()
	for _, d := range outs {
		d.o.Dispose()
	}
	r.recv.Stop()
	r.crashable.end()
	r.ledger.Close()
	if r.fs != nil {
		r.fs.Close()
	}
}

// note puts an audit record into the outbox, as the agent does.
func (r *run) note(t *ledger.Tx, rec audit.Record) error {
	noted := r.node.w.now().noted
	if noted != nil && !r.crashable.crashed() && noted(r, &rec) {
		r.crashable.die(true)
		return errDead
	}
	var failed error
	err := t.Audit(func(n uint64) []byte {
		rec.Agent, rec.Incarnation, rec.N, rec.Time = r.node.name, r.ledger.IncarnationText(), n, r.node.clockOf().Now().UTC()
		b, err := audit.Encode(&rec)
		failed = err
		return b
	})
	if failed != nil {
		return failed
	}
	return err
}

// take handles a message as the agent's dispatch does.
func (r *run) take(p *faulty.Parcel) {
	if p.Kind == faulty.Chunk {
		r.recv.Chunk(p.From, p.Data, false)
		return
	}
	m, err := wire.Decode(p.Data)
	if err != nil {
		return
	}
	switch m.Kind {
	case wire.KindOpen, wire.KindOutcomesAck, wire.KindCancel, wire.KindAlive:
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
	if m.Kind == wire.KindOutcomes {
		r.lateOutcomes(m)
	}
}

// lateOutcomes takes outcomes of a transfer that no goroutine drives any more.
func (r *run) lateOutcomes(m *wire.Message) {
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
	defer r.mu.Unlock()
	if r.over {
		return // the next run finds the record in the ledger
	}
	r.outs[d.o.ID] = d
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
		case state == transfer.Settling && v.Reason == nil:
			continue
		}
		if !r.rest(d, v.Retry) {
			return
		}
	}
}

// rest waits until a transfer is to be tried again. It returns false if it is never tried again.
func (r *run) rest(d *driven, most time.Duration) bool {
	timer := time.NewTimer(max(most, time.Millisecond))
	defer timer.Stop()
	parked := d.o.State() == transfer.Parked
	for {
		due := timer.C
		if parked {
			due = nil
		}
		select {
		case <-d.wake:
			if parked = d.o.State() == transfer.Parked && !d.o.Cancelled(); parked {
				continue
			}
		case <-due:
		case <-r.ctx.Done():
			return false
		}
		return r.ctx.Err() == nil
	}
}

func (r *run) step(d *driven) sender.DriveResult {
	state := d.o.State()
	if state == transfer.Parked && !d.o.Cancelled() {
		return sender.DriveResult{}
	}
	if (state == transfer.Accepted || state == transfer.Waiting) && r.node.w.net.Rules().Cut && !d.o.Cancelled() {
		ended, _, err := d.o.MarkUnreachable()
		if err != nil && !r.crashable.crashed() && r.node.w.now().inject == nil {
			r.node.w.t.Errorf("MarkUnreachable: %v", err)
		}
		return sender.DriveResult{Final: ended, Retry: 4 * time.Second}
	}
	if d.o.Cancelled() {
		if done, err := d.o.CancelNow(); done {
			return sender.DriveResult{Final: true}
		} else if err != nil {
			return sender.DriveResult{Retry: time.Second}
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

// recoverSources handles the ledger at a start, as the agent does.
func (r *run) recoverSources() error {
	var recs []*ledger.Source
	if err := r.ledger.View(func(t *ledger.Tx) error {
		return t.Sources(func(s *ledger.Source) error {
			if !s.State.Final() {
				recs = append(recs, s)
			}
			return nil
		})
	}); err != nil {
		return err
	}
	for _, rec := range recs {
		r.revive(rec)
		if err := r.ledger.Update(func(t *ledger.Tx) error { return t.PutSource(rec) }); err != nil {
			return err
		}
		r.add(rec)
	}
	return nil
}

// revive turns the record that a crash has left into the state for the next run.
func (r *run) revive(rec *ledger.Source) {
	if !r.node.w.set.park {
		rec.Crashes = 0
	}
	parked, _, err := sender.Revive(rec, r.ledger.Unclean(), r.node.clockOf().Now())
	must(r.node.w.t, err)
	if parked {
		toll.add("transfers parked", 1)
	}
}

// clearCrashes resumes a parked transfer, as an operator does.
func (r *run) clearCrashes(id transfer.ID) {
	r.mu.Lock()
	old := r.outs[id]
	r.mu.Unlock()
	if old == nil || old.o.State() != transfer.Parked {
		return
	}
	var after *ledger.Source
	if err := r.ledger.Update(func(t *ledger.Tx) error {
		rec, err := t.Source(id)
		if err != nil {
			return err
		}
		rec.Crashes, rec.Progress.Reason, rec.Recovering = 0, nil, time.Time{}
		rec.Pardon++
		after = rec
		return errors.Join(rec.Move(transfer.Accepted), t.PutSource(rec))
	}); err != nil {
		return
	}
	old.o.Dispose()
	r.add(after)
}

// submit hands a request to the source agent, which accepts it.
func (w *world) submit(q transfer.Request) transfer.ID {
	w.t.Helper()
	w.complete(&q)
	must(w.t, w.src.living().accept(q))
	return q.ID
}

// submitAnyhow repeats a request until the source agent has accepted it, as a submitter does.
func (w *world) submitAnyhow(q transfer.Request) transfer.ID {
	w.t.Helper()
	w.complete(&q)
	w.until(10*time.Minute, "nobody accepts the request", func() bool {
		r := w.src.living()
		// A process that died meanwhile has given no answer. Its changes since the ledger was taken from it are lost.
		return r != nil && r.accept(q) == nil && !r.crashable.crashed()
	})
	return q.ID
}

// complete fills in the common fields of a request.
func (w *world) complete(q *transfer.Request) {
	w.t.Helper()
	now := w.src.clockOf().Now()
	if q.ID.IsZero() {
		q.ID = transfer.NewID(now)
	}
	q.Version, q.Submitted, q.Source, q.Destination = transfer.RequestVersion, now, srcName, dstName
	q.Originator = transfer.Originator{User: "user", Host: "host"}
	must(w.t, q.Check())
}

// accept puts a request into the ledger, or finds it there.
func (r *run) accept(q transfer.Request) error {
	now := r.node.clockOf().Now()
	var fresh *ledger.Source
	err := r.ledger.Update(func(t *ledger.Tx) error {
		fresh = nil
		old, err := t.Source(q.ID)
		if err != nil || old != nil {
			return err
		}
		head, parts := inParts(q)
		fresh = sender.NewRecord(head, word.Origin{Principal: "user"}, now)
		return errors.Join(fresh.Move(transfer.Accepted), t.Requests().AcceptParts(q.ID, "user", parts), t.PutSource(fresh))
	})
	if err == nil && fresh != nil {
		r.add(fresh)
	}
	return err
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
	err := d.o.Cancel(word.Origin{Principal: "operator@box"})
	d.poke()
	return err
}

// disposition returns the disposition that deletes sources, or the default.
func disposition(deletes bool) string {
	if deletes {
		return transfer.DispositionDelete
	}
	return ""
}
