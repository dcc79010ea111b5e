package receiver

import (
	"log/slog"
	"time"

	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/receiver/entry"
	"ferry/internal/receiver/writing"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	mostAhead    = 512             // most messages before their turn; more are a hole
	mostMarks    = 4096            // taken messages that are tracked one by one
	mostOwed     = 16384           // undelivered outcomes above which no more is taken
	trimEvery    = time.Second     // at most
	shelfRepeat  = 2 * time.Second // time until RESYNC about a hole is repeated, doubling
	shelfRepeats = time.Minute
	mostHeadless = 4096
)

// A shelving takes the messages of one transfer by stored delivery. It decides the verdict on each, and which ones are
// needed no more.
type shelving struct {
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

	shelfState
	waits *transfer.Error // why the last epoch ended; nil: no reason of this side
}

// A conversation is the part of an incoming transfer that its shelf needs.
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

// A shelfState is the status of an incoming transfer's shelf.
type shelfState struct {
	marks   []shelfMark // of messages that were taken but not recorded as taken, oldest first
	top     uint64      // one more than the greatest item that has begun
	ahead   int         // messages before their turn since the last one in turn
	fresh   bool        // no message has come since the shelf was opened
	trimDue time.Time   // zero: no message is to be trimmed
	trimmed time.Time   // last trim
	acked   time.Time   // last ACK

	hole    string    // the gap on the shelf of the ledger's epoch; empty: none
	holeDue time.Time // when RESYNC is repeated
	backoff time.Duration
}

// A shelfMark is a message that was taken, with the data that must be decided or safe before the message is needed no
// more.
type shelfMark struct {
	seq, number uint64
	top         uint64 // one more than the greatest item that had begun
	open        bool   // that item had not ended
	offset      int64  // the bytes that had come of it
	last        bool   // it has the number of items
}

func (s *shelving) at() Shelf { return Shelf{s.from, s.id, s.entry.In.Epoch} }

// open takes the OPEN that begins an epoch.
func (s *shelving) open(p *shelved) (Verdict, error) {
	o := p.open
	switch {
	case s.entry.In != nil && (s.entry.In.Epoch > p.Epoch || s.entry.In.Epoch == p.Epoch && s.hole != ""):
		return Spent, nil
	case s.entry.In != nil && s.entry.In.Epoch == p.Epoch:
		return Took, nil // read again
	}

	if v, err := s.mayShelve(o, true); err != nil {
		return v, err
	}
	if s.entry.In != nil && !s.in.settleInFlight() {
		return s.atRest()
	}

	if err := s.enter(o, true); err != nil {
		s.r.release(s.id)
		return Later, s.entry.Unwritable(err)
	}
	s.beginShelf(1)
	s.acceptShelf(o)
	failpoint.Hit("receiver.after_accept")
	return Took, nil
}

// mayShelve reports whether a transfer may come in, and makes the ledger entry of a new one. With an error it may not.
// If the message is an OPEN that the source waits for, the source gets the error.
func (s *shelving) mayShelve(o *wire.Open, slot bool) (Verdict, error) {
	refuse := func(err error) (Verdict, error) {
		s.in.refuse(o.Nonce, err)
		return Spent, err
	}
	if err := s.entry.CheckOpen(o); err != nil {
		if err == error(entry.ErrContradiction) || s.entry.In != nil && s.entry.In.Epoch > 0 && transfer.KindOf(err) != transfer.KindLost {
			s.r.cfg.Quiet.Dropped(string(s.from), "OPEN does not match its transfer", "transfer", s.id, "error", err)
			return Spent, err
		}
		return refuse(err)
	}
	if o.Targets != nil || !o.Request.Stored() || o.Stored == nil {
		return refuse(transfer.Errorf(transfer.KindMalformed, "the OPEN is none of stored delivery"))
	}
	if s.entry.In != nil && !s.entry.In.Request.Stored() {
		return refuse(transfer.Errorf(transfer.KindConflict, "the transfer is known here with another delivery"))
	}
	if s.entry.In != nil {
		if err := s.adm.recheck(); err != nil {
			if transfer.KindOf(err).Waits() {
				return Later, err
			}
			return refuse(err)
		}
	}
	if err := s.adm.checkCrashes(o); err != nil {
		return refuse(err)
	}
	if slot {
		if reason, _ := s.in.mustWait(); reason != nil {
			return Later, reason
		}
	}
	if s.entry.In != nil {
		return Took, nil
	}
	err := s.mayBegin(o)
	if err == nil {
		err = s.adm.begin(o, transfer.LaneQueue)
	}
	if err != nil {
		s.r.release(s.id)
		s.entry.In = nil
		if transfer.KindOf(err).Waits() {
			return Later, err
		}
		return refuse(err)
	}
	return Took, nil
}

