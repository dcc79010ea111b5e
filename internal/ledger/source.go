package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

const recordVersion = 1

// A Source is the entry of a transfer that this agent sends. When the transfer is over, the entry is all that remains
// of it (R25).
type Source struct {
	V          int              `json:"v"`
	Request    transfer.Request `json:"request"` // without its items once it is over
	Hash       string           `json:"hash"`    // of the submitted request
	Accepted   time.Time        `json:"accepted"`
	Recovering time.Time        `json:"recovering,omitzero"` // start of the recovery time-out: no progress since; zero: there is progress

	State      transfer.State       `json:"state"`
	Progress   transfer.Progress    `json:"progress"`
	Nonce      uint64               `json:"nonce,omitempty"`
	Epoch      uint32               `json:"epoch,omitempty"`
	Dest       string               `json:"destination_incarnation,omitempty"` // set at the first ACCEPT
	Resolution *transfer.Resolution `json:"resolution,omitempty"`
	Targets    uint64               `json:"targets,omitempty"` // the last item with a resolved DEST of its own, from 1
	Journal    bool                 `json:"journal,omitempty"` // the item journal has been made, and must be there
	Decided    transfer.ItemSet     `json:"decided"`
	Crashes    int                  `json:"crashes,omitempty"`
	Cancel     bool                 `json:"cancel,omitempty"`  // requested, and not done yet
	Pardon     uint64               `json:"pardon,omitempty"`  // how often an operator has resumed it
	Settled    bool                 `json:"settled,omitempty"` // every outcome is recorded
	Programs   Programs             `json:"programs,omitzero"`
	LastStored uint64               `json:"stored,omitempty"`     // with stored delivery: number of the epoch's last message, once all are in the store
	Stores     []string             `json:"shelves,omitempty"`    // the queue managers that have, or had, the epochs, the last one last: tokens; empty: the agent's own
	StoredFor  string               `json:"stored_for,omitempty"` // mark of the ledger that had the destination's name when the first epoch was stored; empty: none
	EndedAt    time.Duration        `json:"ended_at,omitempty"`   // agent's running time

	word.Origin             // of the request
	Canceller   word.Origin `json:"canceller,omitzero"` // of the cancel
}

// Store returns the queue manager that stores the newest epoch; empty: the agent's own.
func (s *Source) Store() string {
	if len(s.Stores) == 0 {
		return ""
	}
	return s.Stores[len(s.Stores)-1]
}

// EndedUnknown reports whether the transfer was accepted in an earlier ledger, and ended here without its
// request.
func (s *Source) EndedUnknown() bool { return s.Hash == "" && s.State.Final() }

// Programs is the status of a transfer's triggers and programs. The result of each program is in package
// automation/call.
type Programs struct {
	Met    bool            `json:"met,omitempty"`    // every trigger was met, and they are not looked at again
	Ready  bool            `json:"ready,omitempty"`  // the pre-source exit and program have ended well, too
	Chosen bool            `json:"chosen,omitempty"` // the exit has chosen the files to send
	Failed *transfer.Error `json:"failed,omitempty"` // of the first later program that failed
	// Arrived are the items that have certainly arrived, as far as they fit: for an exit at the end.
	Arrived transfer.ItemRanges `json:"arrived,omitempty"`
	// AtDest is when the destination first said that an exit of its own runs; zero: there was progress since.
	AtDest time.Time `json:"at_destination,omitzero"`
}

// Fail records the first failure; a nil e is none.
func (p *Programs) Fail(e *transfer.Error) {
	if p.Failed == nil {
		p.Failed = e
	}
}

// Move takes the entry through states; transfer.State must allow each move.
func (s *Source) Move(to ...transfer.State) error {
	for _, next := range to {
		if !s.State.CanMove(next) {
			return fmt.Errorf("internal error: transfer %s cannot go from %s to %s", s.Request.ID, s.State, next)
		}
		s.State, s.Progress.State = next, next
	}
	return nil
}

// A Delete is a source file that is to be removed (R28). Aside is set before the file is renamed.
type Delete struct {
	V       int              `json:"v"`
	Source  transfer.Path    `json:"source"`
	Picked  transfer.Path    `json:"picked,omitempty"` // of the item
	Version transfer.Version `json:"version"`
	Aside   string           `json:"aside,omitempty"`
	Archive transfer.Path    `json:"archive,omitempty"` // the archive path for the source, if its name there is free
	Form    bool             `json:"form,omitempty"`    // the stored form of its content goes, too
}

// Reads returns the path that is read; see transfer.Item.Reads.
func (d *Delete) Reads() transfer.Path { return cmp.Or(d.Picked, d.Source) }

// Source returns the entry of a transfer; nil if there is none.
func (t *Tx) Source(id transfer.ID) (*Source, error) {
	s := new(Source)
	ok, err := getJSON(t.tx.Bucket(bSource), "source", id[:], s)
	if !ok || err != nil {
		return nil, err
	}
	return s, nil
}

// PutSource writes an entry. A final one also removes the data kept for its items.
func (t *Tx) PutSource(s *Source) error {
	s.V = recordVersion
	if s.State.Final() {
		if err := endRetry(t, &s.Request, s.Principal); err != nil {
			return err
		}
		s.Request.Items, s.Request.Triggers, s.Request.Programs = nil, nil, nil
		if again := s.Request.Retry; again != nil {
			s.Request.Retry = &transfer.Retry{Of: again.Of}
		}
		s.Decided, s.Programs.Arrived = transfer.ItemSet{}, nil
		s.EndedAt = t.Running()
		for _, b := range [][]byte{bDeletes, bAcceptedParts, bResolved} {
			if err := dropAll(t.tx.Bucket(b), s.Request.ID[:]); err != nil {
				return err
			}
		}
	}
	return putJSON(t.tx.Bucket(bSource), s.Request.ID[:], s)
}

