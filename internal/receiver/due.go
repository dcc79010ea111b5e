package receiver

import (
	"time"

	"ferry/internal/audit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// due runs the timers that have expired.
func (i *incoming) due(now time.Time) {
	is := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	if i.entry.In == nil {
		return
	}

	if is(i.ep.ackDue) {
		i.ack()
	}

	i.w.Due(now)

	if is(i.ep.openDue) && i.ep.Live && !i.ep.begun {
		if m := i.ep.repeat(now); m != nil {
			i.r.send(i.from, m)
		}
	}

	if is(i.stored.trimDue) {
		i.stored.trim(now, false)
	}

	if is(i.stored.holeDue) && i.stored.hole != "" {
		i.stored.sayHole(i.entry.In.Epoch, i.stored.hole)
	}

	if is(i.offers.due) {
		i.offer()
	}

	if is(i.post.due) && !i.post.over {
		i.post.posted()
		i.offerNew()
	}

	if is(i.ep.silentAt) && i.ep.Live && i.ep.Stop == nil && i.r.heard.isSending(i.from, now) && now.Sub(i.contact.at) < busySourceSilent {
		i.ep.silentAt = earlier(now.Add(sourceSilent), i.contact.at.Add(busySourceSilent)) // its other transfers use the link
	}

	if is(i.ep.silentAt) && i.ep.Stored && i.r.reading.comes(i.id, now) {
		i.ep.silentAt = now.Add(sourceSilent)
	}

	if is(i.ep.silentAt) && i.ep.Live && i.ep.Stop == nil {
		i.log.Info("source silent; slot released")
		i.suspend(nil)
	}

	if i.contact.at.Sub(i.contact.noted) > contactEvery {
		if err := i.entry.Heard(); err != nil {
			i.log.Error("cannot write the ledger", "error", err)
		} else {
			i.contact.noted = i.contact.at
		}
	}

	if is(i.clearAt) {
		i.clearAt = time.Time{}
		i.r.clearSuspect(i.id)
	}

	i.askOver(now)
	if i.contact.silence(now) > i.entry.In.Deadline() && now.Sub(i.contact.since) > grace {
		i.giveUp()
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (i *incoming) nextDue(now time.Time) time.Time {
	next := now.Add(time.Minute)
	if i.ep.Again != "" && i.ep.Live {
		if t := i.resynced.Add(resyncRepeat); t.Before(next) {
			next = t
		}
	}
	commit, checkpoint := i.w.DueTimes()
	for _, t := range []time.Time{i.ep.ackDue, commit, checkpoint, i.ep.openDue, i.offers.due, i.ep.silentAt, i.clearAt, i.overDue, i.stored.trimDue, i.stored.holeDue, i.post.next()} {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return next
}

// untouched reports whether the ledger entry is the whole state of a transfer: no file has come, and no part of one is
// safe.
func (i *incoming) untouched() bool {
	return i.entry.In != nil && !i.ep.Live && i.entry.In.State == transfer.Receiving && !i.withdrawn && i.w.Short().Bytes == 0 && i.entry.In.Crashes == 0 &&
		i.contact.silence(i.r.cfg.Clock.Now()) <= i.entry.In.Deadline() && i.entry.In.Decided.Count() == 0 && len(i.offers.waiting) == 0 && !i.entry.Items.Any()
}

// A source reports a transfer that it gives up (R24). The report may be lost, or come while this agent is away. Until
// the deadline, which may be days, the transfer would stay. So the destination asks, if anything of the transfer has
// come.
const (
	askOverFirst = 5 * time.Second  // without an epoch
	askOverAfter = 30 * time.Second // and again so often
	asksAtOnce   = 8
)

// Messages from the Receiver to one of its actors; none is a message of the wire.
const (
	sourceOver wire.Kind = "source-over" // the transfer has ended at the source
	sourceLost wire.Kind = "source-lost" // the source does not know it, or less of it than it did
)

// askOver asks the source for the status of a waiting transfer, when its time has come.
func (i *incoming) askOver(now time.Time) {
	switch {
	case i.r.cfg.Over == nil:
	case i.ep.Live || i.entry.In.State.Final() || i.withdrawn:
		i.overDue = time.Time{}
	case i.overDue.IsZero(), !now.Before(i.overDue) && i.w.Commits():
		// The record may have the outcomes of a group that is being committed, and they are not offered yet.
		i.overDue = now.Add(askOverFirst)
	case !now.Before(i.overDue):
		i.overDue = now.Add(askOverAfter)
		i.r.ask(i.from, i.id, i.offers.acknowledged(i.entry.In.Decided.Count()), i.entry.In.State == transfer.Receiving, i.box.control)
	}
}

// endLost ends a transfer after the loss of a ledger (R35). Undecided items are unknown.
func endLost(i *incoming, lost *transfer.Error) {
	if i.entry.In == nil || i.ep.Live || i.entry.In.State.Final() || i.withdrawn || !i.settleCommitting() {
		return
	}
	unknown, err := i.entry.Items.Undecided(lost)
	if err != nil {
		i.log.Error("cannot read the ledger", "error", err)
		return
	}
	i.r.calls.kill(i.from, i.id)
	i.finish(transfer.Orphaned, audit.Failed, lost.Text, func(a *audit.Record) {
		a.State, a.Code, a.Error = transfer.Failed, lost.Kind.Code(), lost
		if i.entry.In.Counts.Files > 0 {
			a.State = transfer.Partial
		}
		a.Items = unknown[:audit.FitItems(unknown)]
	})
}

// sourceLives records that the source sends in an epoch, though a message of the epoch may take long to come.
func sourceLives(i *incoming, epoch uint32) {
	if !i.ep.Live {
		i.answerUnexpected(epoch)
		return
	}
	if epoch == i.entry.In.Epoch {
		i.ep.silentAt = i.r.cfg.Clock.Now().Add(sourceSilent)
	}
}

// answerUnexpected answers a source that still sends in an epoch that is not open here: this process may have started
// after it. Without the answer, the source would notice only by the silence, which is long on a slow link.
func (i *incoming) answerUnexpected(epoch uint32) {
	now := i.r.cfg.Clock.Now()
	if i.entry.In == nil || i.ep.Live || i.withdrawn || i.entry.In.State != transfer.Receiving || now.Sub(i.answered) < resyncRepeat {
		return
	}
	i.answered = now
	i.r.send(i.from, &wire.Message{Kind: wire.KindBusy, Transfer: i.id, Busy: &wire.Busy{Epoch: epoch,
		Reason: transfer.Errorf(transfer.KindBusy, "%s has no epoch open; the transfer must be opened again", i.r.cfg.Agent)}})
}
