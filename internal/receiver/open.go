package receiver

import (
	"errors"

	"ferry/internal/flow"
	"ferry/internal/receiver/entry"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// opened answers an OPEN: ACCEPT with a new epoch, BUSY, REFUSE, or, if the transfer is over, its end.
func (i *incoming) opened(o *wire.Open) {
	if err := i.entry.CheckOpen(o); errors.Is(err, entry.ErrContradiction) || err != nil && i.entry.In != nil && i.entry.In.Epoch > 0 && transfer.KindOf(err) != transfer.KindLost {
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
				i.post.running(o, transfer.PostDest)
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
		i.stored.asked(o)
		return
	}

	if i.entry.In != nil {
		if err := i.adm.recheck(); err != nil {
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
	if err := i.adm.checkCrashes(o); err != nil {
		i.refuse(o.Nonce, err)
		return
	}

	lane, why, mine, err := i.adm.meet(o)
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
		over, err := i.before(o)
		if err == nil && !over {
			i.r.release(i.id)
			i.post.running(o, transfer.PreDest)
			return
		}
		if err == nil {
			err = i.adm.begin(o, lane)
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

	resolved, all, err := i.adm.takeTargets(o)
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

// before starts the pre-destination program of a transfer that may come. over reports that there is none, or that it
// has ended well. An error is for the source.
func (i *incoming) before(o *wire.Open) (over bool, err error) {
	if !i.r.cfg.runs(&o.Request, transfer.PreDest) {
		return true, nil
	}
	if _, err := i.adm.admitted(o); err != nil {
		return false, err
	}
	return i.post.before(o)
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
			return transfer.Errorf(transfer.KindNoSpace, "no space at %s: %s needs %s more, and %s are free", i.r.cfg.Agent,
				i.w.Short().At.Base, transfer.FormatBytes(i.w.Short().Bytes), transfer.FormatBytes(free)), 1
		}
	}

	if missing := i.w.LacksItemSlots(); missing != nil {
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

	if i.entry.In != nil && i.entry.In.Crashes > 0 && !i.r.slots.admitSuspect(it) {
		if !i.ep.Live {
			i.r.release(i.id)
		}
		return transfer.Errorf(transfer.KindBusy, "%s has crashed and lets the transfers that it was receiving go on one at a time", i.r.cfg.Agent), 1
	}
	return nil, 0
}

// settleInFlight ends the in-flight work before an epoch begins, so that the resume refers to decided items only. It
// reports false if the transfer ends or waits instead.
func (i *incoming) settleInFlight() bool {
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

// settleCommitting decides items that were left in COMMITTING, by a crash or by a directory that could not be synced
// (R21, R22). If that is not possible yet, it tells the source to wait and reports false.
func (i *incoming) settleCommitting() bool {
	err := i.w.SettleCommitting()
	if err == nil {
		return true
	}

	i.log.Error("cannot recover items in COMMITTING yet", "error", err)
	reason := transfer.AsError(err)
	if !reason.Kind.Waits() {
		reason = transfer.Errorf(transfer.KindBusy, "%s cannot decide items that it was committing: %w", i.r.cfg.Agent, err)
	}

	i.endEpoch(reason) // the epoch that admit has begun
	return false
}

// acceptOpen opens an epoch in answer to an OPEN.
func (i *incoming) acceptOpen(o *wire.Open, a *wire.Accept) {
	i.opening = o.Nonce
	rests := i.settleInFlight()
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

	i.r.keepPartial(i.id, false)
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
	i.nextEpoch()
}

// nextEpoch replaces the state of the epoch.
func (i *incoming) nextEpoch() {
	now := i.r.cfg.Clock.Now()
	if i.entry.In.Crashes > 0 {
		i.clearAt = now.Add(suspectTime)
	}
	i.ep = i.ep.following(now.Add(sourceSilent))
	i.w.NewEpoch()
	i.lastAck.Store(nil)
}

// receives reports whether the transfer can still get data.
func (i *incoming) receives() bool {
	return i.entry.In.State == transfer.Receiving && !i.withdrawn
}

// resync answers a gap: it discards everything after the received data, and a new epoch begins there. It is repeated
// until the source obeys.
func (i *incoming) resync(reason string) {
	if !i.ep.Live {
		return
	}

	i.resynced = i.r.cfg.Clock.Now()
	if i.ep.Stored {
		i.stored.holed(reason)
		return
	}
	i.log.Info("RESYNC sent", "error", reason, "epoch", i.entry.In.Epoch, "sequence", i.ep.next)
	if !i.settleInFlight() {
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
