//go:build linux

package power_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
	"ferry/test/flow/network"
	"ferry/test/judge"
)

// An onDisk is a ledger on a disk, read without changing it. The test decodes plain entries itself. Ferry reads the
// items, which may be packed in groups, from a copy.
type onDisk struct {
	t  *testing.T
	tx *bbolt.Tx
	of *ledger.Tx
}

// readLedger calls f with the ledger of a process that does not run.
func readLedger(t *testing.T, state string, f func(*onDisk)) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(state, "ledger.db"), 0o600, &bbolt.Options{ReadOnly: true, Timeout: 10 * time.Second})
	if err != nil {
		t.Errorf("after the cut the ledger cannot be read: %v", err)
		return
	}
	defer db.Close()
	dir := t.TempDir()
	must(t, db.View(func(tx *bbolt.Tx) error { return tx.CopyFile(filepath.Join(dir, "ledger.db"), 0o600) }))
	copied, err := ledger.Open(dir, ledger.Options{})
	if err != nil {
		t.Errorf("after the cut the ledger cannot be opened: %v", err)
		return
	}
	defer copied.Close()
	must(t, copied.View(func(of *ledger.Tx) error {
		return db.View(func(tx *bbolt.Tx) error {
			f(&onDisk{t, tx, of})
			return nil
		})
	}))
}

func (l *onDisk) get(bucket string, key []byte, v any) bool {
	l.t.Helper()
	b := l.tx.Bucket([]byte(bucket))
	if b == nil {
		return false
	}
	data := b.Get(key)
	if data == nil {
		return false
	}
	// The checksum follows the value; only Ferry checks it.
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(v); err != nil {
		l.t.Errorf("the ledger's %s record %x is damaged: %v", bucket, key, err)
		return false
	}
	return true
}

func (l *onDisk) item(id transfer.ID, item uint64) (it ledger.Item, ok bool) {
	l.t.Helper()
	have, err := l.of.Item(id, item)
	must(l.t, err)
	if have == nil {
		return it, false
	}
	return *have, true
}

// items calls f for every incoming item in the ledger.
func (l *onDisk) items(f func(id transfer.ID, item uint64, it *ledger.Item)) {
	l.t.Helper()
	must(l.t, l.of.Incomings(func(in *ledger.Incoming) error {
		return l.of.Items(in.Request.ID, func(item uint64, it *ledger.Item) error {
			f(in.Request.ID, item, it)
			return nil
		})
	}))
}

// checkSource compares the source's messages with its ledger.
func (l *onDisk) checkSource(id transfer.ID, said *toldOf) {
	l.t.Helper()
	var s ledger.Source
	if !l.get("source", id[:], &s) {
		if said.accepted {
			l.t.Errorf("transfer %s was accepted before the cut, and its source does not know it after", id)
		}
		return
	}
	if said.final != "" && s.State != said.final {
		l.t.Errorf("transfer %s was %s before the cut and is %s after", id, said.final, s.State)
	}
	if s.Nonce < said.nonce {
		l.t.Errorf("the source of transfer %s has asked with nonce %d and has only %d on record", id, said.nonce, s.Nonce)
	}
	if s.State.Final() {
		return
	}
	for item := range said.acked {
		if !s.Decided.Has(item) {
			l.t.Errorf("the source of transfer %s has acknowledged the outcome of item %d and does not have it after the cut", id, item)
			return
		}
	}
	if said.ended && !s.Settled && s.State != transfer.Settling {
		l.t.Errorf("the source of transfer %s has acknowledged the last outcomes and is %s after the cut", id, s.State)
	}
}

