package audit

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/audit/witness"
	"ferry/internal/transfer"
)

// A Prover answers questions about a log with proofs.
type Prover struct{ *Log }

// At returns the checkpoint of a network's log at the present size.
func (l Prover) At(network string) witness.Checkpoint {
	t := l.snapshot().tree
	return witness.Checkpoint{Network: network, Size: t.size, Root: t.hash(), Log: FormatIncarnation(l.files.id)}
}

// Has reports whether the present log continues a checkpoint.
func (l Prover) Has(c witness.Checkpoint) bool {
	if c.Log != FormatIncarnation(l.files.id) || c.Size > l.Size() {
		return false
	}
	root, err := tlog.TreeHash(c.Size, l.files.hashes)
	return err == nil && root == c.Root
}

// lookBackStep and lookBackMost are the numbers of records that are read to find an unknown place: at once, and for one
// question.
const (
	lookBackStep = 4096
	lookBackMost = 16 * lookBackStep
)

// Runs proves where the log at a size has the records first to last of an agent's ledger, as many as fit. missing
// reports that the log does not have the first of them.
func (l Prover) Runs(agent transfer.AgentName, incarnation string, first, last uint64, size int64) (runs []witness.Run, missing bool, err error) {
	v, err := ParseIncarnation(incarnation)
	if err != nil {
		return nil, false, err
	}
	key := stream{agent, v}
	l.mu.RLock()
	p := l.streams[key]
	l.mu.RUnlock()
	if first > p.have || p.lacks(first) {
		return nil, true, nil
	}

	for n := first; n <= last && len(runs) < maxShownRuns; {
		at, ok := l.recent.places.find(key, n)
		if !ok && n == first {
			at, ok, err = l.search(key, n)
		}
		if !ok || err != nil || at.index >= size {
			return runs, false, err
		}
		count := int(min(int64(at.count), int64(last-n+1), size-at.index))
		proof, err := witness.ProveRun(size, at.index, at.index+int64(count), l.files.hashes)
		if err != nil {
			return nil, false, logError(l.files.dir, err)
		}
		runs = append(runs, witness.Run{First: n, Count: count, Index: at.index, Proof: proof})
		n += uint64(count)
	}
	return runs, false, nil
}

// maxShownRuns is the most runs in one answer.
const maxShownRuns = 32

// search searches the log for a record with an unknown place: after a start, one that an agent has kept for long. One
// call reads a part of the log. If ok is false, the next call continues. Consecutive records of a ledger are usually
// near each other in the log. So after a found record the search for the next one goes upwards first.
func (l Prover) search(key stream, n uint64) (at location, ok bool, err error) {
	s := l.recent.places.seek(key, n)
	if s.up > 0 {
		to := min(s.up+lookBackMost, l.Size())
		if at, ok, err = l.searchPart(key, n, s.up, to); ok || err != nil {
			return l.found(key, at, ok, err)
		}
		if s.up = to; to == l.Size() {
			s.up = 0
		}
		l.recent.places.keep(key, s)
		return at, false, nil
	}

	end := s.down
	if end == 0 {
		end = l.Size()
	}
	for least := max(end-lookBackMost, 0); end > least; end = max(end-lookBackStep, least) {
		if at, ok, err = l.searchPart(key, n, max(end-lookBackStep, least), end); ok || err != nil {
			return l.found(key, at, ok, err)
		}
	}
	s.down = end // at the beginning of the log it starts again from the end
	l.recent.places.keep(key, s)
	return at, false, nil
}

// found saves the start of the next search, after the found records.
func (l Prover) found(key stream, at location, ok bool, err error) (location, bool, error) {
	if ok {
		l.recent.places.keep(key, sought{n: at.from + uint64(at.count), up: at.index + int64(at.count)})
	}
	return at, ok, err
}

// searchPart searches a part of the log for a record, and returns it with the records directly after it.
func (l Prover) searchPart(key stream, n uint64, from, to int64) (at location, ok bool, err error) {
	err = l.Scan(from, func(i int64, _ []byte, r *Record) error {
		follows := ok && r.stream() == key && r.N == n+uint64(at.count) && i == at.index+int64(at.count) && at.count < witness.MaxRun
		switch {
		case !ok && i >= to, ok && !follows:
			return fs.SkipAll
		case follows:
			at.count++
		case r.N == n && r.stream() == key:
			at, ok = location{n, 1, i}, true
		}
		return nil
	})
	return at, ok, err
}

// Show returns the log's proofs for a witness that has seen a size of it, beside the note of c.
func (l Prover) Show(c witness.Checkpoint, seen int64) (*witness.Shown, error) {
	s := &witness.Shown{V: 1}
	if seen < 1 || seen >= c.Size {
		return s, nil
	}
	proof, err := l.ProofBetween(seen, c.Size)
	s.Proof = proof
	return s, err
}

// sealedText is in the JSON of each record with a seal.
var sealedText = []byte(`"` + Sealed + `"`)

// SealOf returns the seal of the record at an index, with the leaves of its batch and the record's place among them. If
// there is no seal, the error is of KindNotFound.
func (l Prover) SealOf(index int64, raw []byte) (seal *Seal, leaves []tlog.Hash, at int, err error) {
	leaf := tlog.RecordHash(raw)
	err = l.files.texts(index+1, l.snapshot(), func(i int64, raw []byte) error {
		if i > index+2*maxBatchRecords {
			return fs.SkipAll
		}
		if !bytes.Contains(raw, sealedText) {
			return nil // most records are of agents, and are not decoded
		}
		r, err := Decode(raw)
		if err != nil {
			return l.files.badRecord(i, err)
		}
		if r.Event != Sealed || r.Agent != Coordination || !r.Seal.fits() {
			return nil
		}
		all, err := l.batchOf(i, r.Seal)
		if err != nil {
			return err
		}
		if n := slices.Index(all, leaf); n >= 0 {
			seal, leaves, at = r.Seal, all, n
			return fs.SkipAll
		}
		return nil
	})
	if err == nil && seal == nil {
		err = transfer.Errorf(transfer.KindNotFound, "record %d of the audit log is not signed by its agent", index)
	}
	return seal, leaves, at, err
}

// batchOf returns the leaves of the batch with the seal at an index.
func (l Prover) batchOf(i int64, seal *Seal) ([]tlog.Hash, error) {
	first := i - int64(seal.fresh())
	if first < 0 {
		return nil, l.files.damaged(recordsName, fmt.Sprintf("record %d seals records before the first", i))
	}
	at := make([]int64, 0, seal.fresh())
	for n := first; n < i; n++ {
		at = append(at, tlog.StoredHashIndex(0, n))
	}
	before, err := l.files.hashes.ReadHashes(at)
	if err != nil {
		return nil, logError(l.files.dir, err)
	}
	all, ok := seal.leaves(before)
	if !ok {
		return nil, l.files.damaged(recordsName, fmt.Sprintf("record %d is no seal of the records before it", i))
	}
	return all, nil
}
