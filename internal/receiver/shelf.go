package receiver

import (
	"io"
	"time"

	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A taking is an incoming transfer with the methods for stored delivery.
type taking struct{ *incoming }

func (i taking) at() Shelf { return Shelf{i.from, i.id, i.rec.Epoch} }

// isStored reports whether the transfer comes through the store.
func (rc *record) isStored() bool { return rc.rec != nil && rc.rec.Request.Stored() }

// unshelve handles a stored message, and answers it.
func (i taking) unshelve(p *shelved) {
	if i.rec == nil && !loaded(i.incoming) {
		if i.over {
			p.answer(Spent, nil)
		} else {
			p.answer(Later, errCrowded)
		}
		return
	}

	switch {
	case i.rec != nil && i.rec.State.Final():
		if p.absent {
			i.opened(p.open) // which answers it
		}
		i.over = true
		p.answer(Spent, nil)
	case i.rec != nil && (i.rec.State == transfer.Decided || i.withdrawn):
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
	case i.rec != nil && (i.rec.Epoch > p.Epoch || i.rec.Epoch == p.Epoch && i.shelf.hole != ""):
		return Spent, nil
	case i.rec != nil && i.rec.Epoch == p.Epoch:
		return Took, nil // read again
	}

	if v, err := i.mayShelve(o, true); err != nil {
		return v, err
	}
	if i.rec != nil && !i.rest() {
		return i.atRest()
	}

	if err := i.enter(o, true); err != nil {
		i.r.release(i.id)
		return Later, i.unwritable(err)
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
	if err := i.vet(o); err != nil {
		if err == error(errAnother) || i.rec != nil && i.rec.Epoch > 0 && transfer.KindOf(err) != transfer.KindLost {
			i.r.cfg.Quiet.Dropped(string(i.from), "OPEN does not match its transfer", "transfer", i.id, "error", err)
			return Spent, err
		}
		return refuse(err)
	}
	if o.Targets != nil || !o.Request.Stored() || o.Stored == nil {
		return refuse(transfer.Errorf(transfer.KindMalformed, "the OPEN is none of stored delivery"))
	}
	if i.rec != nil && !i.rec.Request.Stored() {
		return refuse(transfer.Errorf(transfer.KindConflict, "the transfer is known here with another delivery"))
	}
	if i.rec != nil {
		if _, err := i.r.admit(i.rec.Principal, i.from, i.id); err != nil {
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
	if i.rec != nil {
		return Took, nil
	}
	err := i.mayBegin(o)
	if err == nil {
		err = i.begin(o, transfer.LaneQueue)
	}
	if err != nil {
		i.r.release(i.id)
		i.rec = nil
		if transfer.KindOf(err).Waits() {
			return Later, err
		}
		return refuse(err)
	}
	return Took, nil
}

// atRest returns the verdict on a shelf after rest has reported false.
func (i taking) atRest() (Verdict, error) {
	if i.rec.State != transfer.Receiving || i.withdrawn {
		return Spent, nil
	}
	return Later, transfer.Errorf(transfer.KindBusy, "%s cannot go on with the transfer yet", i.r.cfg.Agent)
}

// enter records an epoch of the source in the ledger.
func (i taking) enter(o *wire.Open, live bool) error {
	err := i.update(func(t *ledger.Tx, rec *ledger.Incoming) error {
		rec.Epoch, rec.Taken, rec.Live = o.Stored.Epoch, 0, live
		rec.Nonce = max(rec.Nonce, o.Nonce)
		rec.Request.Recovery = o.Request.Recovery
		i.r.heard(t, rec)
		return nil
	})
	if err == nil {
		i.contact.noted = i.r.cfg.Clock.Now()
		i.shelf = shelving{}
	}
	failpoint.Hit("receiver.after_epoch")
	return err
}

// beginShelf opens the epoch at message next.
func (i taking) beginShelf(next uint64) {
	if i.ep.account == nil {
		i.ep.account = i.r.cfg.Pool.Open(flow.RunAhead(i.rec.Settings))
	}
	now := i.r.cfg.Clock.Now()
	i.r.keep(i.id, false)
	i.ep.account.NewEpoch()
	i.ep.account.Settle()
	i.box.shut() // to messages that come by another lane
	if i.rec.Crashes > 0 {
		i.acquitAt = now.Add(suspectTime)
	}
	i.ep = i.ep.following(now.Add(sourceSilent))
	i.ep.shelved, i.ep.begun, i.ep.next, i.ep.direct = true, true, next, false
	i.shelf.fresh, i.shelf.marks, i.shelf.ahead = true, nil, 0
	i.waits = nil
	i.w.total = nil
	i.lastAck.Store(nil)
}

// acceptShelf sends ACCEPT to the source, which may be away, and names the ledger that has the transfer.
func (i taking) acceptShelf(o *wire.Open) {
	i.r.send(i.from, &wire.Message{Kind: wire.KindAccept, Transfer: i.id, Accept: &wire.Accept{Nonce: o.Nonce, Epoch: o.Stored.Epoch,
		Dest: i.r.cfg.Ledger.IncarnationText(), Settings: i.rec.Settings, Lane: transfer.LaneQueue, Instance: i.r.cfg.Instance, Resolution: i.rec.Resolution}})
}

// goOnShelf resumes the shelf of the ledger's epoch.
func (i taking) goOnShelf() (Verdict, error) {
	if _, err := i.r.admit(i.rec.Principal, i.from, i.id); err != nil {
		return Later, err
	}
	if i.rec.Crashes >= maxCrashes {
		return Later, transfer.Errorf(transfer.KindBusy, "%s has crashed %d times on this transfer without progress", i.r.cfg.Agent, i.rec.Crashes)
	}
	if reason, _ := i.mustWait(); reason != nil {
		return Later, reason
	}
	if !i.rest() {
		return i.atRest()
	}
	if err := i.update(func(t *ledger.Tx, rec *ledger.Incoming) error {
		rec.Live = true
		return nil
	}); err != nil {
		i.r.release(i.id)
		return Later, i.unwritable(err)
	}
	i.beginShelf(i.rec.Taken + 1)
	return Took, nil
}

// takeStored takes a chunk message.
func (i taking) takeStored(p *shelved) (Verdict, error) {
	h := p.head
	switch {
	case i.rec == nil:
		(Desk{i.r}).behead(i.id)
		if i.r.mayEntomb(i.from) { // for a run after this one
			if err := i.r.cfg.Ledger.Update(func(t *ledger.Tx) error { return ledger.Behead(t, i.id, i.from) }); err != nil {
				return Later, i.unwritable(err)
			}
		}
		i.r.cfg.Quiet.Dropped(string(i.from), "the stored data has lost its first message", "transfer", i.id)
		return Spent, nil
	case !i.isStored() || i.rec.Epoch > p.Epoch || i.rec.Epoch == p.Epoch && i.shelf.hole != "":
		return Spent, nil
	case i.rec.Epoch < p.Epoch:
		return i.headGone(p)
	case h.Seq <= i.rec.Taken:
		return Took, nil // its data is safe; only its removal was missing
	case len(i.com.offers.waiting) > mostOwed:
		return Later, transfer.Errorf(transfer.KindBusy, "%s has yet to hear of %d outcomes", i.from, len(i.com.offers.waiting))
	}
	if !i.ep.live {
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
	if i.ep.ending() {
		i.interrupt()
		return i.atHole()
	}
	if i.rec.State != transfer.Receiving {
		return Spent, nil
	}
	return Took, nil
}

// atHole returns the verdict on a shelf after its epoch has ended.
func (i taking) atHole() (Verdict, error) {
	switch {
	case i.rec.State != transfer.Receiving || i.shelf.hole != "":
		return Spent, nil
	case i.ep.live: // interrupt has yet to end the epoch
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
		return false, i.unwritable(err)
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
	headless := false
	err := i.r.cfg.Ledger.View(func(t *ledger.Tx) (err error) {
		headless, err = ledger.Headless(t, i.id, i.from)
		return err
	})
	if err != nil {
		return i.unwritable(err)
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
	if err := i.r.cfg.Ledger.Update(func(t *ledger.Tx) error { return ledger.Restore(t, i.id, i.from) }); err != nil {
		return i.unwritable(err)
	}
	return nil
}

// headGone handles a shelf of a new epoch that lacks its OPEN.
func (i taking) headGone(p *shelved) (Verdict, error) {
	if i.ep.live && !i.rest() {
		return i.atRest()
	}
	o := &wire.Open{Nonce: i.rec.Nonce, Request: i.rec.Request, Stored: &wire.Shelved{Epoch: p.Epoch}}
	if err := i.enter(o, false); err != nil {
		return Later, i.unwritable(err)
	}
	i.holed("the first message is missing in the store")
	return i.atHole()
}

// covered returns how many of the taken messages have no data left that a crash would lose.
func (i taking) covered() (n int) {
	if failpoint.Planted("stored-acked-early") {
		return len(i.shelf.marks)
	}
	below := i.rec.Decided.Below()
	for k := range i.shelf.marks {
		m := &i.shelf.marks[k]
		switch {
		case m.last: // the number of items is not in the ledger until all are decided
			return n
		case below >= m.top:
		case m.open && below >= m.top-1 && i.safeTo(m.top-1, m.offset):
		default:
			return n
		}
		n = k + 1
	}
	return n
}

// safeTo reports whether a process with the ledger alone can resume an item at an offset, or beyond.
func (i taking) safeTo(item uint64, offset int64) bool {
	c := i.w.files.of(item)
	if c == nil && offset > 0 { // the epoch has just ended
		pt, err := i.point(item)
		return err == nil && pt != nil && pt.Source >= offset && !pt.NoReadBack && len(pt.Begin) > 0
	}
	if c == nil || offset == 0 || c.safe < offset || c.conv != nil || c.run.Rebased() {
		return false
	}
	_, readable := c.partial.(io.ReaderAt)
	return readable
}

// trim removes the messages that are needed no more from the shelf. It runs once a second at most, as it costs a synced
// ledger entry, and when the epoch ends.
func (i taking) trim(now time.Time, ends bool) {
	if !i.ep.shelved || len(i.shelf.marks) == 0 {
		return
	}
	if now.Sub(i.shelf.trimmed) < trimEvery && !ends {
		i.shelf.trimDue = i.shelf.trimmed.Add(trimEvery)
		return
	}
	i.shelf.trimDue = zeroTime
	n := i.covered()
	if n == 0 {
		return
	}

	m := i.shelf.marks[n-1]
	if err := i.update(func(_ *ledger.Tx, rec *ledger.Incoming) error {
		rec.Taken = m.seq
		return nil
	}); err != nil {
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
	case i.rec == nil && (Desk{i.r}).headless(i.id) && i.refuseUnknown(o):
		return
	case i.foreign(o): // or the store was made anew
		i.r.cfg.Store.Look(Shelf{i.from, i.id, o.Stored.Epoch}, &wire.Message{Kind: wire.KindOpen, From: i.from, Transfer: i.id, Open: o})
		return
	}

	at := Shelf{i.from, i.id, o.Stored.Epoch}
	look := func() {
		i.r.cfg.Store.Look(at, &wire.Message{Kind: wire.KindOpen, From: i.from, Transfer: i.id, Open: o})
	}
	if i.rec == nil {
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
	case i.rec.Epoch > o.Stored.Epoch || o.Stored.Again || i.rec.Epoch == o.Stored.Epoch && i.shelf.hole != "":
		if i.rec.Epoch > o.Stored.Epoch { // the source's ledger was restored: it catches up, one epoch after another
			i.sayHole(o.Stored.Epoch, "there was a later epoch")
			return
		}
		if i.rec.Epoch < o.Stored.Epoch {
			if i.ep.live && !i.rest() {
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
			i.sayHole(i.rec.Epoch, i.shelf.hole)
		}
	case i.waits != nil && !i.ep.live:
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
	if i.rec == nil {
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

	has := i.rec.Taken
	if i.ep.live && i.ep.shelved {
		has = i.ep.next - 1
	}
	switch {
	case i.rec.Epoch > o.Stored.Epoch || i.shelf.hole != "" || o.Stored.Last == 0:
	case i.rec.Epoch < o.Stored.Epoch:
		if i.ep.live && !i.rest() {
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
	i.log.Info("RESYNC sent", "error", reason, "epoch", i.rec.Epoch, "sequence", i.ep.next)
	if i.ep.live {
		if !i.rest() {
			return
		}
		i.closeEpoch()
		i.r.keep(i.id, i.hasPoint())
	}
	if err := i.update(func(_ *ledger.Tx, rec *ledger.Incoming) error {
		rec.Live = false
		return nil
	}); err != nil {
		i.log.Error("cannot write the ledger", "error", err)
	}
	i.shelf = shelving{hole: reason}
	i.sayHole(i.rec.Epoch, reason)
	failpoint.Hit("receiver.after_resync")
}

// sayHole sends RESYNC with the points from which the epoch after this one resumes.
func (i taking) sayHole(epoch uint32, reason string) {
	resume := transfer.Resume{Decided: i.rec.Decided}
	err := i.r.cfg.Ledger.View(func(t *ledger.Tx) error { return i.points(t, &resume) })
	if err != nil {
		i.log.Error("cannot read the ledger", "error", err)
		return
	}
	i.shelf.backoff = min(max(2*i.shelf.backoff, shelfRepeat), shelfRepeats)
	i.shelf.holeDue = i.r.cfg.Clock.Now().Add(i.shelf.backoff)
	i.r.send(i.from, &wire.Message{Kind: wire.KindResync, Transfer: i.id, Resync: &wire.Resync{Epoch: epoch, Resume: resume, Reason: reason}})
}

// points puts the points from which items can resume into resume.
func (i taking) points(t *ledger.Tx, resume *transfer.Resume) error {
	return t.Items(i.id, func(item uint64, it *ledger.Item) error {
		p := it.Point
		if p != nil {
			i.pointed[item] = true // it does no harm if the transaction fails
		}
		if p != nil && (p.Durable || p.Boot == i.r.cfg.Boot) {
			at := p.Point
			if c := i.w.files.heldOf(item); c != nil && !c.run.Rebased() { // its digest is resumed in this process
				at.NoReadBack = false
			}
			resume.Points = append(resume.Points, at)
		}
		return nil
	})
}

// dropShelf removes all stored messages of the transfer.
func (i taking) dropShelf() {
	if i.isStored() && i.r.cfg.Store != nil {
		i.shelf = shelving{}
		i.r.cfg.Store.Trim(i.at(), 0)
	}
}

// heldBack reports whether an ACK can wait. No sender waits for the ACKs of a shelf, which only show progress.
func (i taking) heldBack() bool {
	now := i.r.cfg.Clock.Now()
	i.ep.unacked, i.ep.ask = 0, false
	if now.Sub(i.shelf.acked) < ackRepeat && i.rec.State == transfer.Receiving {
		return true
	}
	i.shelf.acked = now
	return false
}
