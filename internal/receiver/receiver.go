// Package receiver is the destination's side of a transfer. It has three layers:
//
//	receiver          the conversation: messages, epochs, slots, credit
//	receiver/writing  frames, files and commit groups
//	receiver/entry    the ledger entry, and the transitions of its state
//
// The conversation hands frames to a writing.Writer, and gets writing.Events back. Both change the entry of their
// transfer through its methods. No layer imports one above it.
//
// Each incoming transfer is an actor: one goroutine (incoming.loop) owns its state and takes its messages in order; a
// second one commits groups of finished files while the loop continues with the next file. Each move of a state is in
// the ledger before it is acted on.
package receiver

import (
	"context"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/receiver/entry"
	"ferry/internal/receiver/writing"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times of the receiver.
const (
	ackSilence       = 50 * time.Millisecond // an ACK after this much silence
	ackRepeat        = time.Second
	resyncRepeat     = time.Second
	sourceSilent     = 10 * time.Second // then another transfer gets the slot
	busySourceSilent = 45 * time.Second // the same, of one transfer while others of its source send
	repeatFirst      = time.Second
	repeatMost       = 4 * time.Second
	waiterExpiry     = writing.WaiterExpiry
	contactEvery     = time.Minute      // the greatest age of the last contact in the ledger
	grace            = 10 * time.Minute // before a run gives up work of an earlier run
	suspectTime      = 10 * time.Second // a transfer that crashes the agent does so sooner
)

// maxActors bounds the transfers that have an actor at once.
const maxActors = 4096

// Messages from the Receiver to its actors. They never go over the wire.
const (
	dropPartials wire.Kind = "drop-partials"
	addressMoved wire.Kind = "address-moved"
)

// A Receiver keeps all incoming transfers of one agent.
type Receiver struct {
	*services
	cancel context.CancelFunc

	mu      sync.Mutex
	sources sourceStates
	actors  map[transfer.ID]*incoming
}

// New makes a Receiver; Recover must be called before the first message.
func New(cfg Config) *Receiver {
	ctx, cancel := context.WithCancel(context.Background())
	if cfg.ItemSlots <= 0 || cfg.ItemSlots > transfer.MaxUndecided {
		cfg.ItemSlots = transfer.MaxUndecided
	}
	if cfg.Quiet == nil {
		cfg.Quiet = quiet.New(cfg.Log, cfg.Clock.Now)
	}

	s := &services{cfg: cfg, ctx: ctx, asking: make(chan struct{}, asksAtOnce), slots: newSlots(cfg.Slots), calls: newRunningPrograms(),
		tombstones: tombstoneCounts{of: map[transfer.AgentName]int{}}, heard: lastHeard{at: map[transfer.AgentName]time.Time{}}, reading: newReading()}
	s.entries = &entry.Entries{Agent: cfg.Agent, Ledger: cfg.Ledger, Note: cfg.Note, Clock: cfg.Clock, Boot: cfg.Boot, Place: cfg.Place, Forget: s.forgetPrograms}
	s.agent = &writing.Agent{Ctx: ctx, Entries: s.entries, Place: cfg.Place, Content: cfg.Content, ItemSlots: writing.NewItemSlots(cfg.ItemSlots), Slots: cfg.Slots,
		May: s.permit, ClearSuspect: s.clearSuspect, Wake: func(id transfer.ID, from transfer.AgentName) { s.wake(&waiter{id: id, from: from}) },
		Unswept: func() { s.unswept.Store(true) }}
	r := &Receiver{services: s, cancel: cancel, sources: newSourceStates(), actors: map[transfer.ID]*incoming{}}
	s.evictPartials = r.dropPartials
	return r
}

// dropPartials makes a waiting transfer drop its partial files.
func (r *Receiver) dropPartials(id transfer.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.actors[id]; a != nil {
		a.box.control(&wire.Message{Kind: dropPartials})
	}
}

// Recover restores every transfer of the ledger: it decides items that were being committed (R21), and offers again the
// outcomes that the source may not have.
func (r *Receiver) Recover() error {
	if err := r.entries.TakeOver(); err != nil {
		return err
	}

	recs, err := r.entries.Unfinished(func(in *ledger.Incoming, silent time.Duration) {
		r.sources.sleeping[in.Request.ID] = sleeper{in.Request.Source, r.cfg.Clock.Now().Add(-silent)}
	})
	if err != nil {
		return err
	}

	for _, rec := range recs {
		if err := r.revive(rec); err != nil {
			return err
		}
	}

	go r.repeatAcks()
	r.unswept.Store(true)
	r.wg.Go(r.sweepLater)
	return nil
}

// revive makes the actor of a transfer in the ledger, at the start.
func (r *Receiver) revive(rec *ledger.Incoming) error {
	i := r.newActor(rec.Request.ID, rec.Request.Source)
	if err := i.adopt(rec); err != nil {
		return err
	}

	if r.cfg.Ledger.Unclean() && rec.Live {
		if err := i.entry.CrashedLive(); err != nil {
			return err
		}
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.start(i)
	return nil
}

// Stop ends all work at once, and waits for its end. The ledger has the state to resume from.
func (r *Receiver) Stop() {
	r.cancel()
	r.wg.Wait()
}

// Running returns how many transfers have an open epoch.
func (r *Receiver) Running() int { return r.slots.taken() }

// Open returns how many transfers are not over here, including those that only wait for the source's last message.
func (r *Receiver) Open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.actors)
}

