package ledger

import (
	"encoding/json"
	"time"

	"ferry/internal/transfer"
)

// MaxTombstones bounds the cancelled IDs that are kept though their request
// was never seen.
const MaxTombstones = 10_000

type command struct {
	V      int             `json:"v"`
	At     time.Duration   `json:"at"` // agent's running time
	Hash   string          `json:"hash"`
	Answer json.RawMessage `json:"answer"`
}

// Command gives the answer that a command was given when it came first, and a
// hash of what it said.
func (t *Tx) Command(id transfer.ID) (hash string, answer []byte, err error) {
	var c command
	ok, err := getJSON(t.tx.Bucket(bCommands), "command", id[:], &c)
	if !ok {
		return "", nil, err
	}
	return c.Hash, c.Answer, err
}

// PutCommand notes the answer of a command.
func (t *Tx) PutCommand(id transfer.ID, hash string, answer []byte) error {
	return putJSON(t.tx.Bucket(bCommands), id[:], command{recordVersion, t.Running(), hash, answer})
}

// CommandFloor is the greatest command ID that the ledger has forgotten: an
// unknown one at or below it may have been done.
func (t *Tx) CommandFloor() transfer.ID {
	var id transfer.ID
	copy(id[:], t.tx.Bucket(bMeta).Get([]byte("command_floor")))
	return id
}

// oldCommands are the commands that were answered before the given running
// time. Those with an ID that is dated later stay, as it is with transfers.
func oldCommands(t *Tx, before time.Duration, dated time.Time) (old []transfer.ID, err error) {
	b := t.tx.Bucket(bCommands)
	err = each(b, nil, func(k, _ []byte) error {
		var c command
		if _, err := getJSON(b, "command", k, &c); err != nil {
			return err
		}
		if id := transfer.ID(k); c.At < before && id.Time().Before(dated) {
			old = append(old, id)
		}
		return nil
	})
	return old, err
}

// dropCommands forgets commands and raises the floor over them.
func dropCommands(t *Tx, ids []transfer.ID) error {
	floor := t.CommandFloor()
	for _, id := range ids {
		if string(id[:]) > string(floor[:]) {
			floor = id
		}
		if err := t.tx.Bucket(bCommands).Delete(id[:]); err != nil {
			return err
		}
	}
	return t.tx.Bucket(bMeta).Put([]byte("command_floor"), floor[:])
}

// A Tombstone is how a transfer has ended before its request was known.
type Tombstone struct {
	V  int            `json:"v"`
	As transfer.State `json:"as"`
	By string         `json:"by,omitempty"` // the principal whose request it holds for; empty: anybody's
	// Headless says of a tombstone at a destination that the source has not cancelled the transfer: the first message of
	// its shelf is missing.
	Headless bool `json:"headless,omitempty"`
}

// Entomb notes how an unknown transfer has ended, so that its request, should it
// come yet of the principal by, does not run; of anybody, where by is empty. The oldest give
// way, and the floor rises over them, unless they are dated ahead of the clock: then it would rise
// over requests that are yet to be made.
func (t *Tx) Entomb(id transfer.ID, as transfer.State, by string) error {
	return t.entomb(id[:], Tombstone{V: recordVersion, As: as, By: by})
}

// EntombOf notes at a destination that a source says that it has cancelled a transfer:
// it holds for that source only.
func (t *Tx) EntombOf(id transfer.ID, source transfer.AgentName) error {
	return t.entomb(tombOf(id, source), Tombstone{V: recordVersion, As: transfer.Cancelled})
}

// Behead notes at a destination that the first message of a source's shelf is missing, so that the transfer
// does not begin. Restore takes that back.
func Behead(t *Tx, id transfer.ID, source transfer.AgentName) error {
	return t.entomb(tombOf(id, source), Tombstone{V: recordVersion, As: transfer.Cancelled, Headless: true})
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
	t.made.tombs--
	return t.tx.Bucket(bTombs).Delete(tombOf(id, source))
}

func tombOf(id transfer.ID, source transfer.AgentName) []byte { return append(id[:], source...) }

func (t *Tx) entomb(key []byte, s Tombstone) error {
	b := t.tx.Bucket(bTombs)
	var old Tombstone
	if known, err := getJSON(b, "tombstone", key, &old); err != nil || known && old.Headless == s.Headless && (old.By == s.By || old.By == "") {
		return err
	} else if known && (old.Headless || s.Headless) { // of the two reasons, cancelling stays
		old.Headless = false
		return putJSON(b, key, old)
	} else if known { // two principals speak of it, and whose it is nobody knows
		old.By = ""
		return putJSON(b, key, old)
	}

	if t.l.tombs.Load()+t.made.tombs >= MaxTombstones {
		if k, _ := b.Cursor().Seek(nil); k != nil {
			if len(k) == len(transfer.ID{}) && !transfer.ID(k).Time().After(t.l.opt.Clock.Now()) { // of a request to this agent, not of what it was to receive
				if err := t.raiseFloor(transfer.ID(k)); err != nil {
					return err
				}
			}
			if err := b.Delete(k); err != nil {
				return err
			}
			t.made.tombs--
		}
	}

	t.made.tombs++
	return putJSON(b, key, s)
}

// Entombed is how a transfer has ended before it was known; As is empty where it has not.
func (t *Tx) Entombed(id transfer.ID) (s Tombstone, err error) {
	_, err = getJSON(t.tx.Bucket(bTombs), "tombstone", id[:], &s)
	return s, err
}

// EntombedOf reports whether a source has cancelled a transfer before it began here.
func (t *Tx) EntombedOf(id transfer.ID, source transfer.AgentName) bool {
	return t.tx.Bucket(bTombs).Get(tombOf(id, source)) != nil
}
