// Package agent runs transfers on one host: it takes commands from its queues
// into the ledger, gives slots, drives the sender and the receiver, recovers
// after a crash, and tells the network that it is alive.
//
// Messages come in on the five queues and go to one place each:
//
//	COMMAND  ferry.command.<agent>.>   requests            message.go
//	COMMAND  ferry.control.<agent>.>   cancels and such    control.go
//	REPLY    ferry.reply.<agent>.*     the conversation    dispatch.go
//	DATA     ferry.data.<agent>.>      chunk messages      receiver.Chunk
//	         ferry.ask.<agent>.*       questions           ask.go
//	         ferry.inbox.<agent>.<agent>.<run>   whether it lives   owner.go
//	EVENT    ferry.event.<agent>       written by outbox.go
package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/content/compress"
	"ferry/internal/content/conversion"
	"ferry/internal/flow"
	"ferry/internal/lane/queue"
	"ferry/internal/ledger"
	"ferry/internal/place/local/disk"
	"ferry/internal/qmgr"
	"ferry/internal/receiver"
	"ferry/internal/security/policy"
	"ferry/internal/sender"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/descriptor"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Retention is the time for which outcomes are kept, in the agent's running time. farFuture is the most by which the
// time of an ID may be ahead of the agent's clock.
const (
	Retention = 30 * 24 * time.Hour
	farFuture = time.Hour
)

// DefaultTransfers is the number of transfers that an agent runs at once in each direction.
const DefaultTransfers = 25

// Config is the configuration of an agent.
type Config struct {
	Name     transfer.AgentName
	Dir      string   // state: the ledger and the item journals
	Roots    []string // where files may be read and written; see disk.ParseRoot
	Settings transfer.Settings
	// Limits; 0 means 25, 25 and 1,000.
	MaxSource, MaxDestination, MaxQueued int
	Rates                                map[transfer.AgentName]flow.Timetable // its rate to each agent; "": to all together
	Memory                               int64                                 // bytes for data in flight; default 64 MiB
	OutboxLimit                          int64                                 // audit records that may wait for coordination; default 100,000
	Version                              string
	Carve                                []string           // directories that transfers cannot touch, beside Dir
	Alone                                bool               // there is no coordination on this network
	Beside                               transfer.AgentName // another agent with the same roots on this host; may be empty
	Direct                               Direct
	Content                              conversion.Defaults // of text files on this host
	Files                                descriptor.Share    // of the process's open files; its Transfers bound both of those above
	RecordRoot                           string              // where data sets lie; default the first root
	Sandbox                              *policy.Rules       // the part of the policy that holds here; nil: all
	Programs                             string              // directory of the programs that it may run; empty: none
	Streams                              *Streams            // nil: the agent sends and receives files beneath its Roots
	Duties                               []duty.Maker        // its work beside the transfers that are submitted to it
	Claim                                *ledger.Claim       // that StandBy has given; nil: the agent has no standby
	Clock                                clock.Clock
	Log                                  *slog.Logger
}

// An Agent is one run of an agent's process.
type Agent struct {
	*sides
	intake     *intake
	answers    *answers
	replies    *replies
	heartbeats *heartbeats
	outbox     *outbox
	duties     *duties
	halt       sync.Once
}

// Start brings an agent up on a connection: it opens the ledger, recovers the state of an earlier run, listens and
// registers. It refuses to start beside a living agent of the same name.
func Start(ctx context.Context, cfg Config, conn *qmgr.Conn) (*Agent, error) {
	cfg.fill()
	c := newCore(cfg, conn)
	own := newOwner(c)
	w := &sides{core: c, older: &older{core: c, resend: make(chan struct{}, 1), look: own.look}, own: own}
	a := &Agent{sides: w, intake: newIntake(w), answers: newAnswers(w), replies: newReplies(w), outbox: newOutbox(c)}
	a.outbox.register = a.registerOnce
	a.heartbeats = &heartbeats{sides: w, each: a.intake.refusals.tell}
	silent := false
	if cfg.Claim == nil && cfg.Streams == nil {
		var err error
		if silent, err = a.refuseTwin(ctx); err != nil {
			return nil, err
		}
	}
	if err := a.open(ctx, silent); err != nil {
		a.published.nameless = transfer.KindOf(err) == transfer.KindAlive
		a.Halt()
		a.closeStores()
		if a.ledger == nil && cfg.Claim != nil {
			cfg.Claim.Close()
		}
		err = a.givenUp(err)
		a.own.release()
		return nil, err
	}
	if err := a.listen(); err != nil {
		a.Stop()
		return nil, err
	}

	if !a.cfg.unique() {
		a.register(ctx)
	}

	a.logConfig()
	return a, nil
}

