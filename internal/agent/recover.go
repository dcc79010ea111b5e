package agent

import (
	"errors"

	"ferry/internal/audit"
	"ferry/internal/failpoint"
	"ferry/internal/ledger"
	"ferry/internal/sender"
	"ferry/internal/transfer"
)

// maxCrashes is how many crashes without progress park a transfer (R3).
const maxCrashes = 3

// recover brings the transfers of the ledger back (states table: after a crash).
func (a *Agent) recover() error {
	var recs []*ledger.Source
	if err := a.ledger.View(func(t *ledger.Tx) error {
		return t.Sources(func(s *ledger.Source) error {
			if !s.State.Final() {
				recs = append(recs, s)
			}
			return nil
		})
	}); err != nil {
		return err
	}

	if len(recs) > 0 {
		a.log.Info("resuming transfers of the previous run", "transfers", len(recs))
	}

	for _, rec := range recs {
		if err := a.revive(rec); err != nil {
			return err
		}
		failpoint.Hit("agent.after_revive")
		a.sched.add(sender.New(a.sendCfg, rec))
	}
	return nil
}

// revive writes what a crash has left as the state to go on from.
func (a *Agent) revive(rec *ledger.Source) error {
	was := rec.State
	crashed := a.ledger.Unclean() && was == transfer.Running
	if crashed {
		rec.Crashes++
	}

	var err error
	if was == transfer.Running {
		err = rec.Move(transfer.Negotiating)
	}

	if rec.State == transfer.Negotiating {
		rec.Nonce++
	}

	if rec.State == transfer.Negotiating || rec.State == transfer.Waiting {
		rec.Recovering = a.cfg.Clock.Now() // nobody could be heard of while the agent was down
	}

	parked := crashed && rec.Crashes >= maxCrashes && !rec.Cancel
	if parked {
		err = errors.Join(err, rec.Move(transfer.Parked))
		rec.Progress.Reason = transfer.Errorf(transfer.KindParked, "%s crashed %d times on transfer %s without progress", a.cfg.Name, rec.Crashes, rec.Request.ID).
			WithHint("see the agent's log, then `ferry transfer resume` or `ferry transfer cancel`")
	}
	if err != nil || rec.State == was && was != transfer.Negotiating && was != transfer.Waiting {
		return err
	}

	err = a.ledger.Update(func(t *ledger.Tx) error {
		if parked {
			if err := a.note(t, audit.Record{Event: audit.Parked, Role: audit.RoleSource, Transfer: rec.Request.ID,
				Source: rec.Request.Source, Destination: rec.Request.Destination, Error: rec.Progress.Reason}); err != nil {
				return err
			}
		}
		return t.PutSource(rec)
	})
	if err == nil && parked {
		a.log.Warn("transfer parked", "transfer", rec.Request.ID, "destination", rec.Request.Destination, "job", rec.Request.Job, "error", rec.Progress.Reason)
	}
	return err
}
