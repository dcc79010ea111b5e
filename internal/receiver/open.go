package receiver

import (
	"errors"
	"time"

	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/receiver/entry"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxCrashes is the number of crashes without progress after which a transfer is refused.
const maxCrashes = 3

// opened answers an OPEN: ACCEPT with a new epoch, BUSY, REFUSE, or, if the transfer is over, its end.
func (i *incoming) opened(o *wire.Open) {
	if err := i.entry.Vet(o); errors.Is(err, entry.ErrAnother) || err != nil && i.entry.In != nil && i.entry.In.Epoch > 0 && transfer.KindOf(err) != transfer.KindLost {
		i.r.cfg.Quiet.Dropped(string(i.from), "OPEN does not match its transfer", "transfer", i.id, "error", err)
		return
	} else if err != nil {
		i.refuse(o.Nonce, err)
		return
	}

	if i.entry.In != nil {
		switch {
		case i.entry.In.State == transfer.Abandoned:
			i.refuse(o.Nonce, transfer.Errorf(transfer.KindRecovery, "%s gave the transfer up: the source was silent past the deadline", i.r.cfg.Agent))
			return
		case i.entry.In.State == transfer.Revoked:
			i.r.send(i.from, &wire.Message{Kind: wire.KindCancelled, Transfer: i.id})
			i.over = true
			return
		case i.entry.In.State == transfer.Orphaned:
			i.refuse(o.Nonce, transfer.Errorf(transfer.KindLost, "%s has ended the transfer, because a ledger with its beginning was lost", i.r.cfg.Agent))
			return
		case i.entry.In.State == transfer.Done:
			i.refuse(o.Nonce, transfer.Errorf(transfer.KindLost, "%s has ended the transfer and handed over its outcomes before", i.r.cfg.Agent))
			return
		case i.entry.In.State == transfer.Decided || i.withdrawn:
			i.offer()
			if !i.final() {
				(calling{i}).busy(o, transfer.PostDest)
			}
			return
		case o.Nonce < i.entry.In.Nonce:
			return // an older OPEN that was delayed on the way
		case o.Nonce == i.entry.In.Nonce && i.ep.Live && i.ep.accept != nil:
			i.r.send(i.from, i.ep.accept) // the answer was lost
			return
		case o.Nonce == i.entry.In.Nonce && i.ep.Live && i.ep.begun:
			return // a repeat of an OPEN that was answered, and its epoch has begun
		}
	}

	if o.Request.Stored() {
		(taking{i}).openedStored(o)
		return
	}

	if i.entry.In != nil {
		if _, err := i.r.admit(i.entry.In.Principal, i.from, i.id); err != nil { // it was checked when the transfer began, but rules change
			if transfer.KindOf(err).Waits() {
				i.r.send(i.from, busy(o, i.id, err))
			} else {
				i.refuse(o.Nonce, err)
			}
			return
		}
	}

	if known := i.entry.Targets().Last; o.Targets != nil && o.Targets.After > known {
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

	if i.ep.Live && i.ep.empty() && i.r.slots.othersWait(i.r.cfg.Clock.Now()) {
		if i.suspend(nil); i.over || i.entry.In.State != transfer.Receiving {
			return // all of it is decided, and the source has got that
		}
	}

	if reason, place := i.mustWait(); reason != nil {
		i.r.send(i.from, busyAt(o, i.id, place, reason))
		return
	}

	if i.entry.In == nil {
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
			i.entry.In = nil
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
func (i *incoming) meet(o *wire.Open) (name, reason string, mine *wire.Direct, err error) {
	if i.r.cfg.Lanes != nil {
		return i.r.cfg.Lanes.Meet(i.from, o, i.id)
	}
	return transfer.LaneQueue, "", nil, nil
}

// pardon refuses a transfer that has crashed this agent three times without
// progress, until an operator has resumed it at its source.
func (i *incoming) pardon(o *wire.Open) error {
	if i.entry.In == nil || i.entry.In.Crashes < maxCrashes {
		return nil
	}
	if o.Pardon <= i.entry.In.Pardon {
		return transfer.Errorf(transfer.KindParked, "%s has crashed %d times on this transfer without progress", i.r.cfg.Agent, i.entry.In.Crashes).
			WithHint("see the log of " + string(i.r.cfg.Agent) + ", then `ferry transfer resume` or `ferry transfer cancel`")
	}
	return i.entry.Pardon(o.Pardon)
}

func (i *incoming) refuse(nonce uint64, err error) {
	i.r.cfg.Quiet.Dropped(string(i.from), "OPEN refused", "transfer", i.id, "error", err)
	i.r.send(i.from, &wire.Message{Kind: wire.KindRefuse, Transfer: i.id, Refuse: &wire.Refuse{Nonce: nonce, Error: transfer.AsError(err)}})
	if i.entry.In != nil && i.entry.In.State.Final() {
		i.over = true
	}
}

// mustWait returns the reason why the transfer cannot have an epoch now, and its place in the queue.
func (i *incoming) mustWait() (*transfer.Error, int) {
	if err := i.r.cfg.Ledger.OutboxFull(); err != nil {
		return transfer.AsError(err), 1
	}

	if stale := i.r.cfg.Stale; stale != nil && (i.entry.In == nil || i.entry.In.Epoch == 0) {
		if err := stale(); err != nil {
			return transfer.AsError(err), 1
		}
	}

	if (i.entry.In == nil || i.entry.In.Epoch == 0) && i.r.cfg.Ledger.Low() {
		return transfer.Errorf(transfer.KindNoSpace, "the disk of %s's ledger %s; nothing new is accepted", i.r.cfg.Agent, i.r.cfg.Ledger.Shortage()), 1
	}

	if i.entry.In != nil && i.entry.In.Resolution.Base != "" {
		if err := i.r.cfg.Place.Ready(i.entry.In.Resolution); transfer.KindOf(err).Waits() {
			return transfer.AsError(err), 1
		}
	}

	if i.entry.In != nil && i.w.Short().Bytes > 0 {
		if free, err := i.r.cfg.Place.Free(i.w.Short().At); err == nil && free < i.w.Short().Bytes {
			return transfer.Errorf(transfer.KindNoSpace, "no space at %s: %s needs %s more, %s are free", i.r.cfg.Agent,
				i.w.Short().At.Base, transfer.FormatBytes(i.w.Short().Bytes), transfer.FormatBytes(free)), 1
		}
	}

	if missing := i.w.LacksPlaces(); missing != nil {
		return missing, 1
	}

	it := waiter{i.id, i.from, i.r.cfg.Clock.Now()}
	place, gave := i.r.slots.admit(it)
	if gave {
		i.r.cfg.Changed()
	}

	if place > 0 {
		return transfer.Errorf(transfer.KindBusy, "%s already receives %d transfers, its limit", i.r.cfg.Agent, i.r.cfg.Slots), place
	}

	if i.entry.In != nil && i.entry.In.Crashes > 0 && !i.r.slots.accuse(it) {
		if !i.ep.Live {
			i.r.release(i.id)
		}
		return transfer.Errorf(transfer.KindBusy, "%s has crashed and lets the transfers that it was receiving go on one at a time", i.r.cfg.Agent), 1
	}
	return nil, 0
}

// begin makes the ledger entry of a transfer that is new here.
func (i *incoming) begin(o *wire.Open, lane string) error {
	rules, err := i.admitted(o)
	if err == nil {
		err = mayAppend(i.r.cfg.Place, &o.Request.Options)
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
		if res, err = resolve(i.r.cfg.Place, i.r.permit(o.Principal), q.Dest, o.Several, before); err != nil {
			i.denied(o, err)
			return err
		}
	}

	now := i.r.cfg.Clock.Now()
	maxChunk := min(i.r.cfg.MaxChunk, o.MaxChunk)
	settings := flow.Negotiate(o.Request.Settings, maxChunk)
	if lane == transfer.LaneDirect {
		settings = flow.ForDirect(settings, maxChunk)
	}

	rec := &ledger.Incoming{Request: o.Request, From: o.Source, Principal: o.Principal, State: transfer.Receiving, Resolution: res,
		Settings:    settings,
		Generations: ledger.Generations{Generation: i.r.cfg.Ledger.Generation()}, Pardon: o.Pardon, Started: now}
	i.entry.Know(rec)
	i.to.Land()
	var home place.Location
	if res.Base != "" {
		var err error
		if home, err = i.to.Home(); err != nil {
			return err
		}
	}

	return i.entry.Begin(&home, lane, rules)
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
	if err := r.entries.NoteRefused(id, from, principal, why, held); err != nil {
		r.cfg.Log.Error("cannot record a transfer that was refused", "transfer", id, "error", err)
	}
}

// rest ends the in-flight work before an epoch begins, so that the resume refers to decided items only. It reports
// false if the transfer ends or waits instead.
func (i *incoming) rest() bool {
	i.w.Drain()
	if !i.settleCommitting() {
		return false
	}

	i.w.Settle(true)
	i.report()
	if i.finishIfDecided() {
		return false
	}

	if i.ep.Stop != nil {
		i.endEpoch(i.ep.Stop) // the epoch that admit has begun
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
		i.ep.account = i.r.cfg.Pool.Open(flow.RunAhead(i.entry.In.Settings))
	}

	i.r.keep(i.id, false)
	i.startEpoch()
	a.Nonce, a.Epoch, a.Dest, a.Settings = o.Nonce, i.entry.In.Epoch, i.r.cfg.Ledger.IncarnationText(), i.entry.In.Settings
	a.Instance = i.r.cfg.Instance
	a.Credit, a.Sums, a.Resume, a.Resolution = i.ep.account.Grant(), i.r.agent.MostUnsummed(), resume, i.entry.In.Resolution
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
	resume, err := i.entry.NewEpoch(nonce, o, i.w.Resumed)
	if err == nil {
		i.contact.noted = i.r.cfg.Clock.Now()
	}
	return resume, err
}

// startEpoch replaces the epoch by the next one.
func (i *incoming) startEpoch() {
	i.ep.account.NewEpoch()
	i.box.open()
	if i.entry.In.Crashes > 0 {
		i.acquitAt = i.r.cfg.Clock.Now().Add(suspectTime)
	}
	i.ep = i.ep.following(i.r.cfg.Clock.Now().Add(sourceSilent))
	i.w.NewEpoch()
	i.lastAck.Store(nil)
}

// resync answers a gap: it discards everything after the received data, and a new epoch begins there. It is repeated
// until the source obeys.
func (i *incoming) resync(reason string) {
	if !i.ep.Live {
		return
	}

	i.resynced = i.r.cfg.Clock.Now()
	if i.ep.Stored {
		(taking{i}).holed(reason)
		return
	}
	i.log.Info("RESYNC sent", "error", reason, "epoch", i.entry.In.Epoch, "sequence", i.ep.next)
	if !i.rest() {
		return
	}

	resume, err := i.newEpoch(i.entry.In.Nonce, nil)
	if err != nil {
		i.log.Error("cannot write the ledger", "error", err)
		return
	}

	i.startEpoch()
	r := &wire.Resync{Epoch: i.entry.In.Epoch, Credit: i.ep.account.Grant(), Resume: resume, Reason: reason}
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
