package receiver

import (
	"time"

	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/receiver/entry"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A taking is an incoming transfer with the methods for stored delivery.
type taking struct{ *incoming }

func (i taking) at() Shelf { return Shelf{i.from, i.id, i.entry.In.Epoch} }

// unshelve handles a stored message, and answers it.
func (i taking) unshelve(p *shelved) {
	if i.entry.In == nil && !loaded(i.incoming) {
		if i.over {
			p.answer(Spent, nil)
		} else {
			p.answer(Later, errCrowded)
		}
		return
	}

	switch {
	case i.entry.In != nil && i.entry.In.State.Final():
		if p.absent {
			i.opened(p.open) // which answers it
		}
		i.over = true
		p.answer(Spent, nil)
	case i.entry.In != nil && (i.entry.In.State == transfer.Decided || i.withdrawn):
		i.offerNew()
		p.answer(Spent, nil)
	case p.absent:
		i.contact.at = i.r.cfg.Clock.Now()
		i.nothingThere(p.open)
		p.answer(Took, nil)
	case p.open != nil:
		p.answer(i.openShelf(p))
	default:
		p.answer(i.takeStored(p))
	}
}

// openShelf takes the OPEN that begins an epoch.
func (i taking) openShelf(p *shelved) (Verdict, error) {
	o := p.open
	switch {
	case i.entry.In != nil && (i.entry.In.Epoch > p.Epoch || i.entry.In.Epoch == p.Epoch && i.shelf.hole != ""):
		return Spent, nil
	case i.entry.In != nil && i.entry.In.Epoch == p.Epoch:
		return Took, nil // read again
	}

	if v, err := i.mayShelve(o, true); err != nil {
		return v, err
	}
	if i.entry.In != nil && !i.rest() {
		return i.atRest()
	}

	if err := i.enter(o, true); err != nil {
		i.r.release(i.id)
		return Later, i.entry.Unwritable(err)
	}
	i.beginShelf(1)
	i.acceptShelf(o)
	failpoint.Hit("receiver.after_accept")
	return Took, nil
}

// mayShelve reports whether a transfer may come in, and makes the ledger entry of a new one. With an error it may not.
// If the message is an OPEN that the source waits for, the source gets the error.
func (i taking) mayShelve(o *wire.Open, slot bool) (Verdict, error) {
	refuse := func(err error) (Verdict, error) {
		i.refuse(o.Nonce, err)
		return Spent, err
	}
	if err := i.entry.Vet(o); err != nil {
		if err == error(entry.ErrAnother) || i.entry.In != nil && i.entry.In.Epoch > 0 && transfer.KindOf(err) != transfer.KindLost {
			i.r.cfg.Quiet.Dropped(string(i.from), "OPEN does not match its transfer", "transfer", i.id, "error", err)
			return Spent, err
		}
		return refuse(err)
	}
	if o.Targets != nil || !o.Request.Stored() || o.Stored == nil {
		return refuse(transfer.Errorf(transfer.KindMalformed, "the OPEN is none of stored delivery"))
	}
	if i.entry.In != nil && !i.entry.In.Request.Stored() {
		return refuse(transfer.Errorf(transfer.KindConflict, "the transfer is known here with another delivery"))
	}
	if i.entry.In != nil {
		if _, err := i.r.admit(i.entry.In.Principal, i.from, i.id); err != nil {
			if transfer.KindOf(err).Waits() {
				return Later, err
			}
			return refuse(err)
		}
	}
	if err := i.pardon(o); err != nil {
		return refuse(err)
	}
	if slot {
		if reason, _ := i.mustWait(); reason != nil {
			return Later, reason
		}
	}
	if i.entry.In != nil {
		return Took, nil
	}
	err := i.mayBegin(o)
	if err == nil {
		err = i.begin(o, transfer.LaneQueue)
	}
	if err != nil {
		i.r.release(i.id)
		i.entry.In = nil
		if transfer.KindOf(err).Waits() {
			return Later, err
		}
		return refuse(err)
	}
	return Took, nil
}

// atRest returns the verdict on a shelf after rest has reported false.
func (i taking) atRest() (Verdict, error) {
	if i.entry.In.State != transfer.Receiving || i.withdrawn {
		return Spent, nil
	}
	return Later, transfer.Errorf(transfer.KindBusy, "%s cannot go on with the transfer yet", i.r.cfg.Agent)
}

// enter records an epoch of the source in the ledger.
func (i taking) enter(o *wire.Open, live bool) error {
	err := i.entry.Enter(o, live)
	if err == nil {
		i.contact.noted = i.r.cfg.Clock.Now()
		i.shelf = shelving{}
	}
	return err
}

// beginShelf opens the epoch at message next.
func (i taking) beginShelf(next uint64) {
	if i.ep.account == nil {
		i.ep.account = i.r.cfg.Pool.Open(flow.RunAhead(i.entry.In.Settings))
	}
	now := i.r.cfg.Clock.Now()
	i.r.keep(i.id, false)
	i.ep.account.NewEpoch()
	i.ep.account.Settle()
	i.box.shut() // to messages that come by another lane
	if i.entry.In.Crashes > 0 {
		i.acquitAt = now.Add(suspectTime)
	}
	i.ep = i.ep.following(now.Add(sourceSilent))
	i.ep.Stored, i.ep.begun, i.ep.next, i.ep.direct = true, true, next, false
	i.shelf.fresh, i.shelf.marks, i.shelf.ahead = true, nil, 0
	i.waits = nil
	i.w.NewEpoch()
	i.lastAck.Store(nil)
}

// acceptShelf sends ACCEPT to the source, which may be away, and names the ledger that has the transfer.
func (i taking) acceptShelf(o *wire.Open) {
	i.r.send(i.from, &wire.Message{Kind: wire.KindAccept, Transfer: i.id, Accept: &wire.Accept{Nonce: o.Nonce, Epoch: o.Stored.Epoch,
		Dest: i.r.cfg.Ledger.IncarnationText(), Settings: i.entry.In.Settings, Lane: transfer.LaneQueue, Instance: i.r.cfg.Instance, Resolution: i.entry.In.Resolution}})
}

// goOnShelf resumes the shelf of the ledger's epoch.
func (i taking) goOnShelf() (Verdict, error) {
	if _, err := i.r.admit(i.entry.In.Principal, i.from, i.id); err != nil {
		return Later, err
	}
	if i.entry.In.Crashes >= maxCrashes {
		return Later, transfer.Errorf(transfer.KindBusy, "%s has crashed %d times on this transfer without progress", i.r.cfg.Agent, i.entry.In.Crashes)
	}
	if reason, _ := i.mustWait(); reason != nil {
		return Later, reason
	}
	if !i.rest() {
		return i.atRest()
	}
	if err := i.entry.SetLive(true); err != nil {
		i.r.release(i.id)
		return Later, i.entry.Unwritable(err)
	}
	i.beginShelf(i.entry.In.Taken + 1)
	return Took, nil
}

// takeStored takes a chunk message.
func (i taking) takeStored(p *shelved) (Verdict, error) {
	h := p.head
	switch {
	case i.entry.In == nil:
		(Desk{i.r}).behead(i.id)
		if i.r.mayEntomb(i.from) { // for a run after this one
			if err := i.entry.Tomb.Behead(); err != nil {
				return Later, i.entry.Unwritable(err)
			}
		}
		i.r.cfg.Quiet.Dropped(string(i.from), "what is stored has lost its first message", "transfer", i.id)
		return Spent, nil
	case !i.entry.Stored() || i.entry.In.Epoch > p.Epoch || i.entry.In.Epoch == p.Epoch && i.shelf.hole != "":
		return Spent, nil
	case i.entry.In.Epoch < p.Epoch:
		return i.headGone(p)
	case h.Seq <= i.entry.In.Taken:
		return Took, nil // its data is safe; only its removal was missing
	case len(i.offers.waiting) > mostOwed:
		return Later, transfer.Errorf(transfer.KindBusy, "%s has yet to hear of %d outcomes", i.from, len(i.offers.waiting))
	}
	if !i.ep.Live {
		if v, err := i.goOnShelf(); err != nil || v != Took {
			if v == Later {
				i.waits = transfer.AsError(err) // which the source gets when it asks
			}
			return v, err
		}
	}

	now := i.r.cfg.Clock.Now()
	i.contact.at = now
	i.ep.silentAt = now.Add(sourceSilent)
	fresh := i.shelf.fresh
	i.shelf.fresh = false
	switch {
	case h.Seq < i.ep.next:
		return Took, nil // a repeat
	case h.Seq > i.ep.next && fresh:
		return Rewind, nil
	case h.Seq > i.ep.next:
		if i.shelf.ahead++; i.shelf.ahead > mostAhead {
			i.holed("messages are missing in the store")
			return i.atHole()
		}
		return Took, nil // it comes again in its turn
	}

	i.shelf.ahead = 0
	if !i.takeMessage(p) {
		i.interrupt()
		return i.atHole()
	}
	i.afterMessage()
	if i.ep.Ending() {
		i.interrupt()
		return i.atHole()
	}
	if i.entry.In.State != transfer.Receiving {
		return Spent, nil
	}
	return Took, nil
}

// atHole returns the verdict on a shelf after its epoch has ended.
func (i taking) atHole() (Verdict, error) {
	switch {
	case i.entry.In.State != transfer.Receiving || i.shelf.hole != "":
		return Spent, nil
	case i.ep.Live: // interrupt has yet to end the epoch
		return Later, nil
	}
	return Later, i.waits
}

// all reports whether this ledger has all of a transfer that was ever taken: it had the agent's name when the first
// epoch was stored, and has not been replaced by an older copy since. An error is of a kind that waits.
func (i taking) all(o *wire.Open) (bool, error) {
	mark, err := ledger.Mark(i.r.cfg.Ledger)
	switch {
	case err != nil:
		return false, i.entry.Unwritable(err)
	case o.Stored.Ledger != mark:
		return false, nil
	case !i.r.cfg.Store.Compared():
		return false, transfer.Errorf(transfer.KindBusy, "%s has yet to compare its ledger with the audit log", i.r.cfg.Agent).
			WithHint("it goes on when coordination is there")
	}
	return true, nil
}

// refuseUnknown answers an OPEN of a transfer without an entry here. The first message of its shelf is missing, or the
// shelf is empty. It reports false if the transfer can begin again, because no part of it was taken.
func (i taking) refuseUnknown(o *wire.Open) bool {
	all, err := i.all(o)
	switch {
	case err != nil:
		i.r.send(i.from, busy(o, i.id, err))
	case !all:
		i.refuse(o.Nonce, i.errBeheaded())
	}
	return !all
}

// mayBegin refuses a transfer without an entry here, if another ledger may have taken some of it: the first message of
// its shelf was missing before, or the source has stored earlier epochs.
func (i taking) mayBegin(o *wire.Open) error {
	headless, err := i.entry.Tomb.Headless()
	if err != nil {
		return i.entry.Unwritable(err)
	}
	if !headless && (o.Stored.Epoch == 1 || o.Stored.Ledger == "") {
		return nil
	}
	all, err := i.all(o)
	switch {
	case err != nil:
		return err
	case !all:
		return i.errBeheaded()
	case !headless:
		return nil
	}
	(Desk{i.r}).restore(i.id)
	if err := i.entry.Tomb.Restore(); err != nil {
		return i.entry.Unwritable(err)
	}
	return nil
}

// headGone handles a shelf of a new epoch that lacks its OPEN.
func (i taking) headGone(p *shelved) (Verdict, error) {
	if i.ep.Live && !i.rest() {
		return i.atRest()
	}
	o := &wire.Open{Nonce: i.entry.In.Nonce, Request: i.entry.In.Request, Stored: &wire.Shelved{Epoch: p.Epoch}}
	if err := i.enter(o, false); err != nil {
		return Later, i.entry.Unwritable(err)
	}
	i.holed("the first message is missing in the store")
	return i.atHole()
}

// covered returns how many of the taken messages have no data left that a crash would lose.
func (i taking) covered() (n int) {
	if failpoint.Planted("stored-acked-early") {
		return len(i.shelf.marks)
	}
	below := i.entry.In.Decided.Below()
	for k := range i.shelf.marks {
		m := &i.shelf.marks[k]
		switch {
		case m.last: // the number of items is not in the ledger until all are decided
			return n
		case below >= m.top:
		case m.open && below >= m.top-1 && i.w.SafeTo(m.top-1, m.offset):
		default:
			return n
		}
		n = k + 1
	}
	return n
}

// trim removes the messages that are needed no more from the shelf. It runs once a second at most, as it costs a synced
// ledger entry, and when the epoch ends.
func (i taking) trim(now time.Time, ends bool) {
	if !i.ep.Stored || len(i.shelf.marks) == 0 {
		return
	}
	if now.Sub(i.shelf.trimmed) < trimEvery && !ends {
		i.shelf.trimDue = i.shelf.trimmed.Add(trimEvery)
		return
	}
	i.shelf.trimDue = time.Time{}
	n := i.covered()
	if n == 0 {
		return
	}

	m := i.shelf.marks[n-1]
	if err := i.entry.Took(m.seq); err != nil {
		i.log.Error("cannot write the ledger", "error", err)
		return
	}
	failpoint.Hit("receiver.before_trim")
	i.shelf.trimmed = now
	i.shelf.marks = append([]shelfMark(nil), i.shelf.marks[n:]...)
	i.r.cfg.Store.Trim(i.at(), m.number+1)
	failpoint.Hit("receiver.after_trim")
}

// openedStored answers an OPEN of a stored transfer that has come by REPLY. The answer is the status of the shelf that
// the OPEN names.
func (i taking) openedStored(o *wire.Open) {
	if i.r.cfg.Store == nil {
		i.refuse(o.Nonce, transfer.Errorf(transfer.KindNotBuilt, "%s takes nothing by stored delivery", i.r.cfg.Agent))
		return
	}
	switch {
	case i.entry.In == nil && (Desk{i.r}).headless(i.id) && i.refuseUnknown(o):
		return
	case i.foreign(o): // or the store was made anew
		i.r.cfg.Store.Look(Shelf{i.from, i.id, o.Stored.Epoch}, &wire.Message{Kind: wire.KindOpen, From: i.from, Transfer: i.id, Open: o})
		return
	}

	at := Shelf{i.from, i.id, o.Stored.Epoch}
	look := func() {
		i.r.cfg.Store.Look(at, &wire.Message{Kind: wire.KindOpen, From: i.from, Transfer: i.id, Open: o})
	}
	if i.entry.In == nil {
		look()
		if o.Stored.Again {
			if o.Stored.Ledger != "" && i.refuseUnknown(o) {
				return
			}
			i.r.send(i.from, &wire.Message{Kind: wire.KindResync, Transfer: i.id, Resync: &wire.Resync{Epoch: o.Stored.Epoch, Reason: "nothing of it has come"}})
			return
		}
		if reason, place := i.mustWait(); reason != nil {
			i.r.send(i.from, busyAt(o, i.id, place, reason))
			return
		}
		i.r.release(i.id)
		return // the contents of the shelf are the answer
	}

	if v, err := i.mayShelve(o, false); err != nil {
		if v == Later {
			i.r.send(i.from, busy(o, i.id, err))
		}
		return
	}
	switch {
	case i.entry.In.Epoch > o.Stored.Epoch || o.Stored.Again || i.entry.In.Epoch == o.Stored.Epoch && i.shelf.hole != "":
		if i.entry.In.Epoch > o.Stored.Epoch { // the source's ledger was restored: it catches up, one epoch after another
			i.sayHole(o.Stored.Epoch, "there was a later epoch")
			return
		}
		if i.entry.In.Epoch < o.Stored.Epoch {
			if i.ep.Live && !i.rest() {
				return
			}
			if err := i.enter(o, false); err != nil {
				i.log.Error("cannot write the ledger", "error", err)
				return
			}
		}
		if i.shelf.hole == "" {
			i.holed("the source has broken off")
		} else {
			i.sayHole(i.entry.In.Epoch, i.shelf.hole)
		}
	case i.waits != nil && !i.ep.Live:
		look()
		i.r.send(i.from, busy(o, i.id, i.waits))
	default:
		i.acceptShelf(o)
		look()
	}
}

// mostForeign is how many OPENs from another store get a wait; then the transfer is refused.
const mostForeign = 3

// foreign reports whether an OPEN names another store than the one that was seen last.
func (i taking) foreign(o *wire.Open) bool {
	mark, known := i.r.cfg.Store.Mark()
	return known && mark != o.Stored.Store
}

// elsewhere answers an OPEN after a look, if the source uses another store.
func (i taking) elsewhere(o *wire.Open) bool {
	if !i.foreign(o) {
		return false
	}
	err := transfer.Errorf(transfer.KindBusy, "%s stores at another queue manager than that of %s, which finds nothing there", i.from, i.r.cfg.Agent).
		WithHint("send it without --delivery stored: between queue managers it needs identities, and that both are Ferry's")
	if (Desk{i.r}).strange(i.id) <= mostForeign {
		i.r.send(i.from, busy(o, i.id, err))
	} else {
		err.Kind = transfer.KindNotBuilt
		i.refuse(o.Nonce, err)
	}
	return true
}

// strange counts the OPENs of a transfer that is stored elsewhere.
func (r Desk) strange(id transfer.ID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.speakers.strange) >= mostHeadless {
		clear(r.speakers.strange)
	}
	r.speakers.strange[id]++
	return r.speakers.strange[id]
}

