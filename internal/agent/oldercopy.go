package agent

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
)

// olderFor is the time for which an agent is DEGRADED after it has found that it runs on an older copy of its ledger.
const olderFor = 24 * time.Hour

// An olderCopy says whether the ledger of an agent is an older copy of itself, as a backup that was
// put back is. Audit records show it: coordination's log, or the owner's record of the name, has greater numbers than
// the ledger, or the log has another record under a number. The second case is seen only before this run has sent
// records.
type olderCopy struct {
	*core
	found atomic.Pointer[olderCopyFinding]
	// compared is set when coordination's log was compared in this run, or where the network has no coordination. Until
	// then no record is sent.
	compared atomic.Bool
	resend   chan struct{} // says that the outbox has other numbers now
	look     chan struct{} // says that the record of the name's owner is to have another mark now; see owner
}

// An olderCopyFinding is one find, as the ledger keeps it.
type olderCopyFinding struct {
	V     int       `json:"v"`
	At    time.Time `json:"at"`
	Had   uint64    `json:"had"`  // audit records of the copy
	Last  uint64    `json:"last"` // that others have of the ledger
	Where string    `json:"where"`
}

func (s *olderCopyFinding) String() string {
	if s.Had >= s.Last {
		return fmt.Sprintf("the ledger is an older copy: %s has another audit record %d of it; transfers that began after the copy end as unknown-outcome", s.Where, s.Last)
	}
	return fmt.Sprintf("the ledger is an older copy: it had %d audit records, and %s has %d of it; transfers that began after the copy end as unknown-outcome", s.Had, s.Where, s.Last)
}

// open reads the last find from the ledger.
func (o *olderCopy) open() error {
	o.compared.Store(o.cfg.unique())
	return o.ledger.View(func(t *ledger.Tx) error {
		s := &olderCopyFinding{}
		if doc := ledger.OlderCopyOf(t).Get(); len(doc) > 0 && json.Unmarshal(doc, s) == nil {
			o.found.Store(s)
		}
		return nil
	})
}

// hearLog takes the number of the last audit record that coordination has of the ledger, and its audit.HashOf if that
// is known.
func (o *olderCopy) hearLog(last uint64, hash string) {
	if err := o.hearRecord(last, hash, "coordination"); err != nil {
		o.log.Error("write ledger failed", "error", err)
		return
	}
	o.compared.Store(true)
}

// hear takes the number of the last audit record of the ledger that the queue manager or coordination has.
func (o *olderCopy) hear(last uint64, where string) error { return o.hearRecord(last, "", where) }

// hearRecord takes the number of the last audit record of the ledger that the queue manager or coordination has, and
// its hash if that is known. The ledger may have fewer records, or another one of this number. Its records then get
// numbers beyond that one, because under known numbers they would be taken for repeats.
func (o *olderCopy) hearRecord(last uint64, hash, where string) error {
	if last > audit.MaxNumber/2 {
		return nil
	}
	isOlder := func(t *ledger.Tx) (had uint64, is bool) {
		had = ledger.LastAuditNumber(t)
		record := ledger.AuditRecord(t, last)
		return had, had < last || hash != "" && record != nil && audit.HashOf(record) != hash
	}
	var s *olderCopyFinding
	err := o.ledger.View(func(t *ledger.Tx) error {
		if had, is := isOlder(t); is {
			s = &olderCopyFinding{V: 1, At: o.cfg.Clock.Now().UTC(), Had: had, Last: last, Where: where}
		}
		return nil
	})
	if err != nil || s == nil {
		return err
	}
	err = o.ledger.Update(func(t *ledger.Tx) error {
		is := false
		if s.Had, is = isOlder(t); !is {
			s = nil
			return nil
		}
		if err := ledger.Renumber(t, last, renumbered); err != nil {
			return err
		}
		doc, err := json.Marshal(s)
		if err == nil {
			err = ledger.OlderCopyOf(t).Put(doc)
		}
		if err == nil {
			err = o.note(t, audit.Record{Event: audit.Warning, Source: o.cfg.Name, Text: s.String()})
		}
		return err
	})
	if err != nil || s == nil {
		return err
	}
	o.found.Store(s)
	o.log.Error("the ledger is an older copy; transfers that it does not know end as unknown-outcome", "records", s.Had, "known_records", s.Last, "known_by", where)
	wake.Up(o.resend)
	wake.Up(o.look)
	o.beatNow()
	return nil
}

// renumbered is an audit record with another number.
func renumbered(record []byte, n uint64) ([]byte, error) {
	r, err := audit.Decode(record)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "an audit record of the outbox cannot be read: %w", err)
	}
	r.N = n
	return audit.Encode(&r)
}

// degraded is the reason why the agent is DEGRADED; empty: none.
func (o *olderCopy) degraded() string {
	if s := o.found.Load(); s != nil && o.cfg.Clock.Now().Sub(s.At) < olderFor {
		return s.String()
	}
	return ""
}