// atRest returns the verdict on a shelf after rest has reported false.
func (s *shelving) atRest() (Verdict, error) {
	if !s.in.receives() {
		return Spent, nil
	}
	return Later, transfer.Errorf(transfer.KindBusy, "%s cannot go on with the transfer yet", s.r.cfg.Agent)
}

// enter records an epoch of the source in the ledger.
func (s *shelving) enter(o *wire.Open, live bool) error {
	err := s.entry.Enter(o, live)
	if err == nil {
		s.contact.noted = s.r.cfg.Clock.Now()
		s.shelfState = shelfState{}
	}
	return err
}

// beginShelf opens the epoch at message next.
func (s *shelving) beginShelf(next uint64) {
	if s.ep.account == nil {
		s.ep.account = s.r.cfg.Pool.Open(flow.RunAhead(s.entry.In.Settings))
	}
	s.r.keepPartial(s.id, false)
	s.ep.account.NewEpoch()
	s.ep.account.Settle()
	s.box.shut() // to messages that come by another lane
	s.in.nextEpoch()
	s.ep.Stored, s.ep.begun, s.ep.next, s.ep.direct = true, true, next, false
	s.fresh, s.marks, s.ahead = true, nil, 0
	s.waits = nil
}

// acceptShelf sends ACCEPT to the source, which may be away, and names the ledger that has the transfer.
func (s *shelving) acceptShelf(o *wire.Open) {
	s.r.send(s.from, &wire.Message{Kind: wire.KindAccept, Transfer: s.id, Accept: &wire.Accept{Nonce: o.Nonce, Epoch: o.Stored.Epoch,
		Dest: s.r.cfg.Ledger.IncarnationText(), Settings: s.entry.In.Settings, Lane: transfer.LaneQueue, Instance: s.r.cfg.Instance, Resolution: s.entry.In.Resolution}})
}

// goOnShelf resumes the shelf of the ledger's epoch.
func (s *shelving) goOnShelf() (Verdict, error) {
	if err := s.adm.recheck(); err != nil {
		return Later, err
	}
	if s.entry.In.Crashes >= maxCrashes {
		return Later, transfer.Errorf(transfer.KindBusy, "%s has crashed %d times on this transfer without progress", s.r.cfg.Agent, s.entry.In.Crashes)
	}
	if reason, _ := s.in.mustWait(); reason != nil {
		return Later, reason
	}
	if !s.in.settleInFlight() {
		return s.atRest()
	}
	if err := s.entry.SetLive(true); err != nil {
		s.r.release(s.id)
		return Later, s.entry.Unwritable(err)
	}
	s.beginShelf(s.entry.In.Taken + 1)
	return Took, nil
}

// take takes a chunk message.
func (s *shelving) take(p *shelved) (Verdict, error) {
	h := p.head
	switch {
	case s.entry.In == nil:
		s.r.shelves.behead(s.id)
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
		if v, err := s.goOnShelf(); err != nil || v != Took {
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
			return s.atHole()
		}
		return Took, nil // it comes again in its turn
	}

	s.ahead = 0
	if !s.takeMessage(p) {
		s.in.interrupt()
		return s.atHole()
	}
	s.in.afterMessage()
	if s.ep.Ending() {
		s.in.interrupt()
		return s.atHole()
	}
	if s.entry.In.State != transfer.Receiving {
		return Spent, nil
	}
	return Took, nil
}

