package receiver

import (
	"time"

	"ferry/internal/ledger"
)

// due does what its time has come for.
func (i *incoming) due(now time.Time) {
	is := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	if i.rec == nil {
		return
	}
	if is(i.ackDue) {
		i.ack()
	}
	if is(i.groupDue) {
		i.handOver()
	}
	if is(i.checkDue) {
		i.startCheckpoint()
	}
	if is(i.openDue) && i.live && !i.begun {
		i.repeatOpening(now)
	}
	if is(i.offerDue) {
		i.offer()
	}
	if is(i.silentAt) && i.live && i.r.speaks(i.from, now) && now.Sub(i.contact) < turnSilent {
		i.silentAt = now.Add(sourceSilent) // its other transfers have the line
	}
	if is(i.silentAt) && i.live {
		i.log.Info("the source is silent; its slot goes to another")
		i.suspend(nil)
	}
	if i.contact.Sub(i.noted) > contactEvery {
		if err := i.update(func(t *ledger.Tx, rec *ledger.Incoming) error {
			i.r.heard(t, rec)
			return nil
		}); err != nil {
			i.log.Error("the ledger cannot be written", "error", err)
		} else {
			i.noted = i.contact
		}
	}
	if is(i.acquitAt) {
		i.acquitAt = time.Time{}
		i.r.acquit(i.id)
	}
	i.askOver(now)
	if i.silence(now) > i.rec.Deadline() && now.Sub(i.since) > grace {
		i.giveUp()
	}
}

// silence is for how long the source was not heard of while this agent ran. It
// is counted in running time and by this process's readings: the time of day may
// jump.
func (i *incoming) silence(now time.Time) time.Duration {
	if i.contact.IsZero() {
		return i.silent + now.Sub(i.since)
	}
	return now.Sub(i.contact)
}

// heard notes in a record that the source was heard of.
func (r *Receiver) heard(t *ledger.Tx, rec *ledger.Incoming) {
	rec.LastContact, rec.Heard = r.cfg.Clock.Now(), max(t.Running(), 1)
}

func (i *incoming) nextDue(now time.Time) time.Time {
	next := now.Add(time.Minute)
	if i.again != "" && i.live {
		if t := i.resynced.Add(resyncRepeat); t.Before(next) {
			next = t
		}
	}
	for _, t := range []time.Time{i.ackDue, i.groupDue, i.checkDue, i.openDue, i.offerDue, i.silentAt, i.acquitAt, i.overDue} {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return next
}

// idle runs when no message waits: what is complete need not wait for more.
func (i *incoming) idle() {
	if !i.live || i.commit != nil || i.cur != nil {
		return
	}
	if len(i.group) > 0 {
		i.handOver()
	} else {
		i.finishIfDecided()
	}
}
