package audit

import (
	"bytes"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/audit/witness"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

// In a sealed log a record of coordination's own follows the records of a batch. It has the batch's seal. So the seal
// is as durable as the records, and in the tree. The owner of the signing key is recorded, too.

// Vouched has signatures. Seal and Binding belong to Sealed and Bound records of coordination. Author is the signature
// of the request or command that the record is about, or nil if the message was not signed. Evidence of a Settled record
// proves the author to Verify.
type Vouched struct {
	Author   *word.Author     `json:"author,omitempty"`
	Evidence *word.Evidence   `json:"evidence,omitempty"`
	Seal     *Seal            `json:"seal,omitempty"`
	Binding  *witness.Binding `json:"binding,omitempty"`
}

// A Seal is an agent's signature over a batch. The batch's records directly precede the seal, in order, except those of
// Others, which are elsewhere in the log.
type Seal struct {
	Agent transfer.AgentName `json:"agent"`
	witness.Batch
	Bound     int64   `json:"bound"` // index of the record with the key's binding
	Signature []byte  `json:"signature"`
	Others    []Other `json:"others,omitempty"`
}

// An Other is a record of a sealed batch that does not directly precede the seal.
type Other struct {
	At   int       `json:"at"` // place in the batch, from 0
	Leaf tlog.Hash `json:"leaf"`
}

// A Sealer is an agent that seals its batches: its checked binding, and the index of the binding in the log.
type Sealer struct {
	Party *witness.Party
	Index int64
}

// Sign seals a batch.
func (b *Batch) Sign(k *witness.Key, first uint64) {
	leaves := make([]tlog.Hash, len(b.Records))
	for i, raw := range b.Records {
		leaves[i] = tlog.RecordHash(raw)
	}
	b.Floor = max(b.Floor, 1)
	b.Key = k.Party().ID
	b.Seal = k.Seal(b.Agent, witness.Batch{Incarnation: b.Incarnation, Floor: b.Floor, First: first, Count: len(leaves)}, witness.RootOf(leaves))
}

// signed returns the fields that the batch's seal covers beside its records. list must not be empty.
func (b *Batch) signed(list []entry) witness.Batch {
	return witness.Batch{Incarnation: b.Incarnation, Floor: b.Floor, First: list[0].rec.N, Count: len(list)}
}

// check compares a batch with its seal.
func (by *Sealer) check(b *Batch, list []entry) error {
	if by == nil {
		return nil
	}
	if len(list) == 0 || !by.Party.Seals(b.Agent) {
		return transfer.Errorf(transfer.KindDenied, "an audit batch of %s has no records, or the seal of %s", b.Agent, by.Party.Name)
	}
	for i := range list {
		if !bytes.Equal(list[i].body, b.Records[i]) {
			return transfer.Errorf(transfer.KindUsage, "record %s is sealed in a form that no log keeps", list[i].rec.name())
		}
	}
	return by.Party.CheckSeal(b.Seal, b.Agent, b.signed(list), witness.RootOf(leavesOf(list)))
}

func leavesOf(list []entry) []tlog.Hash {
	leaves := make([]tlog.Hash, len(list))
	for i := range list {
		leaves[i] = tlog.RecordHash(list[i].body)
	}
	return leaves
}

// record returns the record with a batch's seal. It directly follows the fresh ones of the batch's records.
func (by *Sealer) record(b *Batch, list, fresh []entry) *Record {
	seal := &Seal{Agent: b.Agent, Batch: b.signed(list), Bound: by.Index, Signature: b.Seal}
	for i := range list {
		if len(fresh) > 0 && fresh[0].rec.N == list[i].rec.N {
			fresh = fresh[1:]
			continue
		}
		seal.Others = append(seal.Others, Other{i, tlog.RecordHash(list[i].body)})
	}
	return &Record{Event: Sealed, Vouched: Vouched{Seal: seal},
		Text: fmt.Sprintf("%s has signed its records %d to %d", b.Agent, seal.First, seal.First+uint64(seal.Count)-1)}
}

// fits reports whether a seal that was read is within its ranges.
func (s *Seal) fits() bool {
	return s != nil && s.Count >= 1 && s.Count <= maxBatchRecords && len(s.Others) <= s.Count && s.First >= 1 && s.First <= MaxNumber
}

// fresh returns how many records directly before the seal belong to it.
func (s *Seal) fresh() int { return s.Count - len(s.Others) }

// leaves returns the leaves of the whole batch, from those directly before the seal. ok is false if they do not match.
func (s *Seal) leaves(before []tlog.Hash) (all []tlog.Hash, ok bool) {
	if !s.fits() || len(before) != s.fresh() {
		return nil, false
	}
	others := s.Others
	for i := range s.Count {
		switch {
		case len(others) > 0 && others[0].At == i:
			all = append(all, others[0].Leaf)
			others = others[1:]
		case len(before) > 0:
			all = append(all, before[0])
			before = before[1:]
		default:
			return nil, false
		}
	}
	return all, true
}
