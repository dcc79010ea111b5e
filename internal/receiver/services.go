package receiver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/receiver/entry"
	"ferry/internal/receiver/writing"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// services are the parts of a Receiver that all its transfers use. They know no transfer's state.
type services struct {
	cfg     Config
	ctx     context.Context
	wg      sync.WaitGroup
	entries *entry.Entries
	agent   *writing.Agent
	unswept atomic.Bool   // there may be unswept entries
	asking  chan struct{} // a token for each question to a source

	slots      *slots
	calls      runningPrograms
	denied     quiet.Gate // transfers that were refused for a missing authority, in the audit
	tombstones tombstoneCounts
	heard      lastHeard
	reading    reading

	evictPartials func(transfer.ID) // a waiting transfer is to drop its partial files
}

func (r *services) send(to transfer.AgentName, m *wire.Message) {
	c := *m // another goroutine may send the same message
	c.From = r.cfg.Agent
	if err := r.cfg.Link.Send(to, &c); err != nil {
		r.cfg.Log.Debug("cannot send message; will retry", "kind", m.Kind, "to", to, "error", err)
	}
}

// permit returns the rights of a principal here; nil: every right.
func (r *services) permit(principal string) place.Permit {
	if r.cfg.May == nil {
		return nil
	}
	return r.cfg.May(principal)
}

// admit checks whether a transfer may come at all.
func (r *services) admit(principal string, from transfer.AgentName, id transfer.ID) (rules string, err error) {
	if r.cfg.Admit == nil {
		return "", nil
	}
	return r.cfg.Admit(principal, from, id)
}

// noteDenied records in the audit that a transfer was refused, once a minute at most. The record has the number of
// refusals before it that have no record of their own.
func (r *services) noteDenied(id transfer.ID, from transfer.AgentName, principal string, why error) {
	held, ok := r.denied.Pass(r.cfg.Clock.Now())
	if !ok {
		return
	}
	if err := r.entries.NoteRefused(id, from, principal, why, held); err != nil {
		r.cfg.Log.Error("cannot record a transfer that was refused", "transfer", id, "error", err)
	}
}

// forgetPrograms forgets the programs of a transfer that is over.
func (r *services) forgetPrograms(t *ledger.Tx, q *transfer.Request) error {
	if r.cfg.Programs == nil || !r.cfg.runs(q, transfer.PreDest) && !r.cfg.runs(q, transfer.PostDest) {
		return nil
	}
	return r.cfg.Programs.Forget(t, q, true)
}

// clearSuspect clears a transfer that has made progress without a crash.
func (r *services) clearSuspect(id transfer.ID) { r.wake(r.slots.clearSuspect(id)) }

// release gives a slot back and wakes the transfers that are next, so that they ask again.
func (r *services) release(id transfer.ID) {
	had, next := r.slots.release(id)
	if had {
		r.cfg.Changed()
	}
	for _, w := range next {
		r.wake(w)
	}
}

// wake makes a transfer that waits ask again at once.
func (r *services) wake(w *waiter) {
	if w != nil {
		r.send(w.from, &wire.Message{Kind: wire.KindBusy, Transfer: w.id,
			Busy: &wire.Busy{Reason: transfer.Errorf(transfer.KindBusy, "a slot at %s is free", r.cfg.Agent)}})
	}
}

// keepPartial records whether a waiting transfer has a partial file. If there are too many, the youngest transfer drops
// its own.
func (r *services) keepPartial(id transfer.ID, has bool) {
	youngest, givesWay := r.slots.keepPartial(id, has)
	if givesWay {
		r.evictPartials(youngest)
	}
}

// answerBusy answers an OPEN that finds no room; other messages are repeated.
func (r *services) answerBusy(m *wire.Message, reason *transfer.Error) {
	if m.Kind == wire.KindOpen {
		r.send(m.From, busyAt(m.Open, m.Transfer, maxActors, reason))
	}
}

