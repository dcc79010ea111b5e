// Package entry keeps the ledger entries of incoming transfers: their states, their items, and the directories of their
// temporaries. Each transition of a state is one method and one ledger transaction.
//
// An Entry belongs to the goroutine of its transfer. A Journal has constants only, and writes the entries of items from
// other goroutines.
//
//	Receiving  an epoch is open (live), or the next OPEN is awaited
//	Decided    all items are over; OUTCOMES is repeated
//	DONE       the source has the last OUTCOMES
//	ABANDONED  the source was silent until the deadline
//	CANCELLED  withdrawn by the source
package entry

import (
	"log/slog"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// Entries are the entries of all incoming transfers of one agent.
type Entries struct {
	Agent  transfer.AgentName
	Ledger *ledger.Ledger
	Note   func(*ledger.Tx, audit.Record) error // puts an audit record into the outbox
	Clock  clock.Clock
	Boot   string       // names this boot of the host
	Place  place.Target // its limits are in the audit; nil: it has none
	// Forget forgets the programs of a transfer that is over.
	Forget func(*ledger.Tx, *transfer.Request) error
}

// An Entry is the ledger entry of one transfer.
type Entry struct {
	ID        transfer.ID
	From      transfer.AgentName
	In        *ledger.Incoming // as the ledger has it; nil until accepted
	Adopted   bool             // from the ledger: an earlier process, or an earlier actor, began it
	Items     Items
	Tombstone Tombstone
	Log       *slog.Logger // with the transfer and its source

	all     *Entries
	journal *Journal // nil until In was known
	dirs    map[transfer.Path]bool
}

// Of returns the entry of a transfer from an agent. It does not read the ledger.
func (all *Entries) Of(id transfer.ID, from transfer.AgentName, log *slog.Logger) *Entry {
	return &Entry{ID: id, From: from, Log: log.With("transfer", id, "from", from), all: all, dirs: map[transfer.Path]bool{},
		Items: Items{all: all, id: id, mayHavePoint: map[uint64]bool{}}, Tombstone: Tombstone{all, id, from}}
}

// Unwritable returns a reason to wait: a ledger that cannot be written now is no verdict on a transfer.
func (all *Entries) Unwritable(err error) *transfer.Error {
	if e := transfer.AsError(err); e.Kind.Waits() {
		return e
	}
	return transfer.Errorf(transfer.KindBusy, "%s cannot read or write its ledger: %w", all.Agent, err)
}

// SetRecord takes a state of the entry.
func (e *Entry) SetRecord(in *ledger.Incoming) {
	e.In = in
	if in != nil && e.journal == nil {
		q := &in.Request
		e.journal = &Journal{all: e.all, id: e.ID, from: e.From, job: q.Job, principal: in.Principal, originator: q.Originator,
			Durable: q.Durable(), together: q.Together, replaces: q.Options.Replaces()}
	}
}

// Journal returns the journal of the entry's items. Background work may use it.
func (e *Entry) Journal() *Journal { return e.journal }

// Load reads the entry, if there is one.
func (e *Entry) Load() error {
	return e.all.Ledger.View(func(t *ledger.Tx) error {
		in, err := t.Incoming(e.ID)
		if err == nil {
			e.SetRecord(in)
		}
		return err
	})
}

// update changes the entry in a transaction of its own.
func (e *Entry) update(change func(t *ledger.Tx, in *ledger.Incoming) error) error {
	var after *ledger.Incoming
	err := e.all.Ledger.Update(func(t *ledger.Tx) error {
		in, err := t.Incoming(e.ID)
		if err != nil {
			return err
		}
		if in == nil {
			return transfer.Errorf(transfer.KindInternal, "the record of transfer %s is gone", e.ID)
		}
		if err := change(t, in); err != nil {
			return err
		}
		after = in
		return t.PutIncoming(in)
	})
	if err == nil {
		e.SetRecord(after)
	}
	return err
}

// set changes fields of the entry.
func (e *Entry) set(change func(in *ledger.Incoming)) error {
	return e.update(func(_ *ledger.Tx, in *ledger.Incoming) error {
		change(in)
		return nil
	})
}

// Unwritable is Entries.Unwritable.
func (e *Entry) Unwritable(err error) *transfer.Error { return e.all.Unwritable(err) }

// Stored reports whether the transfer comes through the store.
func (e *Entry) Stored() bool { return e.In != nil && e.In.Request.Stored() }

// Gathers reports whether items are held until all are there.
func (e *Entry) Gathers() bool {
	return e.In != nil && e.In.Gathers()
}

// Crashed counts a panic against the transfer like a crash of the process.
func (e *Entry) Crashed() error {
	if e.In == nil || e.In.State.Final() {
		return nil
	}
	return e.set(func(in *ledger.Incoming) { in.Crashes++ })
}

// CrashedLive counts a crash of the process while an epoch was open.
func (e *Entry) CrashedLive() error {
	return e.set(func(in *ledger.Incoming) {
		in.Crashes++
		in.Live = false
	})
}

// Progressed resets the count of crashes: the transfer does not crash the agent.
func (e *Entry) Progressed() error {
	return e.set(func(in *ledger.Incoming) { in.Crashes = 0 })
}

// ResetCrashes resets the count of crashes after an operator has resumed the transfer.
func (e *Entry) ResetCrashes(pardon uint64) error {
	return e.set(func(in *ledger.Incoming) { in.Crashes, in.Pardon = 0, pardon })
}

// FailSet records that no item of a set gets its name, with the reason.
func (e *Entry) FailSet(why *transfer.Error) error {
	err := e.set(func(in *ledger.Incoming) { in.Set.Failed = why })
	failpoint.Hit("receiver.set_failed")
	return err
}

// Heard records the present contact with the source.
func (e *Entry) Heard() error {
	return e.update(func(t *ledger.Tx, in *ledger.Incoming) error {
		e.all.heard(t, in)
		return nil
	})
}

// heard records the present contact with the source in an entry.
func (all *Entries) heard(t *ledger.Tx, in *ledger.Incoming) {
	in.LastContact, in.Heard = all.Clock.Now(), max(t.Running(), 1)
}
