package receiver

import (
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/receiver/entry"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The beginning of epochs in the store, and the answers to a source that asks about them.

// open takes the OPEN that begins an epoch.
func (s *storedDelivery) open(p *storedParcel) (Verdict, error) {
	o := p.open
	switch {
	case s.entry.In != nil && (s.entry.In.Epoch > p.Epoch || s.entry.In.Epoch == p.Epoch && s.hole != ""):
		return Spent, nil
	case s.entry.In != nil && s.entry.In.Epoch == p.Epoch:
		return Took, nil // read again
	}

	if v, err := s.mayEnter(o, true); err != nil {
		return v, err
	}
	if s.entry.In != nil && !s.in.settleInFlight() {
		return s.atRest()
	}

	if err := s.enter(o, true); err != nil {
		s.r.release(s.id)
		return Later, s.entry.Unwritable(err)
	}
	s.begin(1)
	s.accept(o)
	failpoint.Hit("receiver.after_accept")
	return Took, nil
}

// mayEnter reports whether a transfer may come in, and makes the ledger entry of a new one. With an error it may not.
// If the message is an OPEN that the source waits for, the source gets the error.
func (s *storedDelivery) mayEnter(o *wire.Open, slot bool) (Verdict, error) {
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
	if p := s.r.cfg.Programs; err == nil && p != nil && p.Exits(transfer.PreDest) {
		err = transfer.Errorf(transfer.KindExit, "%s has a destination-start exit, which decides about each transfer before it begins, and a stored one has begun", s.r.cfg.Agent).
			WithHint("send it without --delivery stored")
	}
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

// atRest returns the verdict after settleInFlight has reported false.
func (s *storedDelivery) atRest() (Verdict, error) {
	if !s.in.receives() {
		return Spent, nil
	}
	return Later, transfer.Errorf(transfer.KindBusy, "%s cannot go on with the transfer yet", s.r.cfg.Agent)
}

// enter records an epoch of the source in the ledger.
func (s *storedDelivery) enter(o *wire.Open, live bool) error {
	err := s.entry.Enter(o, live)
	if err == nil {
		s.contact.noted = s.r.cfg.Clock.Now()
		s.storedState = storedState{}
	}
	return err
}

// skip records an epoch of the source that is not to be read. It reports false if the transfer ends or waits instead.
func (s *storedDelivery) skip(o *wire.Open) bool {
	if s.ep.Live && !s.in.settleInFlight() {
		return false
	}
	if err := s.enter(o, false); err != nil {
		s.log.Error("cannot write the ledger", "error", err)
		return false
	}
	return true
}

// begin opens the epoch at message next.
func (s *storedDelivery) begin(next uint64) {
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

// accept sends ACCEPT to the source, which may be away, and names the ledger that has the transfer.
func (s *storedDelivery) accept(o *wire.Open) {
	s.r.send(s.from, &wire.Message{Kind: wire.KindAccept, Transfer: s.id, Accept: &wire.Accept{Nonce: o.Nonce, Epoch: o.Stored.Epoch,
		Dest: s.r.cfg.Ledger.IncarnationText(), Settings: s.entry.In.Settings, Lane: transfer.LaneQueue, Instance: s.r.cfg.Instance, Resolution: s.entry.In.Resolution}})
}

// resume reads the epoch of the ledger again.
func (s *storedDelivery) resume() (Verdict, error) {
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
	s.begin(s.entry.In.Taken + 1)
	return Took, nil
}

// all reports whether this ledger has all of a transfer that was ever taken: it had the agent's name when the first
// epoch was stored, and has not been replaced by an older copy since. An error is of a kind that waits.
func (s *storedDelivery) all(o *wire.Open) (bool, error) {
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

// refuseUnknown answers an OPEN of a transfer without an entry here. The first message of its epoch is missing, or
// nothing is stored. It reports false if the transfer can begin again, because no part of it was taken.
func (s *storedDelivery) refuseUnknown(o *wire.Open) bool {
	all, err := s.all(o)
	switch {
	case err != nil:
		s.r.send(s.from, busy(o, s.id, err))
	case !all:
		s.in.refuse(o.Nonce, s.errFirstMissing())
	}
	return !all
}

// mayBegin refuses a transfer without an entry here, if another ledger may have taken some of it: the first message of
// its epoch was missing before, or the source has stored earlier epochs.
func (s *storedDelivery) mayBegin(o *wire.Open) error {
	missing, err := s.entry.Tombstone.FirstMessageMissing()
	if err != nil {
		return s.entry.Unwritable(err)
	}
	if !missing && (o.Stored.Epoch == 1 || o.Stored.Ledger == "") {
		return nil
	}
	all, err := s.all(o)
	switch {
	case err != nil:
		return err
	case !all:
		return s.errFirstMissing()
	case !missing:
		return nil
	}
	s.r.reading.unmarkFirstMissing(s.id)
	if err := s.entry.Tombstone.UnmarkFirstMessageMissing(); err != nil {
		return s.entry.Unwritable(err)
	}
	return nil
}

// headGone handles a new epoch that lacks its OPEN.
func (s *storedDelivery) headGone(p *storedParcel) (Verdict, error) {
	if s.ep.Live && !s.in.settleInFlight() {
		return s.atRest()
	}
	o := &wire.Open{Nonce: s.entry.In.Nonce, Request: s.entry.In.Request, Stored: &wire.StoredState{Epoch: p.Epoch}}
	if err := s.enter(o, false); err != nil {
		return Later, s.entry.Unwritable(err)
	}
	s.holed("the first message is missing in the store")
	return s.verdict()
}

// asked answers an OPEN of a stored transfer that has come by REPLY. The answer is the status of the epoch that the
// OPEN names.
func (s *storedDelivery) asked(o *wire.Open) {
	if s.r.cfg.Store == nil {
		s.in.refuse(o.Nonce, transfer.Errorf(transfer.KindNotBuilt, "%s takes nothing by stored delivery", s.r.cfg.Agent))
		return
	}
	switch {
	case s.entry.In == nil && s.r.reading.isFirstMissing(s.id) && s.refuseUnknown(o):
		return
	case s.foreign(o): // or the store was made anew
		s.look(o)
		return
	}

	if s.entry.In == nil {
		s.look(o)
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
		return // the stored messages are the answer
	}

	if v, err := s.mayEnter(o, false); err != nil {
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
		if s.entry.In.Epoch < o.Stored.Epoch && !s.skip(o) {
			return
		}
		if s.hole == "" {
			s.holed("the source has broken off")
		} else {
			s.sayHole(s.entry.In.Epoch, s.hole)
		}
	case s.waits != nil && !s.ep.Live:
		s.look(o)
		s.r.send(s.from, busy(o, s.id, s.waits))
	default:
		s.accept(o)
		s.look(o)
	}
}

// look has the epoch of an OPEN read, or the OPEN come back as absent.
func (s *storedDelivery) look(o *wire.Open) {
	s.r.cfg.Store.Look(s.at(o.Stored.Epoch), &wire.Message{Kind: wire.KindOpen, From: s.from, Transfer: s.id, Open: o})
}

// mostForeign is how many OPENs from another store get a wait; then the transfer is refused.
const mostForeign = 3

// foreign reports whether an OPEN names another store than the one that was seen last.
func (s *storedDelivery) foreign(o *wire.Open) bool {
	mark, known := s.r.cfg.Store.Mark()
	return known && mark != o.Stored.Store
}

// elsewhere answers an OPEN after a look, if the source uses another store.
func (s *storedDelivery) elsewhere(o *wire.Open) bool {
	if !s.foreign(o) {
		return false
	}
	err := transfer.Errorf(transfer.KindBusy, "%s stores at another queue manager than that of %s, which finds nothing there", s.from, s.r.cfg.Agent).
		WithHint("send it without --delivery stored: between queue managers it needs identities, and that both are Ferry's")
	if s.r.reading.foreign(s.id) <= mostForeign {
		s.r.send(s.from, busy(o, s.id, err))
	} else {
		err.Kind = transfer.KindNotBuilt
		s.in.refuse(o.Nonce, err)
	}
	return true
}

// nothingThere handles an OPEN of an epoch with no message in the store: the messages that the source stored and that
// have not come are lost.
func (s *storedDelivery) nothingThere(o *wire.Open) {
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
		v, err := s.mayEnter(o, true)
		if err != nil {
			if v == Later {
				s.r.send(s.from, busy(o, s.id, err))
			}
			return
		}
		s.r.release(s.id)
		if !s.skip(o) {
			return
		}
		s.accept(o)
	}

	has := s.entry.In.Taken
	if s.ep.Live && s.ep.Stored {
		has = s.ep.next - 1
	}
	switch {
	case s.entry.In.Epoch > o.Stored.Epoch || s.hole != "" || o.Stored.Last == 0:
	case s.entry.In.Epoch < o.Stored.Epoch:
		if s.skip(o) {
			s.holed("nothing of it is in the store")
		}
	case has < o.Stored.Last:
		s.holed("the end of it is not in the store")
	}
}

// errFirstMissing refuses a transfer that an earlier ledger has partly taken.
func (s *storedDelivery) errFirstMissing() *transfer.Error {
	return transfer.Errorf(transfer.KindLost, "%s has no record of the transfer, and some of the data stored for it has been taken", s.r.cfg.Agent)
}