func (c *Config) fill() {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.MaxSource, DefaultTransfers)
	def(&c.MaxDestination, DefaultTransfers)
	def(&c.MaxQueued, 1000)
	if most := c.Files.Transfers; most > 0 {
		c.MaxSource, c.MaxDestination = min(c.MaxSource, most), min(c.MaxDestination, most)
	}

	if c.Files.Spare >= spareEach*c.MaxQueued {
		c.Files.Spare = 0 // they need not be counted
	}

	if c.Clock == nil {
		c.Clock = clock.System
	}

	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// unique reports whether no other instance can have the name of the agent: no other process is on the network, or the
// name is that of one transfer.
func (c *Config) unique() bool { return c.Alone || c.Streams != nil }

// spareEach is the number of descriptors that each transfer of an agent may keep open beyond need.
const spareEach = 8

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// open opens the ledger, claims the name, and makes both sides.
func (a *Agent) open(ctx context.Context, silent bool) error {
	if err := os.MkdirAll(a.cfg.Dir, 0o700); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be made: %w", err)
	}
	if err := a.refuseRootsInside(); err != nil {
		return err
	}

	memory, queue, maxChunk, err := a.budget()
	if err != nil {
		return err
	}

	a.ledger, err = ledger.Open(a.cfg.Dir, ledger.Options{Clock: a.cfg.Clock, Log: a.log, OutboxLimit: a.cfg.OutboxLimit, Claim: a.cfg.Claim})
	if err != nil {
		return err
	}

	if err := a.older.open(); err != nil {
		return err
	}
	a.own.older, a.outbox.older = a.older, a.older
	if silent && a.cfg.Alone {
		return a.own.taken(holder{})
	} else if !a.cfg.unique() {
		if err := a.own.claimInTime(ctx, silent); err != nil {
			return err
		}
	}

	if a.calls, err = a.newCalls(); err != nil {
		return err
	}
	places, err := a.places()
	if err != nil {
		return err
	}
	if a.gate, err = newGatekeeper(a.core, func() { a.lanes.recheck() }); err != nil {
		return err
	}
	stop, err := a.gate.Listen(a.ctx, a.wg.Go)
	if err != nil {
		return err
	}
	a.stops = append(a.stops, stop)
	if a.witness, err = newWitnessing(a.core); err != nil {
		return err
	}
	a.outbox.witness = a.witness
	if err := a.openLanes(); err != nil {
		return err
	}

	if a.cfg.Streams == nil {
		a.storing = newStoring(a.core, a.older, a.lanes.mem)
	}
	pool := flow.NewPool(memory, queue, a.cfg.MaxDestination, int64(a.cfg.Settings.Or(transfer.DefaultSettings()).ChunkSize))
	rcfg := receiver.Config{Agent: a.cfg.Name, Ledger: a.ledger, Place: places.Target, Limits: places.Limits, Link: link{a.core}, Note: a.note,
		Clock: a.cfg.Clock, Log: a.log, Slots: a.cfg.MaxDestination, Places: a.cfg.Files.Places, Pool: pool, MaxChunk: maxChunk, Boot: disk.BootID(), Changed: a.beatNow,
		Lanes: a.lanes, Instance: a.instance, Memory: a.lanes.mem, Delay: a.conn.Delay, Came: a.lanes.came, Over: a.overAt, Content: a.cfg.Content, Quiet: a.quiet, Programs: a.calls,
		Rights: receiver.Rights{Stale: a.gate.waits, May: a.gate.permit, Admit: a.gate.admits}}
	if a.storing != nil {
		rcfg.Store = a.storing
	}
	a.recv = receiver.New(rcfg)
	a.throttle = sender.NewThrottle(a.cfg.Clock)
	if err := a.throttle.Set(a.cfg.Rates); err != nil {
		return err
	}

	a.sendCfg = sender.Config{Agent: a.cfg.Name, Beside: a.cfg.Beside, Ledger: a.ledger, Place: places.Source, Link: link{a.core}, Lanes: a.lanes, Lines: &a.lines, Delay: a.conn.Delay, Memory: a.lanes.mem,
		Note: a.noteSent, Progress: a.progress, Changed: func(o *sender.Outgoing) { a.sched.changed(o) }, Clock: a.cfg.Clock, Log: a.log, Settings: a.cfg.Settings, MaxChunk: maxChunk, Throttle: a.throttle,
		Encoders: new(compress.Encoders), Content: a.cfg.Content, Quiet: a.quiet, May: a.gate.permit, Programs: a.calls, Scratch: a.scratch()}
	if a.storing != nil {
		a.sendCfg.Store = a.storing
	}
	a.sched = newScheduler(a.core, a.own, &a.sendCfg)
	if err := a.ledger.DropOrphans(); err != nil {
		return err
	}

	if a.duties, err = newDuties(a.intake); err != nil {
		return err
	}
	a.intake.duties, a.answers.duties = a.duties, a.duties

	failpoint.Hit("agent.opened")
	if err := a.recv.Recover(); err != nil {
		return err
	}

	failpoint.Hit("agent.after_recover")
	if err := a.recover(); err != nil {
		return err
	}
	return nil
}

