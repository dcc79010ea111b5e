package call

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// A Drawer is the part of the ledger that has the entries of one sort of programs.
type Drawer string

// Key returns the key of the entry of a call point of a transfer.
func Key(q *transfer.Request, at transfer.CallPoint) string {
	return q.ID.String() + "/" + string(q.Source) + "/" + string(at)
}

// An Entry is the ledger's entry of a program. A program that answers has a Choice of type C.
type Entry[C any] struct {
	V       int             `json:"v"`
	Attempt int             `json:"attempt"` // the attempt that is about to run, or the last one
	Ended   bool            `json:"ended,omitempty"`
	Failure *transfer.Error `json:"failure,omitempty"` // of a program that has ended
	Choice  *C              `json:"choice,omitempty"`  // of one that has ended well
}

const entryVersion = 1

// ReadEntry returns the entry with a key; the zero Entry if there is none.
func ReadEntry[C any](t *ledger.Tx, in Drawer, key string) (e Entry[C], err error) {
	b := ledger.NamespaceOf(t, string(in)).Get(key)
	if len(b) == 0 {
		return e, nil
	}
	if err := json.Unmarshal(b, &e); err != nil || e.V != entryVersion {
		return e, transfer.Errorf(transfer.KindInternal, "the ledger's entry %s of %s cannot be read: %w", key, in, err)
	}
	return e, nil
}

// Put writes the entry with a key.
func (e Entry[C]) Put(t *ledger.Tx, in Drawer, key string) error {
	e.V = entryVersion
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return ledger.NamespaceOf(t, string(in)).Put(key, b)
}

// Delete removes the entry of a call point of a transfer.
func (d Drawer) Delete(t *ledger.Tx, q *transfer.Request, at transfer.CallPoint) error {
	return ledger.NamespaceOf(t, string(d)).Delete(Key(q, at))
}

// RemoveOld removes the entries of transfers that never came to their end here, and are older than keep at a time. stays
// reports keys that stay however old they are; nil: none.
func (d Drawer) RemoveOld(l *ledger.Ledger, now time.Time, keep time.Duration, stays func(key string) bool) error {
	var old []string
	err := l.View(func(t *ledger.Tx) error {
		for key := range ledger.NamespaceOf(t, string(d)).All("", "") {
			text, _, _ := strings.Cut(key, "/")
			id, err := transfer.ParseID(text)
			if err != nil || stays != nil && stays(key) || now.Sub(id.Time()) <= keep {
				continue
			}
			src, err := t.Source(id)
			in, err2 := t.Incoming(id)
			if err := cmp.Or(err, err2); err != nil {
				return err
			}
			if (src == nil || src.State.Final()) && (in == nil || in.State.Final()) {
				old = append(old, key)
			}
		}
		return nil
	})
	if err != nil || len(old) == 0 {
		return err
	}
	return l.Update(func(t *ledger.Tx) (err error) {
		for _, key := range old {
			err = errors.Join(err, ledger.NamespaceOf(t, string(d)).Delete(key))
		}
		return err
	})
}
