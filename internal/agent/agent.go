// Package agent runs transfers on one host: it takes commands from its queues
// into the ledger, gives slots, drives the sender and the receiver, recovers
// after a crash, and tells the network that it is alive.
//
// Each message to an agent goes to one part of it:
//
//	COMMAND  ferry.command.<agent>.>   requests            message.go
//	COMMAND  ferry.control.<agent>.>   cancels and such    control.go
//	REPLY    ferry.reply.<agent>.*     the conversation    dispatch.go
//	DATA     ferry.data.<agent>.>      chunk messages      receiver.Chunk
//	         ferry.ask.<agent>.*       questions           ask.go
//	         ferry.inbox.<agent>.<agent>.<run>   whether it lives   owner.go
//	EVENT    ferry.event.<agent>       written by package outbox
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"ferry/internal/agent/outbox"
	"ferry/internal/agent/scheduler"
	"ferry/internal/agent/store"
	"ferry/internal/agent/teller"
	"ferry/internal/content/compress"
	"ferry/internal/flow"
	"ferry/internal/lane/queue"
	"ferry/internal/ledger"
	"ferry/internal/place/local/disk"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/streams"
	"ferry/internal/receiver"
	"ferry/internal/sender"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An Agent is one run of an agent's process.
type Agent struct {
	*transferEnds
	intake     *intake
	answers    *answers
	replies    *replies
	heartbeats *heartbeats
	outbox     *outbox.Outbox
	duties     *duties
	teller     *teller.Teller // nil where there is no coordination
	halt       sync.Once
}