// nothingThere handles an OPEN with an empty shelf: the messages that the source stored and that have not come are
// lost.
func (i taking) nothingThere(o *wire.Open) {
	if i.elsewhere(o) {
		return
	}
	if i.entry.In == nil {
		if o.Stored.Last == 0 {
			return // more may be on its way
		}
		if i.refuseUnknown(o) {
			return
		}
		v, err := i.mayShelve(o, true)
		if err != nil {
			if v == Later {
				i.r.send(i.from, busy(o, i.id, err))
			}
			return
		}
		i.r.release(i.id)
		if err := i.enter(o, false); err != nil {
			i.log.Error("cannot write the ledger", "error", err)
			return
		}
		i.acceptShelf(o)
	}

	has := i.entry.In.Taken
	if i.ep.Live && i.ep.Stored {
		has = i.ep.next - 1
	}
	switch {
	case i.entry.In.Epoch > o.Stored.Epoch || i.shelf.hole != "" || o.Stored.Last == 0:
	case i.entry.In.Epoch < o.Stored.Epoch:
		if i.ep.Live && !i.rest() {
			return
		}
		if err := i.enter(o, false); err != nil {
			i.log.Error("cannot write the ledger", "error", err)
			return
		}
		i.holed("nothing of it is in the store")
	case has < o.Stored.Last:
		i.holed("the end of it is not in the store")
	}
}

