package ledger

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"ferry/internal/transfer"
)

// The outbox holds audit records from the transaction that caused them until
// coordination has receipted them. They are numbered from 1 without gaps.

// Audit puts a record into the outbox; build gets its number.
func (t *Tx) Audit(build func(n uint64) []byte) error {
	b := t.tx.Bucket(bOutbox)
	n, err := b.NextSequence()
	if err != nil {
		return err
	}
	t.made.outbox++
	return b.Put(binary.BigEndian.AppendUint64(nil, n), build(n))
}

// Outbox returns the number of waiting records.
func (l *Ledger) Outbox() int64 { return l.counted.outbox.Load() }

// OutboxFull returns the error that pauses transfers while too many records wait.
func (l *Ledger) OutboxFull() error {
	if n := l.counted.outbox.Load(); n >= l.opt.OutboxLimit {
		return transfer.Errorf(transfer.KindBusy, "the audit outbox is full: %d records wait for coordination", n).
			WithHint("start coordination; the transfer goes on by itself")
	}
	return nil
}

// OutboxFillsUp reports whether the outbox has at least a quarter of its limit.
func OutboxFillsUp(l *Ledger) bool { return 4*l.counted.outbox.Load() >= l.opt.OutboxLimit }

// OutboxFrom returns waiting records with numbers from n on, up to the limits. oldest is the number of the oldest
// record that is still here (0: none).
func (l *Ledger) OutboxFrom(n uint64, count, bytes int) (first uint64, records [][]byte, oldest uint64, err error) {
	err = l.View(func(t *Tx) error {
		c := t.tx.Bucket(bOutbox).Cursor()
		if k, _ := c.Seek(nil); k != nil {
			oldest = binary.BigEndian.Uint64(k)
		}
		size := 0
		for k, v := c.Seek(binary.BigEndian.AppendUint64(nil, n)); k != nil; k, v = c.Next() {
			size += len(v)
			if len(records) == count || len(records) > 0 && size > bytes {
				break
			}
			if first == 0 {
				first = binary.BigEndian.Uint64(k)
			}
			records = append(records, append([]byte(nil), v...))
		}
		return nil
	})
	return first, records, oldest, err
}

// Receipted drops the records up to n: coordination has them.
func (l *Ledger) Receipted(n uint64) error {
	return l.Update(func(t *Tx) error { return Drop(t, n) })
}

// Drop drops the records up to n: coordination has them.
func Drop(t *Tx, n uint64) error {
	b := t.tx.Bucket(bOutbox)
	c := b.Cursor()
	for k, _ := c.Seek(nil); k != nil && binary.BigEndian.Uint64(k) <= n; k, _ = c.Seek(nil) {
		if err := b.Delete(k); err != nil {
			return err
		}
		t.made.outbox--
	}
	return nil
}

// LastAuditNumber returns the number of the newest audit record that was ever put into the outbox.
func LastAuditNumber(t *Tx) uint64 { return t.tx.Bucket(bOutbox).Sequence() }

// AuditRecord returns the audit record with number n from the outbox; nil: it is not there.
func AuditRecord(t *Tx, n uint64) []byte {
	return t.tx.Bucket(bOutbox).Get(binary.BigEndian.AppendUint64(nil, n))
}

// Renumber gives the waiting records numbers above beyond, in their order; rewrite puts its new number into a record.
// It also gives the ledger a new mark.
func Renumber(t *Tx, beyond uint64, rewrite func(record []byte, n uint64) ([]byte, error)) error {
	b := t.tx.Bucket(bOutbox)
	c := b.Cursor()
	var all [][]byte
	for k, v := c.Seek(nil); k != nil; k, v = c.Seek(nil) {
		all = append(all, append([]byte(nil), v...))
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	if err := errors.Join(b.SetSequence(beyond), Remark(t)); err != nil {
		return err
	}
	for _, record := range all {
		n, err := b.NextSequence()
		if err != nil {
			return err
		}
		if record, err = rewrite(record, n); err != nil {
			return err
		}
		if err := b.Put(binary.BigEndian.AppendUint64(nil, n), record); err != nil {
			return err
		}
	}
	return nil
}

// Mark returns the name of the ledger's state since the last Remark, or since it was made. A copy that is restored
// later has the same mark until Remark.
func Mark(l *Ledger) (mark string, err error) {
	err = l.View(func(t *Tx) error {
		mark = l.IncarnationText()
		if n := getU64(t.tx.Bucket(bMeta), "mark"); n > 0 {
			mark = fmt.Sprintf("%s.%016x", mark, n)
		}
		return nil
	})
	return mark, err
}

// Remark gives the ledger a mark that no ledger has had: it is an older copy of itself, or another ledger has had the
// agent's name. In both cases the agent may have taken transfers that are not in it.
func Remark(t *Tx) error {
	var n [8]byte
	rand.Read(n[:])
	m := t.tx.Bucket(bMeta)
	return errors.Join(putU64(m, "mark", binary.BigEndian.Uint64(n[:])|1), putMade(m, t.l.opt.Clock.Now()))
}

// Made returns the time of the ledger's making, or of the last Remark, by the agent's clock. Since then the ledger has
// all transfers that the agent has taken. Of a ledger that an earlier version has made, it is the time of its first
// opening by this one.
func Made(l *Ledger) (at time.Time, err error) {
	err = l.View(func(t *Tx) error {
		at = time.UnixMilli(int64(getU64(t.tx.Bucket(bMeta), "made")))
		return nil
	})
	return at, err
}

func putMade(meta Bucket, at time.Time) error { return putU64(meta, "made", uint64(at.UnixMilli())) }

// OlderCopyOf returns the document that records that the ledger was found to be an older copy of itself.
func OlderCopyOf(t *Tx) Document { return Document{t, []byte("set back")} }
