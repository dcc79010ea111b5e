package receiver

import "time"

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
		i.repeatOpening(now)
	}

	if is(i.shelf.trimDue) {
		(taking{i}).trim(now, false)
	}

	if is(i.shelf.holeDue) && i.shelf.hole != "" {
		(taking{i}).sayHole(i.entry.In.Epoch, i.shelf.hole)
	}

	if is(i.offers.due) {
		i.offer()
	}

	if is(i.post.due) && !i.post.over {
		(calling{i}).posted()
		i.offerNew()
	}

	if is(i.ep.silentAt) && i.ep.Live && i.ep.Stop == nil && i.r.speaks(i.from, now) && now.Sub(i.contact.at) < turnSilent {
		i.ep.silentAt = earlier(now.Add(sourceSilent), i.contact.at.Add(turnSilent)) // its other transfers use the link
	}

	if is(i.ep.silentAt) && i.ep.Stored && (taking{i}).comes(now) {
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

	if is(i.acquitAt) {
		i.acquitAt = time.Time{}
		i.r.acquit(i.id)
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
	commit, checkpoint := i.w.Dues()
	for _, t := range []time.Time{i.ep.ackDue, commit, checkpoint, i.ep.openDue, i.offers.due, i.ep.silentAt, i.acquitAt, i.overDue, i.shelf.trimDue, i.shelf.holeDue, i.post.next()} {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return next
}

// idle runs when no message waits. It hands over complete items without waiting for more.
func (i *incoming) idle() {
	if i.ep.Live && i.w.Idle() {
		i.finishIfDecided()
	}
}