// budget is the memory for data in flight, how much of it may come through the
// queue manager, and the largest chunk that both allow. A sender waits for a quarter of a chunk of credit;
// that much every transfer must always get.
func (a *Agent) budget() (memory, queue int64, maxChunk int, err error) {
	facts := a.conn.Facts()
	if memory = a.cfg.Memory; memory == 0 {
		memory = 64 << 20
	}
	queue = min(memory, facts.MaxPending/2-2<<20)
	share := queue / 2 / int64(a.cfg.MaxDestination)
	if share < transfer.MinChunk {
		return 0, 0, 0, transfer.Errorf(transfer.KindUsage, "%s of memory are too few for %d transfers at once; each needs %s",
			transfer.FormatBytes(queue), a.cfg.MaxDestination, transfer.FormatBytes(2*transfer.MinChunk)).
			WithHint("give more with --memory, or fewer --max-destination-transfers")
	}
	return memory, queue, int(min(facts.MaxPayload-wire.Overhead-1024, transfer.MaxChunk, 4*share)), nil
}

// refuseRootsInside refuses a root in the agent's own state directory: a
// transfer must not be able to write the ledger.
func (a *Agent) refuseRootsInside() error {
	if a.cfg.Streams != nil {
		return nil
	}

	if len(a.cfg.Roots) == 0 {
		return transfer.Errorf(transfer.KindUsage, "agent %s has no root; give --root DIR, a directory of files that it may read and write", a.cfg.Name)
	}

	state, err := filepath.Abs(a.cfg.Dir)
	if err != nil {
		return err
	}

	for _, r := range a.cfg.Roots {
		dir := disk.ParseRoot(r).Dir
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		if abs == state || strings.HasPrefix(abs, state+string(filepath.Separator)) {
			return transfer.Errorf(transfer.KindUsage, "root %s lies inside the agent's own state directory %s; choose another", abs, state)
		}
	}
	return nil
}

// listen subscribes to everything that reaches an agent.
func (a *Agent) listen() error {
	data := queue.Receive(a.quiet, func(from transfer.AgentName, m []byte) { a.recv.Chunk(from, m, false) })
	listenData := func(subject string, h func(qmgr.Message)) (func(), error) {
		return a.conn.SubscribeData(subject, a.lanes.mem.Get, h)
	}
	for _, s := range []struct {
		subject string
		listen  func(string, func(qmgr.Message)) (func(), error)
		handle  func(qmgr.Message)
	}{
		{wire.AllData(a.cfg.Name), listenData, func(m qmgr.Message) { data(m.Subject, m.Data) }},
		{wire.AllReplies(a.cfg.Name), a.conn.Subscribe, a.replies.came},
		{wire.AllAsks(a.cfg.Name.Token()), a.conn.Subscribe, a.answers.asked},
		{a.outbox.inbox, a.conn.Subscribe, a.outbox.receipted},
		{wire.BeatSubject(a.cfg.Name), a.conn.Subscribe, a.own.heard}, // other instances of the name
	} {
		if a.cfg.unique() && s.subject == wire.BeatSubject(a.cfg.Name) {
			continue
		}
		stop, err := s.listen(s.subject, s.handle)
		if err != nil {
			return err
		}
		a.stops = append(a.stops, stop)
	}

	a.wg.Go(func() { a.consume(a.commands(), a.intake.submitted) })
	a.wg.Go(func() { a.consume(a.controls(), a.intake.controlled) })
	if !a.cfg.unique() {
		a.wg.Go(a.own.keep)
		if a.cfg.Claim != nil {
			a.wg.Go(a.own.lapse)
		}
	}

	a.wg.Go(a.sched.loop)
	a.wg.Go(a.heartbeats.beatLoop)
	if !a.cfg.Alone {
		a.wg.Go(a.outbox.loop)
		if a.witness.key != nil {
			a.wg.Go(a.witness.loop)
		}
	}

	if a.storing != nil {
		a.wg.Go(a.storing.trimLoop)
		a.wg.Go(a.storing.sweepLoop)
		a.wg.Go(newShelfReader(a.storing, a.own, a.recv).loop)
	}

	a.runDuties()
	a.wg.Go(a.ageLoop)
	a.wg.Go(a.replies.loop)
	a.wg.Go(a.replies.lateLoop)
	return nil
}

