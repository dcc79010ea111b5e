package audit

import (
	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/transfer"
)

// Read returns the record at an index, and its JSON. The record's leaf in the tree covers the JSON.
func (l *Log) Read(i int64) ([]byte, Record, error) {
	if size := l.Size(); i < 0 || i >= size {
		return nil, Record{}, transfer.Errorf(transfer.KindNotFound, "the audit log has %d records; there is none at index %d", size, i)
	}
	c, err := l.files.index.cell(i)
	if err != nil {
		return nil, Record{}, logError(l.files.dir, err)
	}
	return l.files.record(i, c)
}

// Scan calls fn for each record from an index on, in the order of the log, up to the size of the log at the call. raw
// and the record are valid until fn returns. If fn returns fs.SkipAll, Scan ends without an error.
func (l *Log) Scan(from int64, fn func(i int64, raw []byte, r *Record) error) error {
	return l.files.scan(from, l.snapshot(), fn)
}

// Proof returns the proof that the log at a size has the record at an index. size is at most the present size.
func (l *Log) Proof(i, size int64) (tlog.RecordProof, error) {
	if have := l.Size(); size > have || i < 0 || i >= size {
		return nil, transfer.Errorf(transfer.KindNotFound, "the audit log has %d records; no proof of index %d at size %d", have, i, size)
	}
	p, err := tlog.ProveRecord(size, i, l.files.hashes)
	if err != nil {
		return nil, logError(l.files.dir, err)
	}
	return p, nil
}

// CheckProof verifies, without the log, that the log of a checkpoint has the record with this JSON at an index.
func CheckProof(p tlog.RecordProof, c Checkpoint, i int64, raw []byte) error {
	root, err := parseRoot(c.Root)
	if err == nil {
		err = tlog.CheckRecord(p, c.Size, root, i, tlog.RecordHash(raw))
	}
	if err != nil {
		return transfer.Errorf(transfer.KindDigest, "the log of %d records is not proved to have this record at index %d: %w", c.Size, i, err)
	}
	return nil
}

// ProofBetween returns the proof that the log at size to is the log at size from with records added. A witness asks for
// it between two checkpoints.
func (l *Log) ProofBetween(from, to int64) (tlog.TreeProof, error) {
	if have := l.Size(); from < 1 || from > to || to > have {
		return nil, transfer.Errorf(transfer.KindNotFound, "the audit log has %d records; no proof between the sizes %d and %d", have, from, to)
	}
	p, err := tlog.ProveTree(to, from, l.files.hashes)
	if err != nil {
		return nil, logError(l.files.dir, err)
	}
	return p, nil
}

// CheckProofBetween verifies, without the log, that the log of a later checkpoint has all records of an earlier one.
func CheckProofBetween(p tlog.TreeProof, from, to Checkpoint) error {
	a, err := parseRoot(from.Root)
	if err != nil {
		return err
	}
	b, err := parseRoot(to.Root)
	if err == nil {
		err = tlog.CheckTree(p, to.Size, b, from.Size, a)
	}
	if err != nil {
		return transfer.Errorf(transfer.KindDigest, "the log of %d records is not proved to go on from the one of %d: %w", to.Size, from.Size, err)
	}
	return nil
}