// holed ends the epoch because a message of it is missing, and asks the source for another one.
func (i taking) holed(reason string) {
	i.log.Info("RESYNC sent", "error", reason, "epoch", i.entry.In.Epoch, "sequence", i.ep.next)
	if i.ep.Live {
		if !i.rest() {
			return
		}
		i.closeEpoch()
		i.r.keep(i.id, i.entry.Items.AnyPoint())
	}
	if err := i.entry.SetLive(false); err != nil {
		i.log.Error("cannot write the ledger", "error", err)
	}
	i.shelf = shelving{hole: reason}
	i.sayHole(i.entry.In.Epoch, reason)
	failpoint.Hit("receiver.after_resync")
}

// sayHole sends RESYNC with the points from which the epoch after this one resumes.
func (i taking) sayHole(epoch uint32, reason string) {
	resume, err := i.entry.Resume(i.w.Resumed)
	if err != nil {
		i.log.Error("cannot read the ledger", "error", err)
		return
	}
	i.shelf.backoff = min(max(2*i.shelf.backoff, shelfRepeat), shelfRepeats)
	i.shelf.holeDue = i.r.cfg.Clock.Now().Add(i.shelf.backoff)
	i.r.send(i.from, &wire.Message{Kind: wire.KindResync, Transfer: i.id, Resync: &wire.Resync{Epoch: epoch, Resume: resume, Reason: reason}})
}

// dropShelf removes all stored messages of the transfer.
func (i taking) dropShelf() {
	if i.entry.Stored() && i.r.cfg.Store != nil {
		i.shelf = shelving{}
		i.r.cfg.Store.Trim(i.at(), 0)
	}
}

// heldBack reports whether an ACK can wait. No sender waits for the ACKs of a shelf, which only show progress.
func (i taking) heldBack() bool {
	now := i.r.cfg.Clock.Now()
	i.ep.unacked, i.ep.ask = 0, false
	if now.Sub(i.shelf.acked) < ackRepeat && i.entry.In.State == transfer.Receiving {
		return true
	}
	i.shelf.acked = now
	return false
}
