package ledger

import (
	"encoding/json"

	"ferry/internal/transfer"
)

// MaxTombstones bounds the tombstones, of cancelled IDs whose request was never seen. Beyond it the oldest tombstone of
// the largest sharer is dropped.
const MaxTombstones = 10_000

// The first byte of a tombstone's key is the kind of its sharer.
const (
	tombstoneOfAll       = '*' // it holds for all principals
	tombstoneOfPrincipal = 'p'
	tombstoneOfSource    = 's' // an agent; at the destination
)

func tombstoneKey(of byte, sharer string, id transfer.ID) []byte {
	return append(append([]byte{of}, keyOf(sharer)...), id[:]...)
}

// A Tombstone records how a transfer ended before its request was known.
type Tombstone struct {
	V  int            `json:"v"`
	As transfer.State `json:"as"`
	By string         `json:"by,omitempty"` // the principal of the request; empty: any principal
	// FirstMessageMissing reports, of a tombstone at a destination, that the source has not cancelled the transfer: the
	// first message of its stored epoch is missing.
	FirstMessageMissing bool `json:"headless,omitempty"`
}

// PutTombstone records the end of an unknown transfer, so that a later request of the principal by does not run. If by
// is empty, no principal's request runs. If a tombstone is dropped for it, the floor of that tombstone's principal
// rises over it. For a tombstone of all principals the floor of all rises, unless the tombstone is dated ahead of the
// clock: then the floor would rise over requests that are yet to be made.
func (t *Tx) PutTombstone(id transfer.ID, as transfer.State, by string) error {
	return writeTombstone(t, principalTombstoneKey(id, by), Tombstone{V: recordVersion, As: as, By: by})
}

func principalTombstoneKey(id transfer.ID, by string) []byte {
	if by == "" {
		return tombstoneKey(tombstoneOfAll, "", id)
	}
	return tombstoneKey(tombstoneOfPrincipal, by, id)
}

// PutSourceTombstone records at a destination that a source has cancelled a transfer. The tombstone holds for that
// source only.
func (t *Tx) PutSourceTombstone(id transfer.ID, source transfer.AgentName) error {
	return writeTombstone(t, sourceTombstoneKey(id, source), Tombstone{V: recordVersion, As: transfer.Cancelled})
}

// MarkFirstMessageMissing records at a destination that the first message of a source's stored epoch is missing, so that the
// transfer does not begin. UnmarkFirstMessageMissing removes that.
func MarkFirstMessageMissing(t *Tx, id transfer.ID, source transfer.AgentName) error {
	return writeTombstone(t, sourceTombstoneKey(id, source), Tombstone{V: recordVersion, As: transfer.Cancelled, FirstMessageMissing: true})
}

// FirstMessageMissing reports whether the tombstone of a transfer is one that MarkFirstMessageMissing has made.
func FirstMessageMissing(t *Tx, id transfer.ID, source transfer.AgentName) (bool, error) {
	var s Tombstone
	_, err := getJSON(t.tx.Bucket(bTombstones), "tombstone", sourceTombstoneKey(id, source), &s)
	return s.FirstMessageMissing, err
}

// UnmarkFirstMessageMissing removes the tombstone that MarkFirstMessageMissing has made, and no other one.
func UnmarkFirstMessageMissing(t *Tx, id transfer.ID, source transfer.AgentName) error {
	if missing, err := FirstMessageMissing(t, id, source); err != nil || !missing {
		return err
	}
	return dropShared(t, sharedTombstones, sourceTombstoneKey(id, source))
}

func sourceTombstoneKey(id transfer.ID, source transfer.AgentName) []byte {
	return tombstoneKey(tombstoneOfSource, string(source), id)
}

func writeTombstone(t *Tx, key []byte, s Tombstone) error {
	b := t.tx.Bucket(bTombstones)
	var old Tombstone
	if known, err := getJSON(b, "tombstone", key, &old); err != nil || known && old.FirstMessageMissing == s.FirstMessageMissing {
		return err
	} else if known { // of the two reasons, the cancel stays
		old.FirstMessageMissing = false
		return putJSON(b, key, old)
	}

	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return putShared(t, sharedTombstones, key, data, func(k, _ []byte) error {
		id := transfer.ID(k[1+principalSize:])
		switch {
		case k[0] == tombstoneOfPrincipal:
			return transferFloors.raisePrincipal(t, k[1:1+principalSize], id)
		case k[0] == tombstoneOfAll && !id.Time().After(t.l.opt.Clock.Now()):
			return transferFloors.raise(t, id)
		}
		return nil
	})
}

// Tombstone returns how a transfer ended for a principal before it was known; As is empty if it has no tombstone.
func (t *Tx) Tombstone(id transfer.ID, principal string) (s Tombstone, err error) {
	b := t.tx.Bucket(bTombstones)
	known, err := getJSON(b, "tombstone", principalTombstoneKey(id, ""), &s)
	if err == nil && !known && principal != "" {
		_, err = getJSON(b, "tombstone", principalTombstoneKey(id, principal), &s)
	}
	return s, err
}

// TombstoneByAny returns how a transfer ended, for all principals or for one of them, before it was known.
func TombstoneByAny(t *Tx, id transfer.ID) (s Tombstone, err error) {
	if s, err = t.Tombstone(id, ""); s.As != "" || err != nil {
		return s, err
	}
	b := t.tx.Bucket(bTombstones)
	c := b.Cursor()
	const n = 1 + principalSize
	for k, _ := c.Seek([]byte{tombstoneOfPrincipal}); k != nil && k[0] == tombstoneOfPrincipal; {
		key := append(append([]byte(nil), k[:n]...), id[:]...)
		if k, _ = c.Seek(key); string(k) == string(key) {
			_, err = getJSON(b, "tombstone", key, &s)
			return s, err
		}
		if k != nil && hasPrefix(k, key[:n]) { // to the next principal
			k, _ = c.Seek(after(key[:n]))
		}
	}
	return s, nil
}

// after returns the least key that is greater than all keys with a prefix. The prefix must have a byte below 0xff.
func after(prefix []byte) []byte {
	next := append([]byte(nil), prefix...)
	for n := len(next) - 1; n >= 0; n-- {
		if next[n]++; next[n] != 0 {
			return next[:n+1]
		}
	}
	return next
}

// HasSourceTombstone reports whether a source has cancelled a transfer before it began here.
func (t *Tx) HasSourceTombstone(id transfer.ID, source transfer.AgentName) bool {
	return t.tx.Bucket(bTombstones).Get(sourceTombstoneKey(id, source)) != nil
}