// Control takes a control message for this side: OPEN, OUTCOMES-ACK, CANCEL.
// It does not block.
func (r *Receiver) Control(m *wire.Message) {
	if reason := r.controlled(m); reason != nil {
		r.cfg.Quiet.Dropped(string(m.From), reason.Text, "kind", m.Kind, "transfer", m.Transfer)
		r.answerBusy(m, reason)
	}
}

// controlled hands a message to its actor, or returns the reason why it cannot.
func (r *Receiver) controlled(m *wire.Message) *transfer.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.actors[m.Transfer]; a != nil {
		if a.from != m.From { // no other agent may change the transfer
			return errTaken
		}
		if m.Kind == wire.KindAlive { // one transfer sends it for all of its source
			r.heard.record(m.From, r.cfg.Clock.Now())
		}
		a.box.control(m)
		return nil
	}

	if m.Kind == wire.KindOutcomesAck || m.Kind == wire.KindAlive || r.ctx.Err() != nil {
		return nil // an unfinished transfer has an actor; the source repeats the rest
	}

	if s, ok := r.sources.sleeping[m.Transfer]; ok && s.from != m.From {
		return errTaken
	}

	if r.full(m.From) || r.sources.leaving[m.Transfer] {
		return errCrowded
	}

	r.startWith(m.Transfer, m.From, m)
	return nil
}

// startWith makes an actor for a transfer that has none, with its first message. r.mu is held.
func (r *Receiver) startWith(id transfer.ID, from transfer.AgentName, m *wire.Message) {
	delete(r.sources.sleeping, id)
	a := r.newActor(id, from)
	a.box.control(m)
	r.start(a)
}

// Reasons why a message has no actor.
var (
	errTaken   = transfer.Errorf(transfer.KindBusy, "another agent has opened a transfer of this ID")
	errCrowded = transfer.Errorf(transfer.KindBusy, "too many transfers of this source are under way, or nothing comes of them")
)

// Live reports whether a transfer of that source has an actor here.
func (r *Receiver) Live(id transfer.ID, from transfer.AgentName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.actors[id]
	return a != nil && a.from == from
}

// Moved reports that direct paths from these sources have lost their address at this end. It tells the sources at once:
// their messages get no answer, not even an error.
func (r *Receiver) Moved(sources []transfer.AgentName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.actors {
		if slices.Contains(sources, a.from) {
			a.box.control(&wire.Message{Kind: addressMoved})
		}
	}
}