// register announces this run to coordination by a heartbeat with an answer. Coordination need not be there: the next
// heartbeats announce the run, too.
func (a *Agent) register(ctx context.Context) {
	for range 3 {
		err := a.registerOnce(ctx)
		if err == nil {
			return
		}
		if transfer.KindOf(err) == transfer.KindUnreachable {
			break
		}
	}
	a.log.Warn("coordination does not answer; registering later")
}

// registerOnce is register, tried once. The answer has the number of the ledger's last audit record.
func (a *Agent) registerOnce(ctx context.Context) error {
	ask := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskRegister, Body: wire.Marshal(wire.Register{Beat: a.beat()})})
	data, err := a.conn.Request(ctx, wire.AskSubject(wire.Coordination, a.cfg.Name.Token()), ask, time.Second)
	if err != nil {
		return err
	}
	var r wire.Registered
	if ans, err := wire.DecodeAnswer(data); err == nil && json.Unmarshal(ans.Body, &r) == nil {
		a.older.hearLog(r.Last, r.Hash)
	}
	return nil
}

// Stop ends the run: heartbeats say so, transfers stop where they are and
// resume in the next run.
func (a *Agent) Stop() {
	a.Halt()
	if !a.cfg.Alone && !a.own.displaced() {
		a.outbox.flush()
	}
	a.own.number()
	a.closeStores()
	a.heartbeats.publishBeat(wire.AgentStopped)
	a.own.release()
	if a.cfg.Streams != nil {
		a.forget()
	}
}

func (a *Agent) closeStores() {
	if a.ledger != nil {
		if err := a.ledger.Close(); err != nil && a.ledger.Lost() == nil {
			a.log.Error("cannot close the ledger", "error", err)
		}
	}
	if a.fs != nil {
		a.fs.Close()
	}
}

// Gone is closed when the agent's state directory was removed while the agent runs. The agent takes nothing more, and
// must be stopped. Lost gives the reason then.
func (a *Agent) Gone() <-chan struct{} { return a.ledger.Gone() }

// Lost returns the reason of the loss; nil until Gone is closed.
func (a *Agent) Lost() error { return a.ledger.Lost() }

// WaitIdle waits until all transfers that arrive here are finished, or ctx ends.
func (a *Agent) WaitIdle(ctx context.Context) {
	t := a.cfg.Clock.NewTimer(0)
	defer t.Stop()
	for a.recv.Open() > 0 {
		select {
		case <-t.C():
			t.Reset(2 * time.Millisecond)
		case <-ctx.Done():
			return
		}
	}
}

// Halt ends all work but leaves the ledger open, for DrainOutbox. Stop must
// follow.
func (a *Agent) Halt() {
	a.halt.Do(func() {
		a.published.mu.Lock()
		a.published.stopping = true
		a.published.mu.Unlock()
		a.heartbeats.publishBeat(wire.AgentStopping)
		a.cancel()
		for _, stop := range a.stops {
			stop()
		}
		a.wg.Wait()
		a.lanes.close()
		if a.sched != nil {
			a.sched.dispose()
		}
		if a.recv != nil {
			a.recv.Stop()
		}
	})
}

// Reconnected is called when the connection to the queue manager is new.
func (a *Agent) Reconnected() {
	a.lanes.moved()
	a.gate.Again()
	if a.storing != nil {
		a.storing.again()
	}
	a.beatNow()
}

// Name is the agent's name.
func (a *Agent) Name() transfer.AgentName { return a.cfg.Name }

// OutboxLeft returns the number of audit records that are not known to be in coordination's log.
func (a *Agent) OutboxLeft() int64 { return a.ledger.Outbox() }

// ageLoop counts the running time, and removes entries that are too old.
func (a *Agent) ageLoop() {
	t := a.cfg.Clock.NewTimer(time.Minute)
	defer t.Stop()
	for minutes := 1; ; minutes++ {
		select {
		case <-t.C():
			err := a.ledger.AddRunning(time.Minute)
			a.sched.forgetPeers()
			if err == nil && minutes%60 == 0 {
				err = errors.Join(a.ledger.Forget(Retention), a.calls.Age(Retention))
			}
			if err != nil {
				a.log.Error("cannot write the ledger", "error", err)
			}
			if a.held != nil {
				if err := a.held.pass(); err != nil {
					a.log.Warn("cannot renew or release holds of messages", "error", err)
				}
			}
			t.Reset(time.Minute)
		case <-a.ctx.Done():
			return
		}
	}
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }
