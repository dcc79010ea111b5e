package entry

import (
	"fmt"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// TakeOver moves the transfers of the ledger to this run's generation, if the ledger was taken over from an instance
// that may still live. After that this run writes to no file that the instance may write to (R34).
func (all *Entries) TakeOver() error {
	if !all.Ledger.TakenOver() {
		return nil
	}
	return all.Ledger.Update(func(t *ledger.Tx) error {
		var ins []*ledger.Incoming
		if err := t.Incomings(func(in *ledger.Incoming) error {
			if !in.State.Final() {
				ins = append(ins, in)
			}
			return nil
		}); err != nil {
			return err
		}
		for _, in := range ins {
			in.TakeOver(all.Ledger.Generation())
			if err := t.PutIncoming(in); err != nil {
				return err
			}
		}
		return nil
	})
}

// Unfinished returns the entries of transfers that are not over. It passes those that need no actor before their source
// sends a message to resting instead, with the time that the source had been silent.
func (all *Entries) Unfinished(resting func(in *ledger.Incoming, silent time.Duration)) (active []*ledger.Incoming, err error) {
	err = all.Ledger.View(func(t *ledger.Tx) error {
		return t.Incomings(func(in *ledger.Incoming) error {
			if in.State.Final() {
				return nil
			}
			rests, err := restsIn(t, in)
			if rests {
				resting(in, silentFor(t, in))
			} else {
				active = append(active, in)
			}
			return err
		})
	})
	return active, err
}

// restsIn reports whether an entry of an earlier run needs no actor before its source sends a message.
func restsIn(t *ledger.Tx, in *ledger.Incoming) (bool, error) {
	if in.State != transfer.Receiving || in.Live || in.Crashes > 0 || in.Decided.Count() > 0 {
		return false, nil
	}
	rests := true
	err := t.Items(in.Request.ID, func(uint64, *ledger.Item) error {
		rests = false
		return nil
	})
	return rests, err
}

// silentFor returns how long an entry's source had been silent when the run before this one ended, in the agent's
// running time.
func silentFor(t *ledger.Tx, in *ledger.Incoming) time.Duration {
	if in.Heard == 0 {
		return 0
	}
	return max(0, t.Running()-in.Heard-time.Minute) // both have a resolution of one minute
}

// Receiving returns the entries of all transfers in that state.
func (all *Entries) Receiving() (ins []*ledger.Incoming, err error) {
	err = all.Ledger.View(func(t *ledger.Tx) error {
		return t.Incomings(func(in *ledger.Incoming) error {
			if in.State == transfer.Receiving {
				ins = append(ins, in)
			}
			return nil
		})
	})
	return ins, err
}

// Adopt takes over the entry from an earlier actor, or an earlier process. It returns the outcomes that the source may
// not have, and the time that the source had been silent.
func (e *Entry) Adopt() (outcomes []transfer.Outcome, silent time.Duration, err error) {
	e.Adopted = true
	err = e.all.Ledger.View(func(t *ledger.Tx) error {
		silent = silentFor(t, e.In)
		outcomes, err = e.Items.outcomes(t)
		return err
	})
	return outcomes, silent, err
}

// An EndedTransfer is a transfer that is over, with the directories that may have temporaries left.
type EndedTransfer struct {
	In   *ledger.Incoming
	Dirs []transfer.Path
}

// Unswept returns the transfers that are over and may have left temporaries.
func (all *Entries) Unswept() (left []EndedTransfer, err error) {
	err = all.Ledger.View(func(t *ledger.Tx) error {
		return t.Incomings(func(in *ledger.Incoming) error {
			if !in.Unswept {
				return nil
			}
			dirs, err := t.Dirs(in.Request.ID)
			left = append(left, EndedTransfer{in, dirs})
			return err
		})
	})
	return left, err
}

// Swept records that a transfer has no temporaries left.
func (all *Entries) Swept(id transfer.ID) error {
	return all.Ledger.Update(func(t *ledger.Tx) error {
		in, err := t.Incoming(id)
		if err != nil || in == nil {
			return err
		}
		in.Unswept = false
		return t.PutIncoming(in)
	})
}

// Find returns the entry of a transfer, with the directories that may have temporaries. In is nil if there is none.
func (all *Entries) Find(id transfer.ID) (left EndedTransfer, err error) {
	err = all.Ledger.View(func(t *ledger.Tx) (err error) {
		if left.In, err = t.Incoming(id); err == nil {
			left.Dirs, err = t.Dirs(id)
		}
		return err
	})
	return left, err
}

// Abandon ends a transfer with temporaries that could not be removed.
func (all *Entries) Abandon(in *ledger.Incoming) error {
	in.Unswept = true
	if err := in.Move(transfer.Abandoned); err != nil {
		return err
	}
	return all.Ledger.Update(func(t *ledger.Tx) error { return t.PutIncoming(in) })
}

// Drop drops the entry of a transfer without data.
func (all *Entries) Drop(id transfer.ID) error {
	return all.Ledger.Update(func(t *ledger.Tx) error { return t.DropIncoming(id) })
}

// NoteRefused records in the audit that a transfer was refused, and the number of refusals before it that have no
// record of their own.
func (all *Entries) NoteRefused(id transfer.ID, from transfer.AgentName, principal string, why error, before int64) error {
	e := transfer.AsError(why)
	rec := audit.Record{Event: audit.Refused, Role: audit.RoleDestination, Transfer: id, Source: from, Destination: all.Agent,
		Principal: principal, Code: e.Kind.Code(), Error: e}
	if before > 0 {
		rec.Text = fmt.Sprintf("%d more were refused before it", before)
	}
	return all.Ledger.Update(func(t *ledger.Tx) error { return all.Note(t, rec) })
}

// A Tombstone is the record of a transfer that has no entry.
type Tombstone struct {
	all  *Entries
	id   transfer.ID
	from transfer.AgentName
}

// Put leaves a tombstone of the transfer: it was cancelled before its request arrived.
func (t *Tombstone) Put() error {
	return t.all.Ledger.Update(func(tx *ledger.Tx) error { return tx.PutSourceTombstone(t.id, t.from) })
}

// Exists reports whether there is a tombstone.
func (t *Tombstone) Exists() (is bool, err error) {
	err = t.all.Ledger.View(func(tx *ledger.Tx) error {
		is = tx.HasSourceTombstone(t.id, t.from)
		return nil
	})
	return is, err
}

// MarkFirstMessageMissing records that the transfer, which has no entry, has stored messages without the first one.
func (t *Tombstone) MarkFirstMessageMissing() error {
	return t.all.Ledger.Update(func(tx *ledger.Tx) error { return ledger.MarkFirstMessageMissing(tx, t.id, t.from) })
}

// FirstMessageMissing reports whether MarkFirstMessageMissing has recorded that.
func (t *Tombstone) FirstMessageMissing() (is bool, err error) {
	err = t.all.Ledger.View(func(tx *ledger.Tx) (err error) {
		is, err = ledger.FirstMessageMissing(tx, t.id, t.from)
		return err
	})
	return is, err
}

// UnmarkFirstMessageMissing takes back the record of MarkFirstMessageMissing.
func (t *Tombstone) UnmarkFirstMessageMissing() error {
	return t.all.Ledger.Update(func(tx *ledger.Tx) error { return ledger.UnmarkFirstMessageMissing(tx, t.id, t.from) })
}
