package ledger

import (
	"encoding/binary"
	"fmt"
	"time"

	"ferry/internal/transfer"
)

// An Incoming is the entry of a transfer that this agent receives.
type Incoming struct {
	V          int                 `json:"v"`
	Request    transfer.Request    `json:"request"` // without its items
	From       string              `json:"source_incarnation"`
	Principal  string              `json:"principal,omitempty"` // the submitter, as the source's agent vouches
	State      transfer.Incoming   `json:"state"`
	Epoch      uint32              `json:"epoch"`
	Nonce      uint64              `json:"nonce"` // of the last OPEN that was answered
	Settings   transfer.Settings   `json:"settings"`
	Resolution transfer.Resolution `json:"resolution"`
	Targets    Targets             `json:"targets,omitzero"` // of items with a DEST or options of their own
	Generations
	Extent
	Decided     transfer.ItemSet `json:"decided"`
	Temps       uint64           `json:"temps"` // items below have, or had, temporaries
	Counts      transfer.Counts  `json:"counts"`
	Live        bool             `json:"live,omitempty"` // an epoch was open when this was written
	Crashes     int              `json:"crashes,omitempty"`
	Pardon      uint64           `json:"pardon,omitempty"` // of the OPEN that reset Crashes last
	Started     time.Time        `json:"started"`
	LastContact time.Time        `json:"last_contact"`
	Heard       time.Duration    `json:"heard,omitempty"` // agent's running time at the last contact; 0: not known
	EndedAt     time.Duration    `json:"ended_at,omitempty"`
	Unswept     bool             `json:"unswept,omitempty"` // over, and temporaries may be left
	Taken       uint64           `json:"taken,omitempty"`   // with stored delivery: number of the epoch's last message with all data safe or decided
}

// An Extent is the number of a transfer's items, and the state of those that arrive together.
type Extent struct {
	Total    uint64 `json:"total"`
	HasTotal bool   `json:"has_total"`
	Set      Set    `json:"set,omitzero"` // if the request has Together
}

// A Set is the state of items that are to get their names together. Before either field is set, no item of the set is
// decided.
type Set struct {
	Failed     *transfer.Error `json:"failed,omitempty"`     // why no item gets its name; nil: no item has failed
	Committing bool            `json:"committing,omitempty"` // all were COMMITTING at once; a later failure affects one item alone
}

// Gathers reports whether the transfer's items are to get their names together, and have not yet reached COMMITTING or
// failed.
func (in *Incoming) Gathers() bool {
	return in.Request.Together && in.Set.Failed == nil && !in.Set.Committing
}

// Generations name the temporaries of a transfer.
type Generations struct {
	Generation uint64   `json:"generation"`                  // of temporaries that are written
	Older      []uint64 `json:"older_generations,omitempty"` // of earlier holders, before takeovers; see TakeOver
}

// Move takes the entry to a state; transfer.Incoming must allow the move. No epoch is open after it.
func (in *Incoming) Move(to transfer.Incoming) error {
	if !in.State.CanMove(to) {
		return fmt.Errorf("internal error: transfer %s cannot go from %s to %s at its destination", in.Request.ID, in.State, to)
	}
	in.State, in.Live = to, false
	return nil
}

// mostOlder bounds the generations in an entry.
const mostOlder = 64

// TakeOver makes another generation the one whose temporaries are used, after a takeover of the ledger.
func (in *Incoming) TakeOver(generation uint64) {
	in.Older = append(in.Older, in.Generation)
	in.Older = in.Older[max(0, len(in.Older)-mostOlder):]
	in.Generation = generation
}

// Deadline returns how long the destination waits for the source: twice the source's recovery time-out and an hour, or
// 30 days if that time-out is for ever.
func (in *Incoming) Deadline() time.Duration {
	if r := in.Request.RecoveryTimeout(); r >= 0 {
		return 2*r + time.Hour
	}
	return 30 * 24 * time.Hour
}

// An Item is the state of one incoming item in the ledger, from its first checkpoint or its commit until the source has
// its outcome.
type Item struct {
	V       int               `json:"v"`
	Point   *Checkpoint       `json:"point,omitempty"`      // Begun, with a safe point
	Intent  *transfer.Intent  `json:"committing,omitempty"` // Committing
	Outcome *transfer.Outcome `json:"outcome,omitempty"`    // COMMITTED or FAILED
}

// A Checkpoint is a point from which an item can be resumed.
type Checkpoint struct {
	transfer.Point
	Place   []byte        `json:"place"` // the place's own data for the resume
	Name    transfer.Path `json:"name"`
	To      uint64        `json:"to,omitempty"` // the target of its name; 0: the transfer's DEST
	Boot    string        `json:"boot"`
	Durable bool          `json:"durable"`
	// Begin is, with stored delivery, the beginning of the item, as JSON that the ledger does not read. The message
	// with the beginning is not in the store any more.
	Begin []byte `json:"begin,omitempty"`

	// Of a converted item.
	Plan    string             `json:"plan,omitempty"`    // the plan of the state
	State   []byte             `json:"state,omitempty"`   // of the conversion, at the point
	Written []transfer.Segment `json:"written,omitempty"` // of the temporary, up to Dest
}

