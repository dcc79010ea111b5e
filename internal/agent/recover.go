package agent

import (
	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/sender"
	"ferry/internal/sys/failpoint"
)

// recover brings the transfers of the ledger back (states table: after a crash).
func (a *Agent) recover() error {
	var recs []*ledger.Source
	if err := a.ledger.View(func(t *ledger.Tx) error {
		return t.Sources(func(s *ledger.Source) error {
			if a.storing != nil {
				a.storing.Owes(s.Stores)
			}
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
		a.sched.Add(sender.New(a.sendCfg, rec))
	}
	return nil
}

// revive writes the state that a transfer continues with after a crash.
func (a *Agent) revive(rec *ledger.Source) error {
	parked, changed, err := sender.Revive(rec, a.ledger.Unclean(), a.cfg.Clock.Now())
	if err != nil || !changed {
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
