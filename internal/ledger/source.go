package ledger

import (
	"time"

	"ferry/internal/transfer"
)

const recordVersion = 1

// A Source is the record of a transfer that this agent sends. When the
// transfer is over it is all that remains of it (R25).
type Source struct {
	V          int              `json:"v"`
	Request    transfer.Request `json:"request"` // without Sources once it is over
	Hash       string           `json:"hash"`    // of the request as it was submitted
	Principal  string           `json:"principal,omitempty"`
	Accepted   time.Time        `json:"accepted"`
	Recovering time.Time        `json:"recovering,omitzero"` // since when nothing has moved: where the recovery time-out starts; zero while it moves

	State      transfer.State       `json:"state"`
	Progress   transfer.Progress    `json:"progress"`
	Nonce      uint64               `json:"nonce,omitempty"`
	Epoch      uint32               `json:"epoch,omitempty"`
	Dest       string               `json:"destination_incarnation,omitempty"` // set at the first ACCEPT
	Resolution *transfer.Resolution `json:"resolution,omitempty"`
	Decided    transfer.ItemSet     `json:"decided"`
	Crashes    int                  `json:"crashes,omitempty"`
	Cancel     bool                 `json:"cancel,omitempty"`   // asked for, and not done yet
	Pardon     uint64               `json:"pardon,omitempty"`   // how often an operator has resumed it
	EndedAt    time.Duration        `json:"ended_at,omitempty"` // agent's running time
}

// A Delete is a source file that is to be removed (R28). Aside is set before
// the file is renamed out of the way.
type Delete struct {
	V        int               `json:"v"`
	Source   transfer.Path     `json:"source"`
	Identity transfer.Identity `json:"identity"`
	Aside    string            `json:"aside,omitempty"`
}

// Source reads a record; nil where there is none.
func (t *Tx) Source(id transfer.ID) (*Source, error) {
	s := new(Source)
	ok, err := getJSON(t.tx.Bucket(bSource), "source", id[:], s)
	if !ok || err != nil {
		return nil, err
	}
	return s, nil
}

// PutSource writes a record. A final one takes with it what was kept for its
// items.
func (t *Tx) PutSource(s *Source) error {
	s.V = recordVersion
	if s.State.Final() {
		s.Request.Sources = nil
		s.Decided = transfer.ItemSet{}
		s.EndedAt = t.Running()
		if err := dropAll(t.tx.Bucket(bDeletes), s.Request.ID[:]); err != nil {
			return err
		}
	}
	return putJSON(t.tx.Bucket(bSource), s.Request.ID[:], s)
}

// Sources calls fn for every record, oldest ID first.
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

// PutDelete notes a source file to delete; DropDelete that it is done.
func (t *Tx) PutDelete(id transfer.ID, item uint64, d Delete) error {
	d.V = recordVersion
	return putJSON(t.tx.Bucket(bDeletes), itemKey(id, item), d)
}

// DropDelete forgets a deletion that is done or given up.
func (t *Tx) DropDelete(id transfer.ID, item uint64) error {
	return t.tx.Bucket(bDeletes).Delete(itemKey(id, item))
}

// Deletes gives up to limit deletions of a transfer.
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

// Floor is the greatest ID that the ledger has forgotten: an unknown ID at or
// below it may be an old one.
func (t *Tx) Floor() transfer.ID {
	var id transfer.ID
	copy(id[:], t.tx.Bucket(bMeta).Get([]byte("floor")))
	return id
}

// Running is for how long agents have run on this ledger, over all runs.
func (t *Tx) Running() time.Duration {
	return time.Duration(getU64(t.tx.Bucket(bMeta), "running"))
}

// AddRunning counts running time on and forgets what ended more than keep of
// it ago.
func (l *Ledger) AddRunning(d, keep time.Duration) error {
	return l.Update(func(t *Tx) error {
		m := t.tx.Bucket(bMeta)
		now := t.Running() + d
		if err := putU64(m, "running", uint64(now)); err != nil {
			return err
		}
		return t.forget(now - keep)
	})
}

// forget drops the records that ended before the given running time and raises
// the floor over them.
func (t *Tx) forget(before time.Duration) error {
	floor := t.Floor()
	var old []transfer.ID
	err := t.Sources(func(s *Source) error {
		if s.State.Final() && s.EndedAt < before {
			old = append(old, s.Request.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var oldIn []transfer.ID
	if err := t.Incomings(func(in *Incoming) error {
		if in.State.Final() && in.EndedAt < before {
			oldIn = append(oldIn, in.Request.ID)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, id := range old {
		if string(id[:]) > string(floor[:]) {
			floor = id
		}
		if err := t.tx.Bucket(bSource).Delete(id[:]); err != nil {
			return err
		}
	}
	for _, id := range oldIn {
		if err := t.tx.Bucket(bIncoming).Delete(id[:]); err != nil {
			return err
		}
	}
	if err := t.forgetCommands(before); err != nil {
		return err
	}
	return t.tx.Bucket(bMeta).Put([]byte("floor"), floor[:])
}
