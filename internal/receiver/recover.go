package receiver

import (
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

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

	i.to.Land()
	var err error
	i.offers.waiting, i.contact.before, err = i.entry.Adopt()
	return err
}