// Knows reports whether a transfer is in progress here, or waits for its source.
func (r *Receiver) Knows(id transfer.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, asleep := r.sources.sleeping[id]
	return asleep || r.actors[id] != nil
}

// Chunk takes a chunk message from the lane, and keeps its memory. direct says that it came over the direct lane. It
// does not block; the credit bounds the waiting messages.
func (r *Receiver) Chunk(from transfer.AgentName, data []byte, direct bool) {
	h, err := wire.PeekHeader(data)
	if err != nil {
		r.cfg.Quiet.Dropped(string(from), "chunk message without a valid header", "error", err)
		return
	}

	r.mu.Lock()
	a := r.actors[h.Transfer]
	known := a != nil && a.from == from
	if known {
		r.heard.record(from, r.cfg.Clock.Now())
	} else if s, asleep := r.sources.sleeping[h.Transfer]; asleep && s.from == from && !r.full(from) && r.ctx.Err() == nil {
		r.startWith(h.Transfer, from, newUnexpectedChunk(h))
	}
	r.mu.Unlock()
	if known {
		// Chunk checks the message here, beside the loop, which writes meanwhile, and while the message is still in the
		// processor's cache.
		p := arrivedChunk{m: data, head: h, direct: direct, intact: wire.Intact(data)}
		if s := a.w.Suspects(); s != nil && !s.In(data[wire.HeaderSize:]) {
			p.absent = s
		}
		a.box.chunk(p, r.cfg.MaxChunk)
	}
}

func (r *Receiver) newActor(id transfer.ID, from transfer.AgentName) *incoming {
	return newIncoming(r.services, r.entries.Of(id, from, r.cfg.Log))
}

// start runs an actor; r.mu is held. A defect in one transfer must not end the agent.
func (r *Receiver) start(a *incoming) {
	r.actors[a.id] = a
	r.sources.actors[a.from]++
	r.wg.Go(func() {
		defer r.ended(a)
		defer func() {
			if p := recover(); p != nil {
				a.log.Error("incoming transfer panicked; waiting for its source", "panic", p, "stack", string(debug.Stack()))
				if err := a.entry.Crashed(); err != nil {
					a.log.Error("cannot write the ledger", "error", err)
				}
			}
		}()
		a.loop(r.ctx)
	})
}

func (r *Receiver) ended(a *incoming) {
	if a.sleeps {
		r.sleep(a)
	}
	a.w.Wait()
	a.report()
	a.closeEpoch()
	r.keepPartial(a.id, false)
	r.mu.Lock()
	delete(r.actors, a.id)
	if p := a.box.takeStored(); p != nil {
		p.answer(Later, nil) // its next one begins another actor
	}
	if r.sources.actors[a.from]--; r.sources.actors[a.from] == 0 {
		delete(r.sources.actors, a.from)
	}
	r.mu.Unlock()
}

// repeatAcks repeats ACKs every second for transfers with messages that wait to be taken in. It runs in a goroutine of
// its own: a disk that is slow to sync must not look like a receiver that is gone. It also repeats the ACK of one
// transfer of each source that sends bytes without a complete message: on a slow link a message takes long. Otherwise
// all messages are acknowledged, and a source that has missed an ACK asks.
func (r *Receiver) repeatAcks() {
	t := r.cfg.Clock.NewTimer(ackRepeat)
	defer t.Stop()
	l := ackRepeater{came: r.cfg.Came, before: map[transfer.AgentName]int64{}, said: map[transfer.ID]*wire.Message{}}
	for {
		select {
		case <-t.C():
		case <-r.ctx.Done():
			return
		}
		r.mu.Lock()
		owed := l.due(slices.Collect(maps.Values(r.actors)))
		now := r.cfg.Clock.Now()
		r.heard.forget(now)
		r.mu.Unlock()
		for _, o := range owed {
			r.send(o.to, o.ack)
		}
		t.Reset(ackRepeat)
	}
}
