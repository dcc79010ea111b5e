package receiver

import (
	"time"

	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// settleCommitting decides items that were left in COMMITTING, by a crash or by a directory that could not be synced
// (R21, R22). If that is not possible yet, it tells the source to wait and reports false.
func (i *incoming) settleCommitting() bool {
	intents, err := i.entry.Intents()
	for n := 0; err == nil && n < len(intents); n++ {
		err = i.com.settleIntent(intents[n])
	}
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

func (cm *committer) settleIntent(in transfer.Intent) error {
	d, err := cm.to.at(in.Outcome.To)
	if err != nil {
		return err
	}

	verdict, outcome, err := d.landing.Recover(in, cm.r.cfg.Boot)
	failpoint.Hit("recover.decided")
	if err != nil {
		return err
	}

	cm.log.Info("recovered item in COMMITTING", "item", in.Outcome.Item, "path", in.Outcome.Path, "verdict", verdict)
	if verdict == place.Redo {
		err := cm.forgetPoint(in.Outcome.Item)
		if err == errRedo {
			return nil
		}
		return err
	}
	return cm.decide(outcome)
}

// landingOf returns the landing configuration of a transfer, which names its temporaries.
func landingOf(in *ledger.Incoming) place.LandConfig {
	return place.LandConfig{Transfer: in.Request.ID, Principal: in.Principal, Generation: in.Generation, Older: in.Older, Patience: patience(&in.Request)}
}

// mostPatience is the longest that an item waits for an obstacle at its destination.
const mostPatience = 10 * time.Minute

// patience returns how long an item waits for an obstacle. It ends two attempts before the source's recovery time-out:
// the item then fails with its reason, and the transfer does not fail without one.
func patience(q *transfer.Request) time.Duration {
	if r := time.Duration(q.Recovery); r > 0 {
		return min(mostPatience, max(r/2, r-8*time.Second))
	}
	return mostPatience
}

// revive makes the actor of a transfer in the ledger, at the start.
func (r *Receiver) revive(rec *ledger.Incoming) error {
	i := r.newActor(rec.Request.ID, rec.Request.Source)
	if err := i.adopt(rec); err != nil {
		return err
	}

	if r.cfg.Ledger.Unclean() && rec.Live {
		if err := i.entry.CrashedLive(); err != nil {
			return err
		}
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.start(i)
	return nil
}

// adopt takes over a ledger entry, with its outcomes: outcomes that the source may not have are offered again.
func (i *incoming) adopt(rec *ledger.Incoming) error {
	i.entry.Know(rec)
	if rec.State.Final() {
		return nil
	}

	i.land()
	var err error
	i.com.offers.waiting, i.contact.before, err = i.entry.Adopt()
	return err
}
