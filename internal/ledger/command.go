package ledger

import (
	"encoding/json"
	"errors"
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
func (t *Tx) oldCommands(before time.Duration, dated time.Time) (old []transfer.ID, err error) {
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
func (t *Tx) dropCommands(ids []transfer.ID) error {
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

type tombstone struct {
	V  int            `json:"v"`
	As transfer.State `json:"as"`
}

// Entomb notes how an unknown transfer has ended, so that its request, should it
// come yet, does not run. The oldest give way, and the floor rises over them.
func (t *Tx) Entomb(id transfer.ID, as transfer.State) error {
	b := t.tx.Bucket(bTombs)
	if b.Get(id[:]) != nil {
		return nil
	}
	if t.l.tombs.Load()+t.made.tombs >= MaxTombstones {
		if k, _ := b.Cursor().Seek(nil); k != nil {
			if err := errors.Join(t.raiseFloor(transfer.ID(k)), b.Delete(k)); err != nil {
				return err
			}
			t.made.tombs--
		}
	}
	t.made.tombs++
	return putJSON(b, id[:], tombstone{recordVersion, as})
}

// Entombed is how a transfer has ended before it was known; empty where it has not.
func (t *Tx) Entombed(id transfer.ID) (as transfer.State, err error) {
	var s tombstone
	_, err = getJSON(t.tx.Bucket(bTombs), "tombstone", id[:], &s)
	return s.As, err
}
