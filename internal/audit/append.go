package audit

import (
	"encoding/hex"
	"fmt"
	"maps"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/audit/witness"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// saveEvery is the number of records between two saves of the state. A start reads at most that many.
const saveEvery = 8192

// maxAppend bounds the bytes that one append adds to the records file: a batch with its frames, and a gap record.
const maxAppend = 2 << 20

// Append appends the records of a batch that the log does not have yet. It returns when they are durable. The Receipt
// describes the log after that. The numbers of the records decide, not the time of arrival:
//
//   - The Receipt covers records again that the log already has.
//   - Nothing after a hole is appended.
//   - A hole below the batch's floor is recorded and skipped.
//
// A process that publishes under an agent's name cannot exclude the agent's own records. Records in a recorded gap are
// appended when they arrive. So are records with numbers that the log has with another content; a record about that
// precedes them.
func (l *Log) Append(b Batch) (Receipt, error) { return l.append(b, nil) }

// Append is Log.Append for a batch that must have this agent's seal. Without a valid seal, it returns an error of
// KindDenied.
func (by Sealer) Append(l *Log, b Batch) (Receipt, error) { return l.append(b, &by) }

func (l *Log) append(b Batch, by *Sealer) (Receipt, error) {
	key, err := b.stream()
	if err != nil {
		return Receipt{}, err
	}

	list, err := b.entries(key)
	if err != nil {
		return Receipt{}, err
	}

	if err := by.check(&b, list); err != nil {
		return Receipt{}, err
	}

	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.usable(); err != nil {
		return Receipt{}, err
	}

	s := newStage(l.tip, l.streams, key, l.own())
	if err := l.stageGaps(s, key, &b, list); err != nil {
		return Receipt{}, err
	}

	var fresh []entry
	for i := range list {
		p, n := s.streams[key], list[i].rec.N
		if n > p.have+1 {
			break // after a hole, as are all further ones
		}
		if n <= p.have && !p.lacks(n) {
			continue
		}
		if err := s.put(list[i].body, &list[i].rec); err != nil {
			return Receipt{}, err
		}
		fresh = append(fresh, list[i])
	}
	at := s.tip.tree.size - int64(len(fresh))
	if err := l.stageSeal(s, by, key, &b, list, fresh); err != nil {
		return Receipt{}, err
	}
	if err := l.commit(s); err != nil {
		return Receipt{}, err
	}

	if b.Added != nil {
		b.Added(s.records)
	}
	for i := range fresh {
		l.recent.repeats.add(key, fresh[i].rec.N, fresh[i].body)
		l.recent.places.add(key, fresh[i].rec.N, at+int64(i))
	}
	if by != nil && len(list) > 0 {
		l.recent.unsealed.take(key, list[0].rec.N, list[len(list)-1].rec.N)
	}
	return l.receipt(key, &b, list), nil
}

// receipt returns the Receipt for a batch: the part of its records that the log has.
func (l *Log) receipt(key stream, b *Batch, list []entry) Receipt {
	p, ok := l.streams[key]
	if !ok {
		p.index = -1
	}
	last := p.have
	if len(list) > 0 {
		last = list[len(list)-1].rec.N
	}
	return Receipt{V: RecordVersion, Agent: b.Agent, Incarnation: b.Incarnation, Have: p.through(b.Floor, last), Index: p.index, Last: p.have}
}

// A Newest is the record of a ledger with the greatest number in the log.
type Newest struct {
	N    uint64 // number; 0: no record
	Hash string // HashOf the record; empty: the log got it before an older one
}

// NewestOf returns the record of a ledger with the greatest number in the log.
func NewestOf(l *Log, agent transfer.AgentName, incarnation string) (Newest, error) {
	v, err := ParseIncarnation(incarnation)
	if err != nil {
		return Newest{}, nil
	}
	l.mu.RLock()
	p := l.streams[stream{agent, v}]
	l.mu.RUnlock()
	if p.have == 0 {
		return Newest{}, nil
	}
	raw, r, err := l.Read(p.index)
	if err != nil || r.N != p.have {
		return Newest{N: p.have}, err
	}
	return Newest{p.have, HashOf(raw)}, nil
}

// HashOf returns the hash that distinguishes records with the same number.
func HashOf(record []byte) string {
	h := tlog.RecordHash(record)
	return hex.EncodeToString(h[:16])
}

// stageGaps stages records about the batch: about the numbers that it shows to be missing, and about its records that
// the log has with another content.
func (l *Log) stageGaps(s *stage, key stream, b *Batch, list []entry) error {
	if have := s.streams[key].have; b.Floor > have+1 {
		gap := &Gap{b.Agent, b.Incarnation, have + 1, b.Floor - 1}
		if err := l.stageOwn(s, &Record{Event: GapFound, Gap: gap, Text: fmt.Sprintf(
			"records %d to %d of %s had been receipted and are not in this log", gap.From, gap.To, key)}); err != nil {
			return err
		}
	}

	p, other := s.streams[key], (*Gap)(nil)
	for i := range list {
		n := list[i].rec.N
		if n > p.have || p.lacks(n) || !l.recent.repeats.differs(key, n, list[i].body) {
			continue
		}
		if other == nil {
			other = &Gap{b.Agent, b.Incarnation, n, n}
		}
		other.To = n
	}

	if other == nil {
		return nil
	}

	return l.stageOwn(s, &Record{Event: Disputed, Gap: other, Text: fmt.Sprintf(
		"records %d to %d of %s came again with another content; both are in the log", other.From, other.To, key)})
}

// stageSeal stages the seal after a batch's records, if the log needs it. fresh are those staged last.
func (l *Log) stageSeal(s *stage, by *Sealer, key stream, b *Batch, list, fresh []entry) error {
	if by == nil || len(fresh) == 0 && !l.recent.unsealed.has(key, list[0].rec.N, list[len(list)-1].rec.N) {
		return nil
	}
	return l.stageOwn(s, by.record(b, list, fresh))
}

// AppendOwn appends a record of coordination's own. The log numbers it, and fills in agent, incarnation, time and role
// if they are empty.
func (l *Log) AppendOwn(rec Record) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.appendOwn(rec)
}

