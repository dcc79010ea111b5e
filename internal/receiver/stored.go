package receiver

import (
	"log/slog"
	"time"

	"ferry/internal/receiver/entry"
	"ferry/internal/receiver/writing"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Stored delivery (R31). The queue manager's store has the messages of a source, in one subject for each of its epochs.
// The agent reads the epochs, one at a time, and hands each message to Take. Take returns when the transfer's actor has
// handled the message: messages wait only in the store.
//
// A message stays there until all of its data is decided, or is safe and can be resumed by the process that reads the
// next one. The ledger has that as Taken. After a crash the rest of the epoch is read again from there.
//
//	OPEN, the first message   a new epoch: ACCEPT, for a source that receives it
//	chunk messages            each in its turn; one that is ahead of its turn comes again
//	a hole                    RESYNC, until a later epoch is there; this one is removed

// A Store is the agent's operations on the store of its queue manager.
type Store interface {
	// Look makes the agent read the epoch of an OPEN from its source. If nothing of it is stored, the agent hands that
	// OPEN to Absent. It does not block.
	Look(at wire.StoredEpoch, open *wire.Message)
	// Trim reports that the messages of an epoch below a number are needed no more; 0: all of them. It does not block,
	// and the removal may come later.
	Trim(at wire.StoredEpoch, below uint64)
	// Mark returns the name of the store when the agent looked last; "": there is none. known is false before that.
	Mark() (mark string, known bool)
	// Compared reports whether the agent has compared its ledger with coordination's log in this run: by then an older
	// copy of the ledger has another ledger.Mark.
	Compared() bool
}

// A StoredMessage is a message of an epoch, with its number in the store.
type StoredMessage struct {
	wire.StoredEpoch
	Number uint64
	Data   []byte
}

// A Verdict is the result of a stored message.
type Verdict int

const (
	Took   Verdict = iota // it was handled: the next one
	Rewind                // the epoch is to be read again from its first message
	Later                 // the transfer cannot take a message at present
	Spent                 // no message of the epoch is needed any more
)

// A Taking is the verdict on a stored message, with its reason.
type Taking struct {
	Verdict Verdict
	Why     *transfer.Error // of Later
}

const (
	mostAhead       = 512             // most messages before their turn; more are a hole
	mostMarks       = 4096            // taken messages that are tracked one by one
	mostOwed        = 16384           // undelivered outcomes above which no more is taken
	trimEvery       = time.Second     // at most
	holeRepeat      = 2 * time.Second // time until RESYNC about a hole is repeated, doubling
	holeRepeats     = time.Minute
	maxFirstMissing = 4096
)

// A storedDelivery takes the messages of one transfer by stored delivery. It decides the verdict on each, and which
// ones are needed no more.
type storedDelivery struct {
	r       *services
	id      transfer.ID
	from    transfer.AgentName
	log     *slog.Logger
	entry   *entry.Entry
	w       *writing.Writer
	box     *mailbox
	adm     *admission
	ep      *epoch
	contact *contact
	offers  *results
	in      conversation

	storedState
	waits *transfer.Error // why the last epoch ended; nil: no reason of this side
}

// A conversation is the part of an incoming transfer that its stored delivery needs.
type conversation interface {
	// settleInFlight ends the in-flight work before an epoch begins; false: the transfer ends or waits instead.
	settleInFlight() bool
	// nextEpoch replaces the state of the epoch, and closeEpoch ends it.
	nextEpoch()
	closeEpoch()
	// mustWait returns the reason why the transfer cannot have an epoch now.
	mustWait() (*transfer.Error, int)
	// afterMessage acknowledges, and interrupt acts on the results of background work.
	afterMessage()
	interrupt()
	refuse(nonce uint64, err error)
	// receives reports whether the transfer can still get data.
	receives() bool
}

// A storedState is the status of an incoming transfer's epoch in the store.
type storedState struct {
	marks   []storedMark // of messages that were taken but not recorded as taken, oldest first
	top     uint64       // one more than the greatest item that has begun
	ahead   int          // messages before their turn since the last one in turn
	fresh   bool         // no message has come since the epoch was opened
	trimDue time.Time    // zero: no message is to be trimmed
	trimmed time.Time    // last trim
	acked   time.Time    // last ACK

	hole    string    // the gap in the ledger's epoch; empty: none
	holeDue time.Time // when RESYNC is repeated
	backoff time.Duration
}

// A storedMark is a message that was taken, with the data that must be decided or safe before the message is needed no
// more.
type storedMark struct {
	seq, number uint64
	top         uint64 // one more than the greatest item that had begun
	open        bool   // that item had not ended
	offset      int64  // the bytes that had come of it
	last        bool   // it has the number of items
}

// at returns the name of an epoch of the transfer.
func (s *storedDelivery) at(epoch uint32) wire.StoredEpoch {
	return wire.StoredEpoch{From: s.from, To: s.r.cfg.Agent, ID: s.id, Epoch: epoch}
}

// take takes a chunk message.
func (s *storedDelivery) take(p *storedParcel) (Verdict, error) {
	h := p.head
	switch {
	case s.entry.In == nil:
		s.r.reading.markFirstMissing(s.id)
		if s.r.tombstones.may(s.from) { // for a run after this one
			if err := s.entry.Tombstone.MarkFirstMessageMissing(); err != nil {
				return Later, s.entry.Unwritable(err)
			}
		}
		s.r.cfg.Quiet.Dropped(string(s.from), "the stored data has lost its first message", "transfer", s.id)
		return Spent, nil
	case !s.entry.Stored() || s.entry.In.Epoch > p.Epoch || s.entry.In.Epoch == p.Epoch && s.hole != "":
		return Spent, nil
	case s.entry.In.Epoch < p.Epoch:
		return s.headGone(p)
	case h.Seq <= s.entry.In.Taken:
		return Took, nil // its data is safe; only its removal was missing
	case len(s.offers.waiting) > mostOwed:
		return Later, transfer.Errorf(transfer.KindBusy, "%s has yet to hear of %d outcomes", s.from, len(s.offers.waiting))
	}
	if !s.ep.Live {
		if v, err := s.resume(); err != nil || v != Took {
			if v == Later {
				s.waits = transfer.AsError(err) // which the source gets when it asks
			}
			return v, err
		}
	}

	now := s.r.cfg.Clock.Now()
	s.contact.at = now
	s.ep.silentAt = now.Add(sourceSilent)
	fresh := s.fresh
	s.fresh = false
	switch {
	case h.Seq < s.ep.next:
		return Took, nil // a repeat
	case h.Seq > s.ep.next && fresh:
		return Rewind, nil
	case h.Seq > s.ep.next:
		if s.ahead++; s.ahead > mostAhead {
			s.holed("messages are missing in the store")
			return s.verdict()
		}
		return Took, nil // it comes again in its turn
	}

	s.ahead = 0
	if !s.takeMessage(p) {
		s.in.interrupt()
		return s.verdict()
	}
	s.in.afterMessage()
	if s.ep.Ending() {
		s.in.interrupt()
		return s.verdict()
	}
	if s.entry.In.State != transfer.Receiving {
		return Spent, nil
	}
	return Took, nil
}

// takeMessage takes the next message.
func (s *storedDelivery) takeMessage(p *storedParcel) bool {
	frames, err := wire.ParseFrames(p.head, p.Data, wire.Intact(p.Data))
	if err != nil {
		s.log.Warn("stored message rejected", "error", err)
		s.ep.Again = err.Error()
		return false
	}
	if !s.ep.take(s.w, frames, nil) {
		return false
	}

	mark := storedMark{seq: p.head.Seq, number: p.Number}
	for n := range frames {
		if frames[n].Type == wire.FrameLast {
			mark.last = true
		} else {
			s.top = max(s.top, frames[n].Item+1)
		}
	}
	mark.top = s.top
	if item, offset, ok := s.w.Current(); ok && item+1 == mark.top {
		mark.open, mark.offset = true, offset
	}
	if len(s.marks) >= mostMarks { // every second one will do
		half := s.marks[:0]
		for n := 1; n < len(s.marks); n += 2 {
			half = append(half, s.marks[n])
		}
		s.marks = half
	}
	s.marks = append(s.marks, mark)
	return true
}

// verdict returns the verdict on the messages of an epoch that has ended.
func (s *storedDelivery) verdict() (Verdict, error) {
	switch {
	case s.entry.In.State != transfer.Receiving || s.hole != "":
		return Spent, nil
	case s.ep.Live: // interrupt has yet to end the epoch
		return Later, nil
	}
	return Later, s.waits
}

// holed ends the epoch because a message of it is missing, and asks the source for another one.
func (s *storedDelivery) holed(reason string) {
	s.log.Info("RESYNC sent", "error", reason, "epoch", s.entry.In.Epoch, "sequence", s.ep.next)
	if s.ep.Live {
		if !s.in.settleInFlight() {
			return
		}
		s.in.closeEpoch()
		s.r.keepPartial(s.id, s.entry.Items.AnyPoint())
	}
	if err := s.entry.SetLive(false); err != nil {
		s.log.Error("cannot write the ledger", "error", err)
	}
	s.storedState = storedState{hole: reason}
	s.sayHole(s.entry.In.Epoch, reason)
	failpoint.Hit("receiver.after_resync")
}

// sayHole sends RESYNC with the points from which the epoch after this one resumes.
func (s *storedDelivery) sayHole(epoch uint32, reason string) {
	resume, err := s.entry.Resume(s.w.Resumed)
	if err != nil {
		s.log.Error("cannot read the ledger", "error", err)
		return
	}
	s.backoff = min(max(2*s.backoff, holeRepeat), holeRepeats)
	s.holeDue = s.r.cfg.Clock.Now().Add(s.backoff)
	s.r.send(s.from, &wire.Message{Kind: wire.KindResync, Transfer: s.id, Resync: &wire.Resync{Epoch: epoch, Resume: resume, Reason: reason}})
}

// covered returns how many of the taken messages have no data left that a crash would lose.
func (s *storedDelivery) covered() (n int) {
	below := s.entry.In.Decided.Below()
	for k := range s.marks {
		m := &s.marks[k]
		switch {
		case m.last: // the number of items is not in the ledger until all are decided
			return n
		case below >= m.top:
		case m.open && below >= m.top-1 && s.w.SafeTo(m.top-1, m.offset):
		default:
			return n
		}
		n = k + 1
	}
	return n
}

// trim removes the messages that are needed no more from the store. It runs once a second at most, as it costs a synced
// ledger entry, and when the epoch ends.
func (s *storedDelivery) trim(now time.Time, ends bool) {
	if !s.ep.Stored || len(s.marks) == 0 {
		return
	}
	if now.Sub(s.trimmed) < trimEvery && !ends {
		s.trimDue = s.trimmed.Add(trimEvery)
		return
	}
	s.trimDue = time.Time{}
	n := s.covered()
	if n == 0 {
		return
	}

	m := s.marks[n-1]
	if err := s.entry.SetTaken(m.seq); err != nil {
		s.log.Error("cannot write the ledger", "error", err)
		return
	}
	failpoint.Hit("receiver.before_trim")
	s.trimmed = now
	s.marks = append([]storedMark(nil), s.marks[n:]...)
	s.r.cfg.Store.Trim(s.at(s.entry.In.Epoch), m.number+1)
	failpoint.Hit("receiver.after_trim")
}

// drop removes all stored messages of the transfer.
func (s *storedDelivery) drop() {
	if s.entry.Stored() && s.r.cfg.Store != nil {
		s.storedState = storedState{}
		s.r.cfg.Store.Trim(s.at(s.entry.In.Epoch), 0)
	}
}

// heldBack reports whether an ACK can wait. No sender waits for the ACKs of stored messages, which only show progress.
func (s *storedDelivery) heldBack() bool {
	now := s.r.cfg.Clock.Now()
	s.ep.unacked, s.ep.ask = 0, false
	if now.Sub(s.acked) < ackRepeat && s.entry.In.State == transfer.Receiving {
		return true
	}
	s.acked = now
	return false
}
