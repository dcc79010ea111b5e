package ledger

import (
	"encoding/json"

	"ferry/internal/transfer"
)

// MaxTombstones bounds the tombstones, of cancelled IDs whose request was never seen. Beyond it the oldest tombstone of
// the largest holder is dropped.
const MaxTombstones = 10_000

// The first byte of a tombstone's key is the kind of its holder.
const (
	tombOfAll       = '*' // it holds for all principals
	tombOfPrincipal = 'p'
	tombOfSource    = 's' // an agent; at the destination
)

func tombKey(of byte, holder string, id transfer.ID) []byte {
	return append(append([]byte{of}, keyOf(holder)...), id[:]...)
}

// A Tombstone records how a transfer ended before its request was known.
type Tombstone struct {
	V  int            `json:"v"`
	As transfer.State `json:"as"`
	By string         `json:"by,omitempty"` // the principal of the request; empty: any principal
	// Headless reports, of a tombstone at a destination, that the source has not cancelled the transfer: the first
	// message of its stored epoch is missing.
	Headless bool `json:"headless,omitempty"`
}

// Entomb records the end of an unknown transfer, so that a later request of the principal by does not run. If by is
// empty, no principal's request runs. If a tombstone is dropped for it, the floor of that tombstone's principal rises
// over it. For a tombstone of all principals the floor of all rises, unless the tombstone is dated ahead of the clock:
// then the floor would rise over requests that are yet to be made.
func (t *Tx) Entomb(id transfer.ID, as transfer.State, by string) error {
	return entomb(t, ownTomb(id, by), Tombstone{V: recordVersion, As: as, By: by})
}

func ownTomb(id transfer.ID, by string) []byte {
	if by == "" {
		return tombKey(tombOfAll, "", id)
	}
	return tombKey(tombOfPrincipal, by, id)
}

// EntombOf records at a destination that a source has cancelled a transfer. The tombstone holds for that source only.
func (t *Tx) EntombOf(id transfer.ID, source transfer.AgentName) error {
	return entomb(t, tombOf(id, source), Tombstone{V: recordVersion, As: transfer.Cancelled})
}

// Behead records at a destination that the first message of a source's stored epoch is missing, so that the transfer does not
// begin. Restore removes that.
func Behead(t *Tx, id transfer.ID, source transfer.AgentName) error {
	return entomb(t, tombOf(id, source), Tombstone{V: recordVersion, As: transfer.Cancelled, Headless: true})
}

// Headless reports whether the tombstone of a transfer is one that Behead has made.
func Headless(t *Tx, id transfer.ID, source transfer.AgentName) (bool, error) {
	var s Tombstone
	_, err := getJSON(t.tx.Bucket(bTombs), "tombstone", tombOf(id, source), &s)
	return s.Headless, err
}

// Restore removes the tombstone that Behead has made, and no other one.
func Restore(t *Tx, id transfer.ID, source transfer.AgentName) error {
	if headless, err := Headless(t, id, source); err != nil || !headless {
		return err
	}
	return dropShared(t, roomTombs, tombOf(id, source))
}

func tombOf(id transfer.ID, source transfer.AgentName) []byte {
	return tombKey(tombOfSource, string(source), id)
}

func entomb(t *Tx, key []byte, s Tombstone) error {
	b := t.tx.Bucket(bTombs)
	var old Tombstone
	if known, err := getJSON(b, "tombstone", key, &old); err != nil || known && old.Headless == s.Headless {
		return err
	} else if known { // of the two reasons, the cancel stays
		old.Headless = false
		return putJSON(b, key, old)
	}

	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return putShared(t, roomTombs, key, data, func(k, _ []byte) error {
		id := transfer.ID(k[1+principalSize:])
		switch {
		case k[0] == tombOfPrincipal:
			return transferFloors.raiseOf(t, k[1:1+principalSize], id)
		case k[0] == tombOfAll && !id.Time().After(t.l.opt.Clock.Now()):
			return transferFloors.raise(t, id)
		}
		return nil
	})
}

// Entombed returns how a transfer ended for a principal before it was known; As is empty if it has no tombstone.
func (t *Tx) Entombed(id transfer.ID, principal string) (s Tombstone, err error) {
	b := t.tx.Bucket(bTombs)
	known, err := getJSON(b, "tombstone", ownTomb(id, ""), &s)
	if err == nil && !known && principal != "" {
		_, err = getJSON(b, "tombstone", ownTomb(id, principal), &s)
	}
	return s, err
}

// EntombedByAny returns how a transfer ended, for all principals or for one of them, before it was known.
func EntombedByAny(t *Tx, id transfer.ID) (s Tombstone, err error) {
	if s, err = t.Entombed(id, ""); s.As != "" || err != nil {
		return s, err
	}
	b := t.tx.Bucket(bTombs)
	c := b.Cursor()
	const n = 1 + principalSize
	for k, _ := c.Seek([]byte{tombOfPrincipal}); k != nil && k[0] == tombOfPrincipal; {
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

// EntombedOf reports whether a source has cancelled a transfer before it began here.
func (t *Tx) EntombedOf(id transfer.ID, source transfer.AgentName) bool {
	return t.tx.Bucket(bTombs).Get(tombOf(id, source)) != nil
}