// checkDestination compares the destination's messages with its ledger.
func (l *onDisk) checkDestination(id transfer.ID, said *toldOf) {
	l.t.Helper()
	var in ledger.Incoming
	if !l.get("incoming", id[:], &in) {
		if said.epoch > 0 {
			l.t.Errorf("the destination of transfer %s has accepted it and does not know it after the cut", id)
		}
		return
	}
	if in.Epoch < said.epoch {
		l.t.Errorf("the destination of transfer %s has said epoch %d and has only %d on record", id, said.epoch, in.Epoch)
	}
	if in.State.Final() {
		return
	}
	for item, out := range said.outcomes {
		it, ok := l.item(id, item)
		switch {
		case !in.Decided.Has(item):
			l.t.Errorf("the destination of transfer %s has told the outcome of item %d and has not decided it after the cut", id, item)
			return
		case ok && it.Outcome != nil && it.Outcome.Digest != out.Digest:
			l.t.Errorf("the destination of transfer %s has told digest %s of item %d and has %s on record", id, out.Digest, item, it.Outcome.Digest)
		}
	}
	for item, at := range said.safe {
		it, ok := l.item(id, item)
		if in.Decided.Has(item) || ok && (it.Outcome != nil || it.Intent != nil) {
			continue
		}
		if !ok || it.Point == nil || it.Point.Source < at {
			l.t.Errorf("the destination of transfer %s has said that %d bytes of item %d are safe and has less on record: %+v", id, at, item, it.Point)
		}
	}
}

// pointsStand compares the resume points of a ledger with their temporaries. All data that were durable when the point
// was written must be present (INV-6).
func (s *story) pointsStand(l *onDisk) {
	s.t.Helper()
	meta := l.tx.Bucket([]byte("meta"))
	if meta == nil || len(meta.Get([]byte("incarnation"))) < 8 {
		return
	}
	incarnation := binary.BigEndian.Uint64(meta.Get([]byte("incarnation")))
	l.items(func(id transfer.ID, item uint64, it *ledger.Item) {
		if it.Point == nil || it.Intent != nil || it.Outcome != nil {
			return
		}
		var in ledger.Incoming
		if !l.get("incoming", id[:], &in) || in.State.Final() {
			return
		}
		for _, j := range s.jobs {
			for k, c := range s.n.Copies(j) {
				if !strings.HasSuffix(c.Dest, "/"+string(it.Point.Name)) {
					continue
				}
				s.points++
				name := filepath.Join(filepath.Dir(c.Dest), disk.TempName(incarnation, in.Generation, id, item))
				s.checkPoint(name, network.Content(j.Seed, uint64(k)), it.Point.Source)
			}
		}
	})
}

func (s *story) checkPoint(name string, content io.Reader, size int64) {
	s.t.Helper()
	want, err := judge.Of(io.LimitReader(content, size))
	must(s.t, err)
	f, err := os.Open(name)
	if err != nil {
		s.t.Errorf("the ledger has %d safe bytes of a temporary that is not there: %v", size, err)
		return
	}
	defer f.Close()
	if got, err := judge.Of(io.LimitReader(f, size)); err != nil || got != want {
		s.t.Errorf("the ledger has %d safe bytes of %s, and they are not those of the file (%d bytes are there, %v)", size, name, got.Size, err)
	}
}

// ledgersStand checks the ledgers of the agents after their power cut.
func (s *story) ledgersStand(who []string) {
	s.t.Helper()
	for _, agent := range who {
		if agent == network.QM {
			s.checkLog()
			continue
		}
		readLedger(s.t, s.n.State(agent), func(l *onDisk) {
			s.told.mu.Lock()
			defer s.told.mu.Unlock()
			for id, said := range s.told.of {
				if agent == source {
					l.checkSource(id, said)
				} else {
					l.checkDestination(id, said)
				}
			}
			if agent == destination {
				s.pointsStand(l)
			}
		})
	}
}

// checkLog compares the receipts that coordination has given with its log.
func (s *story) checkLog() {
	s.t.Helper()
	log, err := audit.OpenLogReadOnly(filepath.Join(s.n.State(network.QM), "coordination", "audit"))
	if err != nil {
		s.t.Errorf("after the cut the audit log cannot be read: %v", err)
		return
	}
	defer log.Close()
	have := map[audit.Receipt]uint64{}
	if err := log.Scan(0, func(_ int64, _ []byte, r *audit.Record) error {
		key := audit.Receipt{Agent: r.Agent, Incarnation: r.Incarnation}
		have[key] = max(have[key], r.N)
		return nil
	}); err != nil {
		s.t.Errorf("after the cut the audit log cannot be read: %v", err)
	}
	// Hashes of an append without a receipt may be torn until the log is opened for writing. The end of the case
	// verifies them.
	if report, err := log.Verify(s.t.Context(), nil); err != nil || report.Gaps > 0 {
		s.t.Errorf("the audit log after the cut: %+v, %v", report, err)
	} else if report.Found > 0 {
		s.t.Logf("the audit log before its start: %d problems, the first of them: %s", report.Found, report.Problems[0].Text)
	}
	s.told.mu.Lock()
	defer s.told.mu.Unlock()
	for key, n := range s.told.receipts {
		if have[key] < n {
			s.t.Errorf("coordination has receipted record %d of %s and has only %d after the cut", n, key.Agent, have[key])
		}
	}
}

