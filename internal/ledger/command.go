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

type tombstone struct {
	V  int            `json:"v"`
	As transfer.State `json:"as"`
}

// Entomb notes how an unknown transfer has ended, so that its request, should it
// come yet, does not run. The oldest give way, and the floor rises over them.
func (t *Tx) Entomb(id transfer.ID, as transfer.State) error { return t.entomb(id[:], as) }

// EntombOf notes at a destination that a source says that it has cancelled a transfer:
// it holds for that source only.
func (t *Tx) EntombOf(id transfer.ID, source transfer.AgentName) error {
	return t.entomb(tombOf(id, source), transfer.Cancelled)
}

func tombOf(id transfer.ID, source transfer.AgentName) []byte { return append(id[:], source...) }

func (t *Tx) entomb(key []byte, as transfer.State) error {
	b := t.tx.Bucket(bTombs)
	if b.Get(key) != nil {
		return nil
	}

	if t.l.tombs.Load()+t.made.tombs >= MaxTombstones {
		if k, _ := b.Cursor().Seek(nil); k != nil {
			if len(k) == len(transfer.ID{}) { // of a request to this agent, not of what it was to receive
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
	return putJSON(b, key, tombstone{recordVersion, as})
}

// Entombed is how a transfer has ended before it was known; empty where it has not.
func (t *Tx) Entombed(id transfer.ID) (as transfer.State, err error) {
	var s tombstone
	_, err = getJSON(t.tx.Bucket(bTombs), "tombstone", id[:], &s)
	return s.As, err
}

// EntombedOf reports whether a source has cancelled a transfer before it began here.
func (t *Tx) EntombedOf(id transfer.ID, source transfer.AgentName) bool {
	return t.tx.Bucket(bTombs).Get(tombOf(id, source)) != nil
}
