package audit

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"ferry/internal/transfer"
)

// A Log is coordination's audit log. The package comment describes its guarantees and its files. Its methods may be
// called concurrently. Appends run one after the other, and readers do not wait for their syncs.
type Log struct {
	files    files
	now      func() time.Time
	lock     io.Closer // nil: opened for reading
	openedAs findings  // findings of a log opened for reading

	writing sync.Mutex   // held during an append
	saved   int64        // size at the last save of the state
	failed  error        // final: the reason why nothing is appended any more
	gone    error        // failed, if the reason is that the files were taken away
	may     func() error // reports whether this process still owns the log; nil: no other process can
	recent  recent

	mu      sync.RWMutex // held briefly to read or publish the fields below
	tip     tip
	streams streams
}

// OpenLog opens the log in a directory for appending. It creates the directory and the log if they are missing. now is
// the clock for the log's own records. OpenLog repairs the effects of a crash, and refuses any other damage.
func OpenLog(dir string, now func() time.Time) (*Log, error) { return openLog(dir, now, osDisk{}) }

// A Tail is a use of the last records of a log while OpenTail opens it.
type Tail struct {
	Last int64                                // number of records
	Each func(i int64, raw []byte, r *Record) // raw is valid until Each returns
}

// OpenTail is OpenLog, and passes the last records on in their order. It decodes each record once, for the recovery and
// all tails. Where files have to be repaired, a tail may get more records than Last. After the loss of the log's end it
// may get fewer.
func OpenTail(dir string, now func() time.Time, tails ...Tail) (*Log, error) {
	return openLog(dir, now, osDisk{}, tails...)
}

func openLog(dir string, now func() time.Time, d disk, tails ...Tail) (*Log, error) {
	if err := makeDir(d, dir); err != nil {
		return nil, logError(dir, err)
	}

	held, err := lock(dir)
	if err != nil {
		return nil, err
	}

	l := &Log{files: files{dir: dir, disk: d}, now: now, lock: held, recent: newRecent()}
	err = l.files.open(os.O_RDWR)
	if err == nil {
		err = l.restore(append(tails, Tail{distinguished, l.recent.add}))
	}
	if err != nil {
		l.release()
		return nil, logError(dir, err)
	}
	return l, nil
}

// restore takes over the records that the files have. If the log has lost its end, restore records that.
func (l *Log) restore(tails []Tail) error {
	r, err := recoverFiles(&l.files, tails)
	if err != nil {
		return err
	}
	l.tip, l.streams, l.saved = r.tip, r.streams, r.saved
	switch {
	case r.lost != nil:
		if err := l.appendOwn(r.lost.record()); err != nil {
			return err
		}
	case r.found.st != nil && l.tip.tree.size-l.saved < saveEvery:
		return nil
	}
	return l.save()
}

// OpenLogReadOnly opens the log in a directory without changing it, even beside a writer. It has the records that were
// appended before it was opened. It repairs nothing. If the files disagree, the log has the records that both index and
// hashes cover, and Verify reports the problems.
func OpenLogReadOnly(dir string) (*Log, error) {
	l := &Log{files: files{dir: dir, disk: osDisk{}}, now: time.Now, recent: newRecent()}
	err := l.files.open(os.O_RDONLY)
	if err == nil {
		l.openedAs, err = l.files.readFindings()
	}
	if err == nil {
		l.tip.tree, err = loadTree(min(l.openedAs.hashed, l.openedAs.indexed), l.files.hashes)
		l.tip.end = l.openedAs.bytes
	}
	if err != nil {
		l.release()
		return nil, logError(dir, err)
	}
	return l, nil
}

// release closes the files, and then the lock: its next owner finds the files closed.
func (l *Log) release() error {
	err := l.files.close()
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
	}
	return err
}

// Close saves the state, so that the next start is short, and releases the directory. No method may be called after it.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	var err error
	if l.lock != nil && l.failed == nil && l.saved != l.tip.tree.size {
		err = l.save()
	}
	l.failed = transfer.Errorf(transfer.KindInternal, "the audit log in %s is closed", l.files.dir)
	return errors.Join(err, l.release())
}

// save writes the state file. The caller holds l.writing.
func (l *Log) save() error {
	if err := l.files.save(l.tip, l.streams, nil); err != nil {
		return err
	}
	l.saved = l.tip.tree.size
	return nil
}

// snapshot returns the present tip.
func (l *Log) snapshot() tip {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.tip
}

// Size returns the number of records in the log.
func (l *Log) Size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.tip.tree.size
}

// Takes reports whether the log accepts the batch's ledger: the log has it already, or has fewer than most ledgers of
// the agent.
func (l *Log) Takes(b *Batch, most int) bool {
	key, err := b.stream()
	l.mu.RLock()
	defer l.mu.RUnlock()
	if _, ok := l.streams[key]; ok || err != nil {
		return err == nil
	}
	for other := range l.streams {
		if other.agent == key.agent {
			most--
		}
	}
	return most > 0
}

// Root returns the root of the Merkle tree over all records, in hex.
func (l *Log) Root() (string, error) {
	return l.Checkpoint().Root, nil
}

// A Checkpoint is the root of a log at a size. The log must have this root at this size for ever.
type Checkpoint struct {
	Size int64  `json:"size"`
	Root string `json:"root"` // hex
}

// Checkpoint returns the present size with its root.
func (l *Log) Checkpoint() Checkpoint {
	t := l.snapshot().tree
	return Checkpoint{t.size, t.root()}
}
