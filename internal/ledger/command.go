package ledger

import (
	"encoding/json"
	"time"

	"ferry/internal/transfer"
)

// MaxCommands bounds the commands that are kept, in bytes. Beyond it the oldest commands of the principal with most of
// them are dropped.
const MaxCommands = 64 << 20

type command struct {
	V      int             `json:"v"`
	At     time.Duration   `json:"at"` // agent's running time
	Hash   string          `json:"hash"`
	Answer json.RawMessage `json:"answer"`
}

func commandKey(principal string, id transfer.ID) []byte { return append(keyOf(principal), id[:]...) }

// Command returns the first answer to a command of a principal, and a hash of the command's contents.
func (t *Tx) Command(principal string, id transfer.ID) (hash string, answer []byte, err error) {
	var c command
	ok, err := getJSON(t.tx.Bucket(bCommands), "command", commandKey(principal, id), &c)
	if !ok {
		return "", nil, err
	}
	return c.Hash, c.Answer, err
}

// PutCommand records the answer of a command.
func (t *Tx) PutCommand(principal string, id transfer.ID, hash string, answer []byte) error {
	data, err := json.Marshal(command{recordVersion, t.Running(), hash, answer})
	if err != nil {
		return err
	}
	return putShared(t, sharedCommands, commandKey(principal, id), data, func(k, _ []byte) error {
		return commandFloors.raisePrincipal(t, k[:principalSize], transfer.ID(k[principalSize:]))
	})
}

// CommandFloor returns the greatest ID of a principal's commands that the ledger has forgotten: an unknown one at or
// below it may have been done. Without a principal it returns the floor of all principals.
func (t *Tx) CommandFloor(principal string) transfer.ID { return floorOf(t, commandFloors, principal) }

func floorOf(t *Tx, f floors, principal string) transfer.ID {
	if principal == "" {
		return f.of(t, nil)
	}
	return f.of(t, keyOf(principal))
}

// oldCommands returns the keys of commands that were answered before the given running time. Commands with an ID that
// is dated later stay, as transfers do.
func oldCommands(t *Tx, before time.Duration, dated time.Time) (old [][]byte, err error) {
	b := t.tx.Bucket(bCommands)
	err = each(b, nil, func(k, _ []byte) error {
		var c command
		if _, err := getJSON(b, "command", k, &c); err != nil {
			return err
		}
		if id := transfer.ID(k[principalSize:]); c.At < before && id.Time().Before(dated) {
			old = append(old, append([]byte(nil), k...))
		}
		return nil
	})
	return old, err
}

// dropCommands drops commands and raises the floor over them.
func dropCommands(t *Tx, keys [][]byte) error {
	for _, k := range keys {
		if err := commandFloors.raise(t, transfer.ID(k[principalSize:])); err != nil {
			return err
		}
		if err := dropShared(t, sharedCommands, k); err != nil {
			return err
		}
	}
	return nil
}