func (l *Log) appendOwn(rec Record) error {
	if err := l.usable(); err != nil {
		return err
	}
	s := newStage(l.tip, l.streams, l.own())
	if err := l.stageOwn(s, &rec); err != nil {
		return err
	}
	return l.commit(s)
}

// Bind records the owner of a key, and returns the index of the record.
func Bind(l *Log, b *witness.Binding) (index int64, err error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	err = l.appendOwn(Record{Event: Bound, Vouched: Vouched{Binding: b}, Text: fmt.Sprintf("%s signs its records with the key %s", b.Identity, b.ID())})
	return l.tip.tree.size - 1, err
}

// own returns the numbering of coordination's own records.
func (l *Log) own() stream { return stream{Coordination, l.files.id} }

func (l *Log) usable() error {
	if l.lock == nil {
		return transfer.Errorf(transfer.KindUsage, "the audit log in %s is open for reading only", l.files.dir)
	}
	if l.failed == nil {
		return l.fenced()
	}
	return l.failed
}

func (l *Log) stageOwn(s *stage, rec *Record) error {
	key := l.own()
	rec.Agent, rec.Incarnation, rec.N = key.agent, FormatIncarnation(key.incarnation), s.streams[key].have+1
	if rec.Time.IsZero() {
		rec.Time = l.now()
	}

	if rec.Role == "" {
		rec.Role = RoleCoordination
	}

	body, err := Encode(rec)
	if err != nil {
		return err
	}
	return s.put(body, rec)
}

// commit makes the staged records durable and then visible. The caller holds l.writing.
func (l *Log) commit(s *stage) error {
	if len(s.frames) == 0 {
		return nil
	}

	if _, err := l.files.records.WriteAt(s.frames, s.first.end); err != nil {
		// Only the tail of one file has changed. Undo it, so that an append can be tried again when there is space.
		if undo := l.files.records.Truncate(s.first.end); undo != nil {
			return l.fail("records", undo)
		}
		return transfer.Errorf(transfer.KindOf(err), "audit log %s cannot be written: %w", l.files.dir, err).
			WithHint("make space for it; agents keep their records until it has them")
	}

	failpoint.Hit("audit.written")
	if err := l.files.records.Sync(); err != nil {
		return l.fail(recordsName, err)
	}

	failpoint.Hit("audit.synced")
	// Only after the sync: records in the index and the hashes count as durable.
	if err := l.files.index.write(s.cells, s.first.tree.size); err != nil {
		return l.fail(indexName, err)
	}
	if err := l.files.hashes.write(s.hashes, tlog.StoredHashCount(s.first.tree.size)); err != nil {
		return l.fail(hashesName, err)
	}
	if err := l.files.index.f.Sync(); err != nil {
		return l.fail(indexName, err)
	}
	if err := l.files.hashes.f.Sync(); err != nil {
		return l.fail(hashesName, err)
	}

	failpoint.Hit("audit.appended")
	if err := l.atPath(); err != nil {
		return err
	}

	l.mu.Lock()
	l.tip = s.tip
	maps.Copy(l.streams, s.streams)
	l.mu.Unlock()
	if l.tip.tree.size-l.saved >= saveEvery {
		// The records are safe. An old state only makes the next start slower.
		_ = l.save()
	}
	return nil
}

// fail stops writing for the rest of the process. After a failed sync the content of the disk is unknown, and a second
// sync would not reveal it. Only a new start, which reads the data and writes it again, can continue.
func (l *Log) fail(name string, err error) error {
	l.failed = transfer.Errorf(transfer.KindOf(err), "the audit log stopped, because %s in %s could not be made durable: %w", name, l.files.dir, err).
		WithHint("see to the disk, then start coordination again; agents keep their records until it has them")
	return l.failed
}