func itemOf(k []byte) uint64 { return binary.BigEndian.Uint64(k[16:]) }

// Incoming returns the entry of a transfer; nil if there is none.
func (t *Tx) Incoming(id transfer.ID) (*Incoming, error) {
	in := new(Incoming)
	ok, err := getJSON(t.tx.Bucket(bIncoming), "incoming", id[:], in)
	if !ok || err != nil {
		return nil, err
	}
	return in, nil
}

// PutIncoming writes an entry. A final one also removes the data kept for its items; its directories stay while it is
// unswept.
func (t *Tx) PutIncoming(in *Incoming) error {
	in.V = recordVersion
	id := in.Request.ID
	if in.State.Final() {
		in.Decided = transfer.ItemSet{}
		in.EndedAt = t.Running()
		for _, b := range [][]byte{bItems, bGroups, bTargets, bFileIDs} {
			if err := dropAll(t.tx.Bucket(b), id[:]); err != nil {
				return err
			}
		}
		if in.Unswept {
			return putJSON(t.tx.Bucket(bIncoming), id[:], in)
		}
		if err := dropAll(t.tx.Bucket(bDirs), id[:]); err != nil {
			return err
		}
	}
	return putJSON(t.tx.Bucket(bIncoming), id[:], in)
}

// DropIncoming drops a transfer as if it had never been accepted.
func (t *Tx) DropIncoming(id transfer.ID) error {
	for _, b := range [][]byte{bItems, bGroups, bDirs, bTargets, bFileIDs} {
		if err := dropAll(t.tx.Bucket(b), id[:]); err != nil {
			return err
		}
	}
	return t.tx.Bucket(bIncoming).Delete(id[:])
}

// Incomings calls fn for every entry, oldest ID first.
func (t *Tx) Incomings(fn func(*Incoming) error) error {
	b := t.tx.Bucket(bIncoming)
	return each(b, nil, func(k, _ []byte) error {
		in := new(Incoming)
		if _, err := getJSON(b, "incoming", k, in); err != nil {
			return err
		}
		return fn(in)
	})
}

// PutItem writes an item's entry; DropItem drops it.
func (t *Tx) PutItem(id transfer.ID, item uint64, it Item) error { return t.entries(id).put(item, it) }

func (e entries) put(item uint64, it Item) error {
	if err := e.leaveGroups([]uint64{item}); err != nil {
		return err
	}
	it.V = recordVersion
	return putJSON(e.own, itemKey(e.id, item), it)
}

// DropItem drops an item after the source has its outcome.
func (t *Tx) DropItem(id transfer.ID, item uint64) error {
	return t.DropItems(id, []uint64{item})
}

// Item returns one item's entry; nil if there is none.
func (t *Tx) Item(id transfer.ID, item uint64) (*Item, error) {
	e, it := t.entries(id), new(Item)
	ok, err := getJSON(e.own, "item", itemKey(id, item), it)
	if err != nil {
		return nil, err
	}
	if !ok {
		return e.groupItem(item)
	}
	return it, nil
}

// Items calls fn for the entries of a transfer's items, in order.
func (t *Tx) Items(id transfer.ID, fn func(item uint64, it *Item) error) error {
	e := t.entries(id)
	groups, err := e.grouped()
	if err != nil {
		return err
	}

	err = each(e.own, id[:], func(k, _ []byte) error {
		for len(groups) > 0 && groups[0].n < itemOf(k) {
			if err := fn(groups[0].n, groups[0].it); err != nil {
				return err
			}
			groups = groups[1:]
		}
		it := new(Item)
		if _, err := getJSON(e.own, "item", k, it); err != nil {
			return err
		}
		return fn(itemOf(k), it)
	})
	for n := 0; err == nil && n < len(groups); n++ {
		err = fn(groups[n].n, groups[n].it)
	}
	return err
}

// PutDir records that temporaries of a transfer may be in a directory (R23), and whether the directory is missing. The
// first record of a directory stays.
func (t *Tx) PutDir(id transfer.ID, dir transfer.Path, missing bool) error {
	b, key := t.tx.Bucket(bDirs), dirKey(id, dir)
	if b.Get(key) != nil {
		return nil
	}
	v := []byte{recordVersion}
	if missing {
		v = binary.BigEndian.AppendUint64(v, t.l.generation)
	}
	return b.Put(key, v)
}

// MissingIn returns the generation of the ledger that first recorded a directory for a transfer, if the directory was
// missing then; otherwise 0.
func MissingIn(t *Tx, id transfer.ID, dir transfer.Path) uint64 {
	v := t.tx.Bucket(bDirs).Get(dirKey(id, dir))
	if len(v) != 9 {
		return 0
	}
	return binary.BigEndian.Uint64(v[1:])
}

func dirKey(id transfer.ID, dir transfer.Path) []byte {
	return append(append([]byte(nil), id[:]...), dir...)
}

// Dirs lists the directories of PutDir.
func (t *Tx) Dirs(id transfer.ID) (dirs []transfer.Path, err error) {
	err = each(t.tx.Bucket(bDirs), id[:], func(k, _ []byte) error {
		dirs = append(dirs, transfer.Path(k[16:]))
		return nil
	})
	return dirs, err
}
