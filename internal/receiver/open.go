package receiver

import (
	"errors"
	"fmt"
	"time"

	"ferry/internal/audit"
	"ferry/internal/content/conversion"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxCrashes is the number of crashes without progress after which a transfer is refused.
const maxCrashes = 3

// opened answers an OPEN: ACCEPT with a new epoch, BUSY, REFUSE, or, if the transfer is over, its end.
func (i *incoming) opened(o *wire.Open) {
	if err := i.vet(o); errors.Is(err, errAnother) || err != nil && i.rec != nil && i.rec.Epoch > 0 && transfer.KindOf(err) != transfer.KindLost {
		i.r.cfg.Quiet.Dropped(string(i.from), "OPEN does not match its transfer", "transfer", i.id, "error", err)
		return
	} else if err != nil {
		i.refuse(o.Nonce, err)
		return
	}

	if i.rec != nil {
		switch {
		case i.rec.State == transfer.Abandoned:
			i.refuse(o.Nonce, transfer.Errorf(transfer.KindRecovery, "%s gave the transfer up: the source was silent past the deadline", i.r.cfg.Agent))
			return
		case i.rec.State == transfer.Revoked:
			i.r.send(i.from, &wire.Message{Kind: wire.KindCancelled, Transfer: i.id})
			i.over = true
			return
		case i.rec.State == transfer.Orphaned:
			i.refuse(o.Nonce, transfer.Errorf(transfer.KindLost, "%s has ended the transfer, because a ledger with its beginning was lost", i.r.cfg.Agent))
			return
		case i.rec.State == transfer.Done:
			i.refuse(o.Nonce, transfer.Errorf(transfer.KindLost, "%s has ended the transfer and handed over its outcomes before", i.r.cfg.Agent))
			return
		case i.rec.State == transfer.Decided || i.withdrawn:
			i.offer()
			if !i.final() {
				(calling{i}).busy(o, transfer.PostDest)
			}
			return
		case o.Nonce < i.rec.Nonce:
			return // an older OPEN that was delayed on the way
		case o.Nonce == i.rec.Nonce && i.ep.live && i.ep.accept != nil:
			i.r.send(i.from, i.ep.accept) // the answer was lost
			return
		case o.Nonce == i.rec.Nonce && i.ep.live && i.ep.begun:
			return // a repeat of an OPEN that was answered, and its epoch has begun
		}
	}

	if o.Request.Stored() {
		(taking{i}).openedStored(o)
		return
	}

	if i.rec != nil {
		if _, err := i.r.admit(i.rec.Principal, i.from, i.id); err != nil { // it was checked when the transfer began, but rules change
			if transfer.KindOf(err).Waits() {
				i.r.send(i.from, busy(o, i.id, err))
			} else {
				i.refuse(o.Nonce, err)
			}
			return
		}
	}

	if known := targetsOf(i.rec).Last; o.Targets != nil && o.Targets.After > known {
		i.r.send(i.from, &wire.Message{Kind: wire.KindResolved, Transfer: i.id, Resolved: &wire.Resolved{Nonce: o.Nonce, After: o.Targets.After, Known: known}})
		return
	}
	if err := i.pardon(o); err != nil {
		i.refuse(o.Nonce, err)
		return
	}

	lane, why, mine, err := i.meet(o)
	if err != nil {
		i.refuse(o.Nonce, err)
		return
	}

	if i.ep.live && i.ep.empty() && i.r.slots.othersWait(i.r.cfg.Clock.Now()) {
		if i.suspend(nil); i.over || i.rec.State != transfer.Receiving {
			return // all of it is decided, and the source has got that
		}
	}

	if reason, place := i.mustWait(); reason != nil {
		i.r.send(i.from, busyAt(o, i.id, place, reason))
		return
	}

	if i.rec == nil {
		over, err := (calling{i}).before(o)
		if err == nil && !over {
			i.r.release(i.id)
			(calling{i}).busy(o, transfer.PreDest)
			return
		}
		if err == nil {
			err = i.begin(o, lane)
		}
		if err != nil {
			i.r.release(i.id)
			i.rec = nil
			if transfer.KindOf(err).Waits() {
				i.r.send(i.from, busy(o, i.id, err))
				return
			}
			i.refuse(o.Nonce, err)
			return
		}
	}

	resolved, all, err := i.takeTargets(o)
	if err != nil {
		i.r.release(i.id)
		i.r.send(i.from, busy(o, i.id, err))
		return
	}

	if !all {
		i.r.release(i.id)
		i.r.send(i.from, &wire.Message{Kind: wire.KindResolved, Transfer: i.id, Resolved: &wire.Resolved{Nonce: o.Nonce, After: o.Targets.After, Known: resolved[len(resolved)-1].N, List: resolved}})
		return
	}

	i.acceptOpen(o, &wire.Accept{Lane: lane, LaneReason: why, Direct: mine, Resolved: resolved})
}

// busy answers an OPEN with a reason to wait.
func busy(o *wire.Open, id transfer.ID, why error) *wire.Message { return busyAt(o, id, 1, why) }

// busyAt returns a BUSY with a place in the queue. The source takes it as the answer to the OPEN with the nonce.
func busyAt(o *wire.Open, id transfer.ID, place int, why error) *wire.Message {
	return &wire.Message{Kind: wire.KindBusy, Transfer: id, Busy: &wire.Busy{Nonce: o.Nonce, Place: place, Reason: transfer.AsError(why)}}
}

// meet agrees on the lane.
func (rc *record) meet(o *wire.Open) (name, reason string, mine *wire.Direct, err error) {
	if rc.r.cfg.Lanes != nil {
		return rc.r.cfg.Lanes.Meet(rc.from, o, rc.id)
	}
	return transfer.LaneQueue, "", nil, nil
}

// pardon refuses a transfer that has crashed this agent three times without
// progress, until an operator has resumed it at its source.
func (rc *record) pardon(o *wire.Open) error {
	if rc.rec == nil || rc.rec.Crashes < maxCrashes {
		return nil
	}
	if o.Pardon <= rc.rec.Pardon {
		return transfer.Errorf(transfer.KindParked, "%s has crashed %d times on this transfer without progress", rc.r.cfg.Agent, rc.rec.Crashes).
			WithHint("see the log of " + string(rc.r.cfg.Agent) + ", then `ferry transfer resume` or `ferry transfer cancel`")
	}
	return rc.update(func(_ *ledger.Tx, rec *ledger.Incoming) error {
		rec.Crashes, rec.Pardon = 0, o.Pardon
		return nil
	})
}

// errAnother reports an OPEN that contradicts its own message; no agent sends one on purpose.
var errAnother = transfer.Errorf(transfer.KindMalformed, "the OPEN speaks of another transfer or agent than its message")

// vet refuses an OPEN that contradicts the ledger entry of the transfer (R35), or that requests an unsupported feature.
func (rc *record) vet(o *wire.Open) error {
	q := &o.Request
	mine := rc.r.cfg.Ledger.IncarnationText()
	switch {
	case q.ID != rc.id || q.Source != rc.from || q.Destination != rc.r.cfg.Agent:
		return errAnother
	case o.Dest != "" && o.Dest != mine:
		return transfer.Errorf(transfer.KindLost, "%s has lost the ledger that recorded the accepted transfer", rc.r.cfg.Agent)
	case rc.rec == nil && o.Dest != "":
		return transfer.Errorf(transfer.KindLost, "%s no longer has a record of the transfer", rc.r.cfg.Agent)
	case rc.rec != nil && !rc.rec.State.Final() && o.Recorded > rc.rec.Decided.Count():
		return transfer.Errorf(transfer.KindLost, "%s runs on an older copy of its ledger: it knows fewer items than it has reported", rc.r.cfg.Agent)
	case rc.rec != nil && rc.rec.From != o.Source:
		return transfer.Errorf(transfer.KindLost, "%s has lost the ledger that recorded the start of the transfer", rc.from)
	}

	one := transfer.RequestItem{Source: transfer.File("-")} // Check needs an item, and only the source has the real ones
	if q.Dest.IsZero() {
		one.Dest = transfer.File("-")
	}

	q.Items = []transfer.RequestItem{one}
	defer func() { q.Items = nil }()
	if err := q.Check(); err != nil {
		return err
	}
	if err := conversion.Check(q); err != nil {
		return err
	}

	if rc.rec != nil && rc.rec.Epoch > 0 && o.Targets != nil && o.Targets.More {
		return errAnother // all of them were here before the first epoch
	}
	return vetTargets(o, targetsOf(rc.rec))
}

// targetsOf returns the progress of a transfer's targets.
func targetsOf(rec *ledger.Incoming) ledger.Targets {
	if rec == nil {
		return ledger.Targets{}
	}
	return rec.Targets
}

func (i *incoming) refuse(nonce uint64, err error) {
	i.r.cfg.Quiet.Dropped(string(i.from), "OPEN refused", "transfer", i.id, "error", err)
	i.r.send(i.from, &wire.Message{Kind: wire.KindRefuse, Transfer: i.id, Refuse: &wire.Refuse{Nonce: nonce, Error: transfer.AsError(err)}})
	if i.rec != nil && i.rec.State.Final() {
		i.over = true
	}
}

// mustWait returns the reason why the transfer cannot have an epoch now, and its place in the queue.
func (i *incoming) mustWait() (*transfer.Error, int) {
	if err := i.r.cfg.Ledger.OutboxFull(); err != nil {
		return transfer.AsError(err), 1
	}

	if stale := i.r.cfg.Stale; stale != nil && (i.rec == nil || i.rec.Epoch == 0) {
		if err := stale(); err != nil {
			return transfer.AsError(err), 1
		}
	}

	if (i.rec == nil || i.rec.Epoch == 0) && i.r.cfg.Ledger.Low() {
		return transfer.Errorf(transfer.KindNoSpace, "the disk of %s's ledger %s; nothing new is accepted", i.r.cfg.Agent, i.r.cfg.Ledger.Shortage()), 1
	}

	if i.rec != nil && i.rec.Resolution.Base != "" {
		if err := i.r.cfg.Place.Ready(i.rec.Resolution); transfer.KindOf(err).Waits() {
			return transfer.AsError(err), 1
		}
	}

	if i.rec != nil && i.com.short.bytes > 0 {
		if free, err := i.r.cfg.Place.Free(i.com.short.at); err == nil && free < i.com.short.bytes {
			return transfer.Errorf(transfer.KindNoSpace, "no space at %s: %s needs %s more, %s are free", i.r.cfg.Agent,
				i.com.short.at.Base, transfer.FormatBytes(i.com.short.bytes), transfer.FormatBytes(free)), 1
		}
	}

	if of := (ofSet{i.record}); of.lacksPlaces() {
		return of.noPlaces(), 1
	}

	it := waiter{i.id, i.from, i.r.cfg.Clock.Now()}
	place, gave := i.r.slots.admit(it)
	if gave {
		i.r.cfg.Changed()
	}

	if place > 0 {
		return transfer.Errorf(transfer.KindBusy, "%s already receives %d transfers, its limit", i.r.cfg.Agent, i.r.cfg.Slots), place
	}

	if i.rec != nil && i.rec.Crashes > 0 && !i.r.slots.accuse(it) {
		if !i.ep.live {
			i.r.release(i.id)
		}
		return transfer.Errorf(transfer.KindBusy, "%s has crashed and lets the transfers that it was receiving go on one at a time", i.r.cfg.Agent), 1
	}
	return nil, 0
}

// begin makes the ledger entry of a transfer that is new here.
func (rc *record) begin(o *wire.Open, lane string) error {
	rules, err := rc.admitted(o)
	if err == nil {
		err = mayAppend(rc.r.cfg.Place, &o.Request.Options)
	}
	if err != nil {
		return err
	}
	var res transfer.Resolution
	if q := &o.Request; !q.Dest.IsZero() {
		var before *transfer.Resolution
		if q.Retry != nil {
			before = q.Retry.Resolved
		}
		if res, err = resolve(rc.r.cfg.Place, rc.r.permit(o.Principal), q.Dest, o.Several, before); err != nil {
			rc.denied(o, err)
			return err
		}
	}

	now := rc.r.cfg.Clock.Now()
	maxChunk := min(rc.r.cfg.MaxChunk, o.MaxChunk)
	settings := flow.Negotiate(o.Request.Settings, maxChunk)
	if lane == transfer.LaneDirect {
		settings = flow.ForDirect(settings, maxChunk)
	}

	rec := &ledger.Incoming{Request: o.Request, From: o.Source, Principal: o.Principal, State: transfer.Receiving, Resolution: res,
		Settings:    settings,
		Generations: ledger.Generations{Generation: rc.r.cfg.Ledger.Generation()}, Pardon: o.Pardon, Started: now}
	rc.know(rec)
	rc.land()
	var home place.Location
	if res.Base != "" {
		var err error
		if home, err = rc.to.landed.Locate(".", ""); err != nil {
			return err
		}
	}

	buried := false
	err = rc.r.cfg.Ledger.Update(func(t *ledger.Tx) error {
		if buried = t.EntombedOf(rc.id, rc.from); buried {
			return nil
		}
		rc.r.heard(t, rec)
		rec.Temps = tempsAhead
		if err := rc.putDirs(t, &home); err != nil {
			return err
		}
		if err := t.PutIncoming(rec); err != nil {
			return err
		}
		return rc.r.cfg.Note(t, rc.entry(audit.Started, func(a *audit.Record) {
			a.Meta, a.Request, a.Lane = rec.Request.Meta, audit.FactsOf(&rec.Request), lane
			a.Request.Settings, a.Request.Rule, a.Limits = rec.Settings, rules, rc.r.cfg.Limits
		}))
	})
	failpoint.Hit("receiver.after_open")
	if err != nil {
		return rc.unwritable(err)
	}

	rc.notedDirs(home.NewDirs)
	rc.notedDirs(home.TempDirs)
	if buried {
		return errBuried
	}

	rc.log.Info("incoming transfer started", "job", rec.Request.Job, "lane", lane, "to", rec.Resolution.Base)
	return nil
}

// admit checks whether a transfer may come at all.
func (r *Receiver) admit(principal string, from transfer.AgentName, id transfer.ID) (rules string, err error) {
	if r.cfg.Admit == nil {
		return "", nil
	}
	return r.cfg.Admit(principal, from, id)
}

// noteDenied records in the audit that a transfer was refused, once a minute at most. The record has the number of
// refusals before it that have no record of their own.
func (r *Receiver) noteDenied(id transfer.ID, from transfer.AgentName, principal string, why error) {
	held, ok := r.denied.Pass(r.cfg.Clock.Now())
	if !ok {
		return
	}
	e := transfer.AsError(why)
	rec := audit.Record{Event: audit.Refused, Role: audit.RoleDestination, Transfer: id, Source: from, Destination: r.cfg.Agent,
		Principal: principal, Code: e.Kind.Code(), Error: e}
	if held > 0 {
		rec.Text = fmt.Sprintf("%d more were refused before it", held)
	}
	if err := r.cfg.Ledger.Update(func(t *ledger.Tx) error { return r.cfg.Note(t, rec) }); err != nil {
		r.cfg.Log.Error("cannot record a transfer that was refused", "transfer", id, "error", err)
	}
}

// rest ends the in-flight work before an epoch begins, so that the resume refers to decided items only. It reports
// false if the transfer ends or waits instead.
func (i *incoming) rest() bool {
	i.com.drain()
	if !i.settleCommitting() {
		return false
	}

	i.w.settleOpen(true)
	i.report()
	if i.finishIfDecided() {
		return false
	}

	if i.ep.stop != nil {
		i.endEpoch(i.ep.stop) // the epoch that admit has begun
		return false
	}
	return true
}

// acceptOpen opens an epoch in answer to an OPEN.
func (i *incoming) acceptOpen(o *wire.Open, a *wire.Accept) {
	i.opening = o.Nonce
	rests := i.rest()
	i.opening = 0
	if !rests {
		return
	}

	resume, err := i.newEpoch(o.Nonce, o)
	if err != nil {
		i.log.Error("cannot write the ledger", "error", err)
		i.r.release(i.id)
		return
	}

	if i.ep.account == nil {
		i.ep.account = i.r.cfg.Pool.Open(flow.RunAhead(i.rec.Settings))
	}

	i.r.keep(i.id, false)
	i.startEpoch()
	a.Nonce, a.Epoch, a.Dest, a.Settings = o.Nonce, i.rec.Epoch, i.r.cfg.Ledger.IncarnationText(), i.rec.Settings
	a.Instance = i.r.cfg.Instance
	a.Credit, a.Sums, a.Resume, a.Resolution = i.ep.account.Grant(), i.r.mostUnsummed(), resume, i.rec.Resolution
	i.ep.direct = a.Lane == transfer.LaneDirect
	i.ep.accept = &wire.Message{Kind: wire.KindAccept, Transfer: i.id, Accept: a}
	i.box.allow(i.ep.account.Ahead())
	i.r.send(i.from, i.ep.accept)
	failpoint.Hit("receiver.after_accept")
}

// newEpoch counts the epoch up in the ledger and returns the resume points. It issues the epoch only once its ledger
// entry is durable (R11). In answer to an OPEN, the new epoch is also beyond every epoch that the source has heard of:
// this ledger may have been restored, or another agent may have answered under this name.
func (i *incoming) newEpoch(nonce uint64, o *wire.Open) (transfer.Resume, error) {
	var resume transfer.Resume
	err := i.update(func(t *ledger.Tx, rec *ledger.Incoming) error {
		if o != nil {
			rec.Epoch = max(rec.Epoch, o.Epoch)
			rec.Request.Recovery = o.Request.Recovery
		}
		rec.Epoch++
		rec.Nonce, rec.Live = nonce, true
		i.r.heard(t, rec)
		resume = transfer.Resume{Decided: rec.Decided}
		return (taking{i}).points(t, &resume)
	})
	if err == nil {
		i.contact.noted = i.r.cfg.Clock.Now()
	}

	failpoint.Hit("receiver.after_epoch")
	return resume, err
}

// startEpoch replaces the epoch by the next one.
func (i *incoming) startEpoch() {
	i.ep.account.NewEpoch()
	i.box.open()
	if i.rec.Crashes > 0 {
		i.acquitAt = i.r.cfg.Clock.Now().Add(suspectTime)
	}
	i.ep = i.ep.following(i.r.cfg.Clock.Now().Add(sourceSilent))
	i.w.total = nil
	i.lastAck.Store(nil)
}

// resync answers a gap: it discards everything after the received data, and a new epoch begins there. It is repeated
// until the source obeys.
func (i *incoming) resync(reason string) {
	if !i.ep.live {
		return
	}

	i.resynced = i.r.cfg.Clock.Now()
	if i.ep.shelved {
		(taking{i}).holed(reason)
		return
	}
	i.log.Info("RESYNC sent", "error", reason, "epoch", i.rec.Epoch, "sequence", i.ep.next)
	if !i.rest() {
		return
	}

	resume, err := i.newEpoch(i.rec.Nonce, nil)
	if err != nil {
		i.log.Error("cannot write the ledger", "error", err)
		return
	}

	i.startEpoch()
	r := &wire.Resync{Epoch: i.rec.Epoch, Credit: i.ep.account.Grant(), Resume: resume, Reason: reason}
	if i.ep.direct {
		r.Direct = i.r.cfg.Lanes.Offer(i.from, i.id)
	}

	i.ep.resyncs = &wire.Message{Kind: wire.KindResync, Transfer: i.id, Resync: r}
	i.box.allow(i.ep.account.Ahead())
	i.r.send(i.from, i.ep.resyncs)
	failpoint.Hit("receiver.after_resync")
	i.ep.openDue = i.r.cfg.Clock.Now().Add(resyncRepeat)
}

// repeatOpening repeats the message that opened the epoch to a source that has not
// begun it: RESYNC every second, and ACCEPT once a second at most while messages of an
// earlier epoch come.
func (i *incoming) repeatOpening(now time.Time) {
	i.ep.openDue = time.Time{}
	switch {
	case i.ep.resyncs != nil:
		i.r.send(i.from, i.ep.resyncs)
		i.ep.openDue = now.Add(resyncRepeat)
	case i.ep.accept != nil:
		i.r.send(i.from, i.ep.accept)
	}
}