// ask asks a source for the status of a transfer, and says a message if the transfer is over there. acked is the number
// of outcomes that the source has acknowledged. If enough other transfers ask, it must be called again later.
//
// A source that has fewer outcomes than it has acknowledged runs on an older copy of its ledger. Its answer is to a
// question of this moment, so that no delayed message decides this.
func (r *services) ask(from transfer.AgentName, id transfer.ID, acked uint64, receiving bool, say func(*wire.Message)) {
	select {
	case r.asking <- struct{}{}:
	default:
		return
	}
	r.wg.Go(func() {
		defer func() { <-r.asking }()
		p, err := r.cfg.Over(r.ctx, from, id)
		switch {
		case transfer.KindOf(err) == transfer.KindNotFound: // it was in the source's ledger before OPEN was sent
			say(&wire.Message{Kind: sourceLost, Refuse: &wire.Refuse{Error: transfer.Errorf(transfer.KindLost,
				"%s has lost the ledger of the transfer, or runs on an older copy of it", from).
				WithHint("look at the destination, then submit the missing files as a new transfer")}})
		case err != nil:
		case p.State.Final() && p.Reason != nil && p.Reason.Kind == transfer.KindLost:
			say(&wire.Message{Kind: sourceLost, Refuse: &wire.Refuse{Error: p.Reason}})
		case !p.State.Final() && p.Items < acked:
			say(&wire.Message{Kind: sourceLost, Refuse: &wire.Refuse{Error: transfer.Errorf(transfer.KindLost,
				"%s runs on an older copy of its ledger: it has fewer outcomes of the transfer than it has acknowledged", from)}})
		case p.State.Final() && receiving:
			say(&wire.Message{Kind: sourceOver})
		}
	})
}

// busy answers an OPEN with a reason to wait.
func busy(o *wire.Open, id transfer.ID, why error) *wire.Message { return busyAt(o, id, 1, why) }

// busyAt returns a BUSY with a place in the queue. The source takes it as the answer to the OPEN with the nonce.
func busyAt(o *wire.Open, id transfer.ID, place int, why error) *wire.Message {
	return &wire.Message{Kind: wire.KindBusy, Transfer: id, Busy: &wire.Busy{Nonce: o.Nonce, Place: place, Reason: transfer.AsError(why)}}
}

// tombstoneCounts count the tombstones that a run makes for each source.
type tombstoneCounts struct {
	mu sync.Mutex
	of map[transfer.AgentName]int
}

// may counts a tombstone of a source, and reports whether the source may have one more.
func (t *tombstoneCounts) may(from transfer.AgentName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.of) > maxActors {
		clear(t.of)
	}
	t.of[from]++
	return t.of[from] <= maxTombstones
}

// lastHeard is the last chunk message or ALIVE of each source.
type lastHeard struct {
	mu sync.Mutex
	at map[transfer.AgentName]time.Time
}

// record records a message.
func (h *lastHeard) record(from transfer.AgentName, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at[from] = now
}

// isSending reports whether a chunk message or ALIVE of any of the source's transfers came less than sourceSilent ago.
func (h *lastHeard) isSending(from transfer.AgentName, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.at[from]
	return ok && now.Sub(at) < sourceSilent
}

// forget forgets the sources that have been silent for long.
func (h *lastHeard) forget(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for from, at := range h.at {
		if now.Sub(at) > busySourceSilent {
			delete(h.at, from)
		}
	}
}

// reading is the stored epochs of all transfers, as their reader and the messages report them.
type reading struct {
	mu           sync.Mutex
	at           map[transfer.ID]time.Time // of transfers with an epoch that is being read: last report of the reader
	firstMissing map[transfer.ID]bool      // the first message of their epoch is missing
	otherStore   map[transfer.ID]int       // OPENs that named another store
}

func newReading() reading {
	return reading{at: map[transfer.ID]time.Time{}, firstMissing: map[transfer.ID]bool{}, otherStore: map[transfer.ID]int{}}
}

// read records the epochs that are being read.
func (s *reading) read(epochs []wire.StoredEpoch, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.at)
	for _, at := range epochs {
		s.at[at.ID] = now
	}
}

// comes reports whether the epoch of a transfer was read a short while ago.
func (s *reading) comes(id transfer.ID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.at[id]
	return ok && now.Sub(at) < sourceSilent
}

// markFirstMissing records that a transfer without an entry here has a stored epoch without its first message: the
// queue manager has lost it, or an earlier ledger has taken it (R35).
func (s *reading) markFirstMissing(id transfer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.firstMissing) >= maxFirstMissing {
		clear(s.firstMissing)
	}
	s.firstMissing[id] = true
}

// unmarkFirstMissing removes that record.
func (s *reading) unmarkFirstMissing(id transfer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.firstMissing, id)
}

func (s *reading) isFirstMissing(id transfer.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.firstMissing[id]
}

// foreign counts the OPENs of a transfer that is stored elsewhere.
func (s *reading) foreign(id transfer.ID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.otherStore) >= maxFirstMissing {
		clear(s.otherStore)
	}
	s.otherStore[id]++
	return s.otherStore[id]
}
