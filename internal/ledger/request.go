package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"time"

	"ferry/internal/transfer"
)

// A request with many items comes as parts and a head (transfer.Request.Split), in any order. Parts wait for their head
// in a bucket of their own, separate for each submitter, and move to the accepted ones with it.
const (
	maxWaitingParts = 64 << 20            // bytes of the parts that wait; beyond it the oldest IDs of the largest principal are dropped
	waitingParts    = 14 * 24 * time.Hour // of the agent's running time, then they are dropped: as long as a head may wait in its queue
)

// Requests are the parts of large requests and the destinations of their items, in a transaction.
type Requests struct{ t *Tx }

// Requests returns the ledger's data of requests beside their heads.
func (t *Tx) Requests() Requests { return Requests{t} }

// waitingPart is a part whose head has not come.
type waitingPart struct {
	V    int           `json:"v"`
	At   time.Duration `json:"at"` // agent's running time
	Part transfer.Part `json:"part"`
}

// partsOf returns the key prefix of a principal's parts under an ID.
func partsOf(id transfer.ID, principal string) []byte { return append(keyOf(principal), id[:]...) }

// PutPart keeps a part of a request until its head comes. A repeat is no error.
func (r Requests) PutPart(id transfer.ID, principal string, p transfer.Part) error {
	data, err := json.Marshal(waitingPart{recordVersion, r.t.Running(), p})
	if err != nil {
		return err
	}
	return putShared(r.t, sharedParts, binary.BigEndian.AppendUint64(partsOf(id, principal), uint64(p.From)), data, nil)
}

// Parts returns the parts of a head that a principal has submitted, in order. If one of them has not come, the error is
// of KindNotFound. If they differ from the head's description, it is of KindMalformed.
func (r Requests) Parts(q *transfer.Request, principal string) (parts []transfer.Part, err error) {
	next, size, sum := len(q.Items), 0, sha256.New()
	err = each(r.t.tx.Bucket(bParts), partsOf(q.ID, principal), func(k, v []byte) error {
		var w waitingPart
		if err := json.Unmarshal(v, &w); err != nil {
			return transfer.Errorf(transfer.KindInternal, "ledger: parts record %x is damaged: %w", k, err)
		}
		if size += len(w.Part.Items); w.Part.From != next || size > q.Rest.Bytes {
			return errOtherParts
		}
		items, err := w.Part.Read()
		if err != nil {
			return err
		}
		next += len(items)
		sum.Write(w.Part.Items)
		parts = append(parts, w.Part)
		return nil
	})
	switch {
	case err == errOtherParts && size <= q.Rest.Bytes, err == nil && next < q.Count():
		return nil, transfer.Errorf(transfer.KindNotFound, "parts of the request %s have not come", q.ID)
	case err != nil:
		return nil, err
	case next != q.Count() || size != q.Rest.Bytes || hex.EncodeToString(sum.Sum(nil)) != q.Rest.Sum:
		return nil, errOtherParts
	}
	return parts, nil
}

var errOtherParts = transfer.Errorf(transfer.KindMalformed, "the parts of the request are others than its head says").
	WithHint("submit it under a new ID")

// AcceptParts moves the parts of a principal's request to the accepted ones.
func (r Requests) AcceptParts(id transfer.ID, principal string, parts []transfer.Part) error {
	for _, p := range parts {
		if err := putJSON(r.t.tx.Bucket(bAcceptedParts), itemKey(id, uint64(p.From)), p); err != nil {
			return err
		}
	}
	var keys [][]byte
	if err := each(r.t.tx.Bucket(bParts), partsOf(id, principal), func(k, _ []byte) error {
		keys = append(keys, append([]byte(nil), k...))
		return nil
	}); err != nil {
		return err
	}
	return dropParts(r.t, keys)
}

// oldParts returns the keys of parts that have waited for a head too long.
func oldParts(t *Tx) (old [][]byte, err error) {
	err = each(t.tx.Bucket(bParts), nil, func(k, v []byte) error {
		var w waitingPart
		if err := json.Unmarshal(v, &w); err != nil || w.At < t.Running()-waitingParts {
			old = append(old, append([]byte(nil), k...))
		}
		return nil
	})
	return old, err
}

func dropParts(t *Tx, keys [][]byte) error {
	for _, k := range keys {
		if err := dropShared(t, sharedParts, k); err != nil {
			return err
		}
	}
	return nil
}

// AcceptedPart returns the part of an accepted request that begins with item from, counted from 0.
func (r Requests) AcceptedPart(id transfer.ID, from int) (*transfer.Part, error) {
	p := new(transfer.Part)
	if ok, err := getJSON(r.t.tx.Bucket(bAcceptedParts), "asked", itemKey(id, uint64(from)), p); !ok || err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "ledger: the part of request %s from item %d on is missing: %w", id, from, err)
	}
	return p, nil
}

// PutResolved records resolutions of the DESTs of a request's items.
func (r Requests) PutResolved(id transfer.ID, all []transfer.Resolved) error {
	for n := range all {
		if err := putJSON(r.t.tx.Bucket(bResolved), itemKey(id, all[n].N), all[n]); err != nil {
			return err
		}
	}
	return nil
}

// Resolved calls fn for the entries of PutResolved, in the order of the items.
func (r Requests) Resolved(id transfer.ID, fn func(transfer.Resolved) error) error {
	b := r.t.tx.Bucket(bResolved)
	return each(b, id[:], func(k, _ []byte) error {
		var one transfer.Resolved
		if _, err := getJSON(b, "resolved", k, &one); err != nil {
			return err
		}
		return fn(one)
	})
}

// Targets is the progress of the targets of an incoming transfer.
type Targets struct {
	Last  uint64 `json:"last"` // the last one that has come
	Bytes int    `json:"bytes"`
	All   bool   `json:"all"` // Last is the last of all
}

// A Target is a target with its resolution.
type Target struct {
	V int `json:"v"`
	transfer.Target
	Place transfer.Place  `json:"place,omitempty"`
	Base  transfer.Path   `json:"base,omitempty"`
	Into  bool            `json:"into,omitempty"`
	Error *transfer.Error `json:"error,omitempty"` // why no item can land there
}

// Resolved returns the resolution for the source.
func (g *Target) Resolved() transfer.Resolved {
	return transfer.Resolved{N: g.N, Resolution: transfer.Resolution{Place: g.Place, Base: g.Base, Into: g.Into}, Error: g.Error}
}

// PutTargets keeps targets of an incoming transfer.
func (r Requests) PutTargets(id transfer.ID, all []Target) error {
	for n := range all {
		all[n].V = recordVersion
		if err := putJSON(r.t.tx.Bucket(bTargets), itemKey(id, all[n].N), all[n]); err != nil {
			return err
		}
	}
	return nil
}

// Target returns a target; nil if there is none.
func (r Requests) Target(id transfer.ID, n uint64) (*Target, error) {
	g := new(Target)
	if ok, err := getJSON(r.t.tx.Bucket(bTargets), "target", itemKey(id, n), g); !ok || err != nil {
		return nil, err
	}
	return g, nil
}