// Start brings an agent up on a connection: it opens the ledger, recovers the state of an earlier run, listens and
// registers. It refuses to start beside a living agent of the same name.
func Start(ctx context.Context, cfg Config, conn *qmgr.Conn) (*Agent, error) {
	cfg.fill()
	c := newCore(cfg, conn)
	own := newOwner(c)
	w := &transferEnds{core: c, olderCopy: &olderCopy{core: c, resend: make(chan struct{}, 1), look: own.checkSoon}, own: own}
	a := &Agent{transferEnds: w, intake: newIntake(w), answers: newAnswers(w), replies: newReplies(w)}
	a.heartbeats = &heartbeats{transferEnds: w, each: a.intake.refusals.tell}
	silent := false
	if cfg.DirLock == nil && cfg.Streams == nil {
		var err error
		if silent, err = a.refuseSecondInstance(ctx); err != nil {
			return nil, err
		}
	}
	if err := a.open(ctx, silent); err != nil {
		a.published.nameless = transfer.KindOf(err) == transfer.KindAlive
		a.Halt()
		a.closeStores()
		if a.ledger == nil && cfg.DirLock != nil {
			cfg.DirLock.Close()
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

// open opens the ledger, claims the name, and makes both transfer ends.
func (a *Agent) open(ctx context.Context, silent bool) error {
	if err := os.MkdirAll(a.cfg.Dir, 0o700); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be made: %w", err)
	}
	if err := a.cfg.refuseRootsInside(); err != nil {
		return err
	}

	memory, queue, maxChunk, err := a.budget()
	if err != nil {
		return err
	}

	a.ledger, err = ledger.Open(a.cfg.Dir, ledger.Options{Clock: a.cfg.Clock, Log: a.log, OutboxLimit: a.cfg.OutboxLimit, DirLock: a.cfg.DirLock})
	if err != nil {
		return err
	}

	if err := a.olderCopy.open(); err != nil {
		return err
	}
	a.own.olderCopy = a.olderCopy
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
	if a.outbox, err = outbox.New(outbox.Config{Agent: a.cfg.Name, Alone: a.cfg.Alone, Pipe: a.cfg.Streams != nil, Conn: a.conn, Ledger: a.ledger, Noted: a.notes, Note: a.note, Register: a.registerOnce,
		Heard: func(last uint64) { a.olderCopy.hearLog(last, "") }, Compared: a.olderCopy.compared.Load, Resend: a.olderCopy.resend, Changed: a.beatNow, Context: a.ctx, Clock: a.cfg.Clock, Log: a.log, Quiet: a.quiet}); err != nil {
		return err
	}
	a.witness = a.outbox.Witness()
	if err := a.openLanes(); err != nil {
		return err
	}

	if a.cfg.Streams == nil {
		a.storing = store.New(store.Config{Agent: a.cfg.Name, Conn: a.conn, Ledger: a.ledger, Memory: a.lanes.mem, Waits: a.cfg.MaxSource, Compared: a.olderCopy.compared.Load,
			Context: a.ctx, Clock: a.cfg.Clock, Log: a.log})
	}
	pool := flow.NewPool(memory, queue, a.cfg.MaxDestination, int64(a.cfg.Settings.Or(transfer.DefaultSettings()).ChunkSize))
	rcfg := receiver.Config{Agent: a.cfg.Name, Ledger: a.ledger, Place: places.Target, Link: link{a.core}, Note: a.note,
		Clock: a.cfg.Clock, Log: a.log, Slots: a.cfg.MaxDestination, ItemSlots: a.cfg.Files.Places, Pool: pool, MaxChunk: maxChunk, Boot: disk.BootID(), Changed: a.beatNow,
		Lanes: a.lanes, Instance: a.instance, Memory: a.lanes.mem, Delay: a.conn.Delay, Came: a.lanes.came, Over: a.overAt, Content: a.cfg.Content, Quiet: a.quiet, Programs: a.calls,
		Rights: receiver.Rights{Stale: a.gate.waits, May: a.gate.permit, Admit: a.gate.admits}}
	if a.storing != nil {
		rcfg.Store = a.storing
	}
	a.recv = receiver.New(rcfg)
	a.throttle = flow.NewThrottle(a.cfg.Clock)
	if err := a.throttle.Set(a.cfg.Rates); err != nil {
		return err
	}

	a.sendCfg = sender.Config{Agent: a.cfg.Name, Beside: a.cfg.Beside, Ledger: a.ledger, Place: places.Source, Link: link{a.core}, Lanes: a.lanes, Controllers: &a.controllers, Delay: a.conn.Delay, Memory: a.lanes.mem,
		Note: a.noteSent, Progress: a.progress, Changed: func(o *sender.Outgoing) { a.sched.Changed(o) }, Clock: a.cfg.Clock, Log: a.log, Settings: a.cfg.Settings, MaxChunk: maxChunk, Throttle: a.throttle,
		Encoders: new(compress.Encoders), Content: a.cfg.Content, Quiet: a.quiet, May: a.gate.permit, Programs: a.calls, Scratch: a.cfg.scratch()}
	if a.storing != nil {
		a.sendCfg.Store = a.storing
	}
	a.sched = scheduler.New(scheduler.Config{Agent: a.cfg.Name, MaxSource: a.cfg.MaxSource, MaxQueued: a.cfg.MaxQueued, Sends: &a.sendCfg, Wakeup: a.own.begin,
		May: func() bool { return a.own.may(stageTransfers) }, Changed: a.beatNow, Progress: a.progress, Conn: a.conn, Context: a.ctx, Clock: a.cfg.Clock, Log: a.log})
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

// listen subscribes to everything that reaches an agent.
func (a *Agent) listen() error {
	data := queue.Receive(a.quiet, func(from transfer.AgentName, m []byte) { a.recv.Chunk(from, m, false) })
	listenData := func(subject string, h func(qmgr.Message)) (func(), error) {
		return a.conn.SubscribeData(subject, h)
	}
	for _, s := range []struct {
		subject string
		listen  func(string, func(qmgr.Message)) (func(), error)
		handle  func(qmgr.Message)
	}{
		{wire.AllData(a.cfg.Name), listenData, func(m qmgr.Message) { data(m.Subject, m.Data) }},
		{wire.AllReplies(a.cfg.Name), a.conn.Subscribe, a.replies.queueReply},
		{wire.AllAsks(a.cfg.Name.Token()), a.conn.Subscribe, a.answers.asked},
		{a.outbox.Inbox(), a.conn.Subscribe, a.outbox.Receipted},
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

	a.wg.Go(func() { a.consume(a.cfg.commands(), a.intake.submitted) })
	a.wg.Go(func() { a.consume(a.cfg.controls(), a.intake.controlled) })
	if !a.cfg.unique() {
		a.wg.Go(a.own.keep)
		if a.cfg.DirLock != nil {
			a.wg.Go(a.own.endExpiredLease)
		}
	}

	a.wg.Go(a.sched.Loop)
	a.wg.Go(a.heartbeats.beatLoop)
	if !a.cfg.Alone {
		a.outbox.Start(a.wg.Go)
	}

	if a.storing != nil {
		a.storing.Start(a.wg.Go, a.recv, func() bool { return a.cfg.Alone || a.own.wait(stageRequests) })
	}

	a.runDuties()
	a.wg.Go(a.ageLoop)
	a.wg.Go(a.replies.loop)
	a.wg.Go(a.replies.lateLoop)
	return nil
}

func (a *Agent) consume(q streams.Queue, h func(qmgr.Delivery)) {
	if err := a.conn.Consume(a.ctx, q, h); err != nil && a.ctx.Err() == nil {
		a.log.Error("stopped reading a queue", "queue", q.Filter, "error", err)
	}
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
	data, err := coordinationOf(a.core)(ctx, ask, time.Second)
	if err != nil {
		return err
	}
	var r wire.Registered
	if ans, err := wire.DecodeAnswer(data); err == nil && json.Unmarshal(ans.Body, &r) == nil {
		a.olderCopy.hearLog(r.Last, r.Hash)
	}
	return nil
}

// Stop ends the run: heartbeats say so, transfers stop where they are and
// resume in the next run.
func (a *Agent) Stop() {
	a.Halt()
	if !a.cfg.Alone && !a.own.displaced() {
		a.outbox.Flush()
		if a.teller != nil {
			a.teller.End()
		}
	}
	a.own.noteLedger()
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
			a.sched.Dispose()
		}
		if a.recv != nil {
			a.recv.Stop()
		}
	})
}

// Reconnected is called when the connection to the queue manager is new.
func (a *Agent) Reconnected() {
	a.lanes.moved()
	a.gate.Refresh()
	if a.storing != nil {
		a.storing.Again()
	}
	a.beatNow()
}

// Name is the agent's name.
func (a *Agent) Name() transfer.AgentName { return a.cfg.Name }

// DrainOutbox passes every record to the log and removes it here. It is for an agent on a network without coordination.
func (a *Agent) DrainOutbox(log outbox.Appender) error {
	return outbox.Drain(a.ledger, a.cfg.Name, log)
}

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
			a.sched.ForgetPeers()
			if err == nil && minutes%60 == 0 {
				err = errors.Join(a.ledger.Forget(Retention), a.calls.RemoveOld(Retention))
			}
			if err != nil {
				a.log.Error("cannot write the ledger", "error", err)
			}
			if a.holds != nil {
				if err := a.holds.pass(); err != nil {
					a.log.Warn("cannot renew or release holds of messages", "error", err)
				}
			}
			t.Reset(time.Minute)
		case <-a.ctx.Done():
			return
		}
	}
}