// filesStand checks every file of the jobs before any process of Ferry has run on the cut disks. No incomplete file has
// a final name. A file that was reported as arrived is present, and a source is gone only after its arrival.
func (s *story) filesStand(who []string) {
	s.t.Helper()
	gone := map[string]bool{}
	for _, j := range s.jobs {
		for _, c := range s.n.Copies(j) {
			if _, err := os.Lstat(c.Source); os.IsNotExist(err) {
				gone[c.Source] = true
			}
		}
	}
	arrived := s.told.arrived()
	cut := slices.Contains(who, destination)
	for _, j := range s.jobs {
		for _, c := range s.n.Copies(j) {
			must := arrived[c.Dest] || gone[c.Source]
			if !cut && !must {
				continue // its agent runs and may be removing it
			}
			s.checkFile(c, must, gone[c.Source])
		}
	}
	if cut {
		s.strangers()
	}
	if slices.Contains(who, source) {
		s.deletionsStand()
	}
}

// deletionsStand looks for sources that are back although their transfer, and with it their deletion, had ended.
func (s *story) deletionsStand() {
	s.t.Helper()
	s.told.mu.Lock()
	defer s.told.mu.Unlock()
	for _, x := range s.sent {
		id, err := transfer.ParseID(x.command.Last().ID)
		if err != nil || !x.job.Delete || s.told.about(id).final != transfer.Successful {
			continue
		}
		for _, c := range s.n.Copies(x.job) {
			if _, err := os.Lstat(c.Source); err == nil {
				s.t.Errorf("transfer %s was successful, and after the cut its source %s is back", id, c.Source)
			}
		}
	}
}

func (s *story) checkFile(c network.Copy, must, gone bool) {
	s.t.Helper()
	var sum judge.Sum
	f, err := os.Open(c.Dest)
	there := err == nil
	if there {
		sum, err = judge.Of(f)
		f.Close()
	}
	switch {
	case there && err != nil:
		s.t.Errorf("%s cannot be read after the cut: %v", c.Dest, err)
	case there && sum == c.Sum:
	case must && gone:
		s.t.Errorf("the source of %s is gone after the cut, and the file has not arrived (%d bytes are there)", c.Dest, sum.Size)
	case must:
		s.t.Errorf("%s was told to have arrived, and is not there after the cut (%d bytes are)", c.Dest, sum.Size)
	case there && (c.Old == nil || sum != *c.Old):
		s.t.Errorf("%s is there after the cut with %d bytes that are not the %d of the file", c.Dest, sum.Size, c.Sum.Size)
	case !there && c.Old != nil:
		s.t.Errorf("%s was to be replaced, and after the cut there is neither the old nor the new file", c.Dest)
	}
}

// strangers looks for final names that no job has.
func (s *story) strangers() {
	s.t.Helper()
	known := map[string]bool{}
	for _, j := range s.jobs {
		for _, c := range s.n.Copies(j) {
			known[c.Dest] = true
		}
	}
	files, _, err := judge.Tree(s.n.Root(destination))
	must(s.t, err)
	for name := range files {
		if !known[s.n.Path(destination, name)] {
			s.t.Errorf("after the cut there is a file %s that nobody has sent", name)
		}
	}
}

// arrived returns the destination paths of all items that were reported as successful.
func (to *told) arrived() map[string]bool {
	to.mu.Lock()
	defer to.mu.Unlock()
	all := map[string]bool{}
	for _, said := range to.of {
		for _, o := range said.outcomes {
			if o.OK() && o.Taken == transfer.NotTaken && o.Type == transfer.ItemFile {
				all[strings.TrimSuffix(string(o.Path), "/")] = true
			}
		}
	}
	return all
}
