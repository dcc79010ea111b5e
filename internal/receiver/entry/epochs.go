package entry

import (
	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// ErrCancelled refuses a transfer that was cancelled before it began.
var ErrCancelled = transfer.Errorf(transfer.KindCancelled, "the transfer was cancelled before it began")

// Begin writes the entry of a transfer that is new here. home has the directories that hold for all items; rules are
// the rules that admit the transfer.
func (e *Entry) Begin(home *place.Location, lane, rules string) error {
	in, cancelled := e.In, false
	err := e.all.Ledger.Update(func(t *ledger.Tx) error {
		if cancelled = t.HasSourceTombstone(e.ID, e.From); cancelled {
			return nil
		}
		e.all.heard(t, in)
		in.Temps = tempsAhead
		if err := e.putDirs(t, home); err != nil {
			return err
		}
		if err := t.PutIncoming(in); err != nil {
			return err
		}
		return e.all.Note(t, e.journal.record(audit.Started, func(a *audit.Record) {
			a.Meta, a.Request, a.Lane = in.Request.Meta, audit.FactsOf(&in.Request), lane
			a.Request.Settings, a.Request.Rule, a.Limits = in.Settings, rules, place.TargetLimits(e.all.Place, in.Request.Dest.Place)
		}))
	})
	failpoint.Hit("receiver.after_open")
	if err != nil {
		return e.Unwritable(err)
	}

	e.notedDirs(home.NewDirs)
	e.notedDirs(home.TempDirs)
	if cancelled {
		return ErrCancelled
	}

	e.Log.Info("incoming transfer started", "job", in.Request.Job, "lane", lane, "to", in.Resolution.Base)
	return nil
}

// NewEpoch counts the epoch up and returns the resume points. The epoch may be issued only once its entry is durable
// (R11). In answer to an OPEN, the new epoch is also beyond every epoch that the source has heard of: this ledger may
// have been restored, or another agent may have answered under this name. o is that OPEN, or nil. resumed is as in
// Resume.
func (e *Entry) NewEpoch(nonce uint64, o *wire.Open, resumed func(item uint64) bool) (transfer.Resume, error) {
	var resume transfer.Resume
	err := e.update(func(t *ledger.Tx, in *ledger.Incoming) error {
		if o != nil {
			in.Epoch = max(in.Epoch, o.Epoch)
			in.Request.Recovery = o.Request.Recovery
		}
		in.Epoch++
		in.Nonce, in.Live = nonce, true
		e.all.heard(t, in)
		resume = transfer.Resume{Decided: in.Decided}
		return e.Items.resume(t, &resume, resumed)
	})
	failpoint.Hit("receiver.after_epoch")
	return resume, err
}

// Resume returns the resume points of items. resumed reports whether this process has an item open, with a
// digest that can go on.
func (e *Entry) Resume(resumed func(item uint64) bool) (transfer.Resume, error) {
	resume := transfer.Resume{Decided: e.In.Decided}
	err := e.all.Ledger.View(func(t *ledger.Tx) error { return e.Items.resume(t, &resume, resumed) })
	return resume, err
}

// Enter records an epoch that the source has issued, of stored delivery.
func (e *Entry) Enter(o *wire.Open, live bool) error {
	err := e.update(func(t *ledger.Tx, in *ledger.Incoming) error {
		in.Epoch, in.Taken, in.Live = o.Stored.Epoch, 0, live
		in.Nonce = max(in.Nonce, o.Nonce)
		in.Request.Recovery = o.Request.Recovery
		e.all.heard(t, in)
		return nil
	})
	failpoint.Hit("receiver.after_epoch")
	return err
}

// SetLive records whether an epoch is open.
func (e *Entry) SetLive(live bool) error {
	return e.set(func(in *ledger.Incoming) { in.Live = live })
}

// SetTaken records the number of the last stored message with all data safe or decided.
func (e *Entry) SetTaken(seq uint64) error {
	return e.set(func(in *ledger.Incoming) { in.Taken = seq })
}

// AddTargets records targets that are new, and returns the resolved ones among those of an OPEN. all says that no more
// follow.
func (e *Entry) AddTargets(asked []transfer.Target, fresh []ledger.Target, all bool) (resolved []transfer.Resolved, err error) {
	err = e.update(func(t *ledger.Tx, in *ledger.Incoming) error {
		resolved = nil
		for _, a := range asked {
			if a.N > in.Targets.Last {
				break
			}
			g, err := t.Requests().Target(e.ID, a.N)
			if err != nil {
				return err
			}
			if g != nil {
				resolved = append(resolved, g.Resolved())
			}
		}
		if len(fresh) > 0 {
			in.Targets.Last, in.Targets.All = fresh[len(fresh)-1].N, all
			for n := range fresh {
				in.Targets.Bytes += len(wire.Marshal(fresh[n]))
				resolved = append(resolved, fresh[n].Resolved())
			}
		}
		return t.Requests().PutTargets(e.ID, fresh)
	})
	if err != nil {
		return nil, e.Unwritable(err)
	}
	return resolved, nil
}