// Sources calls fn for every entry, oldest ID first.
func (t *Tx) Sources(fn func(*Source) error) error {
	b := t.tx.Bucket(bSource)
	return each(b, nil, func(k, _ []byte) error {
		s := new(Source)
		if _, err := getJSON(b, "source", k, s); err != nil {
			return err
		}
		return fn(s)
	})
}

// PutDelete records a source file to delete; DropDelete drops that entry.
func (t *Tx) PutDelete(id transfer.ID, item uint64, d Delete) error {
	d.V = recordVersion
	return putJSON(t.tx.Bucket(bDeletes), itemKey(id, item), d)
}

// DropDelete drops a deletion that is done or given up.
func (t *Tx) DropDelete(id transfer.ID, item uint64) error {
	return t.tx.Bucket(bDeletes).Delete(itemKey(id, item))
}

// DropDeletes drops all deletions of a transfer, and returns their number.
func DropDeletes(t *Tx, id transfer.ID) (n int64, err error) {
	b := t.tx.Bucket(bDeletes)
	if err := each(b, id[:], func(_, _ []byte) error { n++; return nil }); err != nil {
		return 0, err
	}
	return n, dropAll(b, id[:])
}

// Deletes returns up to limit deletions of a transfer, with their item numbers.
func (l *Ledger) Deletes(id transfer.ID, limit int) (items []uint64, out []Delete, err error) {
	err = l.View(func(t *Tx) error {
		b := t.tx.Bucket(bDeletes)
		return each(b, id[:], func(k, _ []byte) error {
			if len(items) == limit {
				return nil
			}
			var d Delete
			if _, err := getJSON(b, "delete", k, &d); err != nil {
				return err
			}
			items = append(items, itemOf(k))
			out = append(out, d)
			return nil
		})
	})
	return items, out, err
}

// Floor returns the greatest ID of a principal's transfers that the ledger has forgotten: an unknown ID at or below it
// may be an old one. Without a principal it returns the floor of all principals.
func (t *Tx) Floor(principal string) transfer.ID { return floorOf(t, transferFloors, principal) }

// Running returns for how long agents have run on this ledger, over all runs.
func (t *Tx) Running() time.Duration {
	return time.Duration(getU64(t.tx.Bucket(bMeta), "running"))
}

// AddRunning adds to the running time.
func (l *Ledger) AddRunning(d time.Duration) error {
	return l.Update(func(t *Tx) error {
		return putU64(t.tx.Bucket(bMeta), "running", uint64(t.Running()+d))
	})
}

// forgetAtOnce is how many entries one transaction of Forget drops.
const forgetAtOnce = 256

// Forget drops entries that ended more than keep of running time ago. It looks for them without holding up writers. A
// transfer whose ID is dated later than keep ago stays, so that the floor never rises over IDs that may be new.
func (l *Ledger) Forget(keep time.Duration) error {
	var old oldRecords
	err := l.View(func(t *Tx) (err error) {
		old, err = t.old(t.Running()-keep, l.opt.Clock.Now().Add(-keep))
		return err
	})
	for err == nil && old.count() > 0 {
		now := old.head(forgetAtOnce)
		err = l.Update(func(t *Tx) error { return t.drop(now) })
	}
	return err
}

// oldRecords are the keys of entries that can be forgotten.
type oldRecords struct {
	sources, incomings []transfer.ID
	commands           [][]byte
	parts              [][]byte
}

func (o *oldRecords) count() int {
	return len(o.sources) + len(o.incomings) + len(o.commands) + len(o.parts)
}

// head removes up to n keys of each kind and returns them.
func (o *oldRecords) head(n int) (h oldRecords) {
	h.sources, o.sources = o.sources[:min(n, len(o.sources))], o.sources[min(n, len(o.sources)):]
	h.incomings, o.incomings = o.incomings[:min(n, len(o.incomings))], o.incomings[min(n, len(o.incomings)):]
	h.commands, o.commands = o.commands[:min(n, len(o.commands))], o.commands[min(n, len(o.commands)):]
	h.parts, o.parts = o.parts[:min(n, len(o.parts))], o.parts[min(n, len(o.parts)):]
	return h
}

// old finds the entries that ended before the given running time.
func (t *Tx) old(before time.Duration, dated time.Time) (o oldRecords, err error) {
	if err := t.Sources(func(s *Source) error {
		if s.State.Final() && s.EndedAt < before && s.Request.ID.Time().Before(dated) {
			o.sources = append(o.sources, s.Request.ID)
		}
		return nil
	}); err != nil {
		return o, err
	}
	if err := t.Incomings(func(in *Incoming) error {
		if in.State.Final() && in.EndedAt < before {
			o.incomings = append(o.incomings, in.Request.ID)
		}
		return nil
	}); err != nil {
		return o, err
	}

	if o.parts, err = oldParts(t); err != nil {
		return o, err
	}

	o.commands, err = oldCommands(t, before, dated)
	return o, err
}

// drop drops entries and raises the floor over the sources among them.
func (t *Tx) drop(o oldRecords) error {
	for _, id := range o.sources {
		if err := errors.Join(transferFloors.raise(t, id), t.tx.Bucket(bSource).Delete(id[:])); err != nil {
			return err
		}
	}

	for _, id := range o.incomings {
		if err := t.tx.Bucket(bIncoming).Delete(id[:]); err != nil {
			return err
		}
		if err := dropAll(t.tx.Bucket(bDirs), id[:]); err != nil {
			return err
		}
	}
	return errors.Join(dropParts(t, o.parts), dropCommands(t, o.commands))
}