// takeMessage takes the next message.
func (s *shelving) takeMessage(p *shelved) bool {
	frames, err := wire.ParseFrames(p.head, p.Data, wire.Intact(p.Data))
	if err != nil {
		s.log.Warn("stored message rejected", "error", err)
		s.ep.Again = err.Error()
		return false
	}

	mark := shelfMark{seq: p.head.Seq, number: p.Number}
	for n := range frames {
		f := &frames[n]
		if f.Type == wire.FrameBegin || f.Type == wire.FrameFail {
			s.w.AwaitItem(f.Item)
		}
		if !s.w.Write(f, nil) {
			return false
		}
		cost := f.Cost(flow.BeginCost)
		s.ep.account.Use(cost)
		s.ep.unacked += cost
		if mark.last = mark.last || f.Type == wire.FrameLast; f.Type != wire.FrameLast {
			s.top = max(s.top, f.Item+1)
		}
	}

	s.ep.next++
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

// atHole returns the verdict on a shelf after its epoch has ended.
func (s *shelving) atHole() (Verdict, error) {
	switch {
	case s.entry.In.State != transfer.Receiving || s.hole != "":
		return Spent, nil
	case s.ep.Live: // interrupt has yet to end the epoch
		return Later, nil
	}
	return Later, s.waits
}

// all reports whether this ledger has all of a transfer that was ever taken: it had the agent's name when the first
// epoch was stored, and has not been replaced by an older copy since. An error is of a kind that waits.
func (s *shelving) all(o *wire.Open) (bool, error) {
	mark, err := ledger.Mark(s.r.cfg.Ledger)
	switch {
	case err != nil:
		return false, s.entry.Unwritable(err)
	case o.Stored.Ledger != mark:
		return false, nil
	case !s.r.cfg.Store.Compared():
		return false, transfer.Errorf(transfer.KindBusy, "%s has yet to compare its ledger with the audit log", s.r.cfg.Agent).
			WithHint("it goes on when coordination is there")
	}
	return true, nil
}

// refuseUnknown answers an OPEN of a transfer without an entry here. The first message of its shelf is missing, or the
// shelf is empty. It reports false if the transfer can begin again, because no part of it was taken.
func (s *shelving) refuseUnknown(o *wire.Open) bool {
	all, err := s.all(o)
	switch {
	case err != nil:
		s.r.send(s.from, busy(o, s.id, err))
	case !all:
		s.in.refuse(o.Nonce, s.errBeheaded())
	}
	return !all
}

// mayBegin refuses a transfer without an entry here, if another ledger may have taken some of it: the first message of
// its shelf was missing before, or the source has stored earlier epochs.
func (s *shelving) mayBegin(o *wire.Open) error {
	headless, err := s.entry.Tombstone.FirstMessageMissing()
	if err != nil {
		return s.entry.Unwritable(err)
	}
	if !headless && (o.Stored.Epoch == 1 || o.Stored.Ledger == "") {
		return nil
	}
	all, err := s.all(o)
	switch {
	case err != nil:
		return err
	case !all:
		return s.errBeheaded()
	case !headless:
		return nil
	}
	s.r.shelves.restore(s.id)
	if err := s.entry.Tombstone.UnmarkFirstMessageMissing(); err != nil {
		return s.entry.Unwritable(err)
	}
	return nil
}

// headGone handles a shelf of a new epoch that lacks its OPEN.
func (s *shelving) headGone(p *shelved) (Verdict, error) {
	if s.ep.Live && !s.in.settleInFlight() {
		return s.atRest()
	}
	o := &wire.Open{Nonce: s.entry.In.Nonce, Request: s.entry.In.Request, Stored: &wire.Shelved{Epoch: p.Epoch}}
	if err := s.enter(o, false); err != nil {
		return Later, s.entry.Unwritable(err)
	}
	s.holed("the first message is missing in the store")
	return s.atHole()
}

// covered returns how many of the taken messages have no data left that a crash would lose.
func (s *shelving) covered() (n int) {
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

// trim removes the messages that are needed no more from the shelf. It runs once a second at most, as it costs a synced
// ledger entry, and when the epoch ends.
func (s *shelving) trim(now time.Time, ends bool) {
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
	s.marks = append([]shelfMark(nil), s.marks[n:]...)
	s.r.cfg.Store.Trim(s.at(), m.number+1)
	failpoint.Hit("receiver.after_trim")
}

// asked answers an OPEN of a stored transfer that has come by REPLY. The answer is the status of the shelf that the
// OPEN names.
func (s *shelving) asked(o *wire.Open) {
	if s.r.cfg.Store == nil {
		s.in.refuse(o.Nonce, transfer.Errorf(transfer.KindNotBuilt, "%s takes nothing by stored delivery", s.r.cfg.Agent))
		return
	}
	switch {
	case s.entry.In == nil && s.r.shelves.headless(s.id) && s.refuseUnknown(o):
		return
	case s.foreign(o): // or the store was made anew
		s.r.cfg.Store.Look(Shelf{s.from, s.id, o.Stored.Epoch}, &wire.Message{Kind: wire.KindOpen, From: s.from, Transfer: s.id, Open: o})
		return
	}

	at := Shelf{s.from, s.id, o.Stored.Epoch}
	look := func() {
		s.r.cfg.Store.Look(at, &wire.Message{Kind: wire.KindOpen, From: s.from, Transfer: s.id, Open: o})
	}
	if s.entry.In == nil {
		look()
		if o.Stored.Again {
			if o.Stored.Ledger != "" && s.refuseUnknown(o) {
				return
			}
			s.r.send(s.from, &wire.Message{Kind: wire.KindResync, Transfer: s.id, Resync: &wire.Resync{Epoch: o.Stored.Epoch, Reason: "nothing of it has come"}})
			return
		}
		if reason, place := s.in.mustWait(); reason != nil {
			s.r.send(s.from, busyAt(o, s.id, place, reason))
			return
		}
		s.r.release(s.id)
		return // the contents of the shelf are the answer
	}

	if v, err := s.mayShelve(o, false); err != nil {
		if v == Later {
			s.r.send(s.from, busy(o, s.id, err))
		}
		return
	}
	switch {
	case s.entry.In.Epoch > o.Stored.Epoch || o.Stored.Again || s.entry.In.Epoch == o.Stored.Epoch && s.hole != "":
		if s.entry.In.Epoch > o.Stored.Epoch { // the source's ledger was restored: it catches up, one epoch after another
			s.sayHole(o.Stored.Epoch, "there was a later epoch")
			return
		}
		if s.entry.In.Epoch < o.Stored.Epoch {
			if s.ep.Live && !s.in.settleInFlight() {
				return
			}
			if err := s.enter(o, false); err != nil {
				s.log.Error("cannot write the ledger", "error", err)
				return
			}
		}
		if s.hole == "" {
			s.holed("the source has broken off")
		} else {
			s.sayHole(s.entry.In.Epoch, s.hole)
		}
	case s.waits != nil && !s.ep.Live:
		look()
		s.r.send(s.from, busy(o, s.id, s.waits))
	default:
		s.acceptShelf(o)
		look()
	}
}

// mostForeign is how many OPENs from another store get a wait; then the transfer is refused.
const mostForeign = 3

// foreign reports whether an OPEN names another store than the one that was seen last.
func (s *shelving) foreign(o *wire.Open) bool {
	mark, known := s.r.cfg.Store.Mark()
	return known && mark != o.Stored.Store
}

// elsewhere answers an OPEN after a look, if the source uses another store.
func (s *shelving) elsewhere(o *wire.Open) bool {
	if !s.foreign(o) {
		return false
	}
	err := transfer.Errorf(transfer.KindBusy, "%s stores at another queue manager than that of %s, which finds nothing there", s.from, s.r.cfg.Agent).
		WithHint("send it without --delivery stored: between queue managers it needs identities, and that both are Ferry's")
	if s.r.shelves.foreign(s.id) <= mostForeign {
		s.r.send(s.from, busy(o, s.id, err))
	} else {
		err.Kind = transfer.KindNotBuilt
		s.in.refuse(o.Nonce, err)
	}
	return true
}

// nothingThere handles an OPEN with an empty shelf: the messages that the source stored and that have not come are
// lost.
func (s *shelving) nothingThere(o *wire.Open) {
	if s.elsewhere(o) {
		return
	}
	if s.entry.In == nil {
		if o.Stored.Last == 0 {
			return // more may be on its way
		}
		if s.refuseUnknown(o) {
			return
		}
		v, err := s.mayShelve(o, true)
		if err != nil {
			if v == Later {
				s.r.send(s.from, busy(o, s.id, err))
			}
			return
		}
		s.r.release(s.id)
		if err := s.enter(o, false); err != nil {
			s.log.Error("cannot write the ledger", "error", err)
			return
		}
		s.acceptShelf(o)
	}

	has := s.entry.In.Taken
	if s.ep.Live && s.ep.Stored {
		has = s.ep.next - 1
	}
	switch {
	case s.entry.In.Epoch > o.Stored.Epoch || s.hole != "" || o.Stored.Last == 0:
	case s.entry.In.Epoch < o.Stored.Epoch:
		if s.ep.Live && !s.in.settleInFlight() {
			return
		}
		if err := s.enter(o, false); err != nil {
			s.log.Error("cannot write the ledger", "error", err)
			return
		}
		s.holed("nothing of it is in the store")
	case has < o.Stored.Last:
		s.holed("the end of it is not in the store")
	}
}

// holed ends the epoch because a message of it is missing, and asks the source for another one.
func (s *shelving) holed(reason string) {
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
	s.shelfState = shelfState{hole: reason}
	s.sayHole(s.entry.In.Epoch, reason)
	failpoint.Hit("receiver.after_resync")
}

// sayHole sends RESYNC with the points from which the epoch after this one resumes.
func (s *shelving) sayHole(epoch uint32, reason string) {
	resume, err := s.entry.Resume(s.w.Resumed)
	if err != nil {
		s.log.Error("cannot read the ledger", "error", err)
		return
	}
	s.backoff = min(max(2*s.backoff, shelfRepeat), shelfRepeats)
	s.holeDue = s.r.cfg.Clock.Now().Add(s.backoff)
	s.r.send(s.from, &wire.Message{Kind: wire.KindResync, Transfer: s.id, Resync: &wire.Resync{Epoch: epoch, Resume: resume, Reason: reason}})
}

// dropShelf removes all stored messages of the transfer.
func (s *shelving) dropShelf() {
	if s.entry.Stored() && s.r.cfg.Store != nil {
		s.shelfState = shelfState{}
		s.r.cfg.Store.Trim(s.at(), 0)
	}
}

// heldBack reports whether an ACK can wait. No sender waits for the ACKs of a shelf, which only show progress.
func (s *shelving) heldBack() bool {
	now := s.r.cfg.Clock.Now()
	s.ep.unacked, s.ep.ask = 0, false
	if now.Sub(s.acked) < ackRepeat && s.entry.In.State == transfer.Receiving {
		return true
	}
	s.acked = now
	return false
}

// errBeheaded refuses a transfer that an earlier ledger has partly taken.
func (s *shelving) errBeheaded() *transfer.Error {
	return transfer.Errorf(transfer.KindLost, "%s has no record of the transfer, and some of the data stored for it has been taken", s.r.cfg.Agent)
}
