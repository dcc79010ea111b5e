package audit

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ferry/internal/transfer"
)

// The files of a log and their magics.
const (
	recordsName, recordsMagic = "records", "FerryRec"
	indexName, indexMagic     = "index", "FerryIdx"
	hashesName, hashesMagic   = "hashes", "FerryHsh"
	stateName, stateMagic     = "state", "FerrySta"
)

// A Log is coordination's audit log. The package comment describes its guarantees and its files. Its methods may be
// called concurrently. Appends run one after the other, and readers do not wait for their syncs.
type Log struct {
	dir      string
	now      func() time.Time
	disk     disk
	lock     io.Closer // nil: opened for reading
	id       uint64    // the log's incarnation
	records  file
	index    table
	hashes   table
	openedAs findings // findings of a log opened for reading

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

// A tip is the end of the log.
type tip struct {
	tree tree
	end  int64 // offset in records
}

// OpenLog opens the log in a directory for appending. It creates the directory and the log if they are missing. now is
// the clock for the log's own records. OpenLog repairs the effects of a crash, and refuses any other damage.
func OpenLog(dir string, now func() time.Time) (*Log, error) { return openLog(dir, now, osDisk{}) }

func openLog(dir string, now func() time.Time, d disk) (*Log, error) {
	if err := makeDir(d, dir); err != nil {
		return nil, logError(dir, err)
	}

	held, err := lock(dir)
	if err != nil {
		return nil, err
	}

	l := &Log{dir: dir, now: now, disk: d, lock: held, recent: newRecent()}
	err = l.openFiles(os.O_RDWR)
	if err == nil {
		err = l.recover()
	}
	if err == nil {
		err = l.Scan(l.Size()-toldApart, l.recent.add)
	}
	if err != nil {
		l.closeFiles()
		return nil, logError(dir, err)
	}
	return l, nil
}

// OpenLogReadOnly opens the log in a directory without changing it, even beside a writer. It has the records that were
// appended before it was opened. It repairs nothing. If the files disagree, the log has the records that both index and
// hashes cover, and Verify reports the problems.
func OpenLogReadOnly(dir string) (*Log, error) {
	l := &Log{dir: dir, now: time.Now, disk: osDisk{}, recent: newRecent()}
	err := l.openFiles(os.O_RDONLY)
	if err == nil {
		l.openedAs, err = l.look()
	}
	if err == nil {
		l.tip.tree, err = loadTree(min(l.openedAs.hashed, l.openedAs.indexed), l.hashes)
		l.tip.end = l.openedAs.bytes
	}
	if err != nil {
		l.closeFiles()
		return nil, logError(dir, err)
	}
	return l, nil
}

// logError adds the name of the log to an error that is no *transfer.Error.
func logError(dir string, err error) error {
	var e *transfer.Error
	if errors.As(err, &e) {
		return err
	}
	return transfer.Errorf(transfer.KindOf(err), "audit log %s: %w", dir, err)
}

// damaged returns the error for damage that no crash causes.
func (l *Log) damaged(file, text string) error {
	return transfer.Errorf(transfer.KindInternal, "the audit log is damaged or was changed: %s: %s", filepath.Join(l.dir, file), text).WithHint(mending(l.dir))
}

// mending returns the next step for a damaged log.
func mending(dir string) string {
	return "look at it with `ferry audit verify --dir " + dir + "`, then restore the directory from a copy, or move it away to begin a new log"
}

// openFiles opens records, hashes and index; with O_RDWR it creates them.
func (l *Log) openFiles(flag int) error {
	path := filepath.Join(l.dir, recordsName)
	f, err := l.disk.open(path, flag)
	if errors.Is(err, fs.ErrNotExist) {
		if found, err := present(l.disk, l.dir, hashesName, indexName, stateName); err != nil || found {
			return errors.Join(err, l.damaged(recordsName, "it is missing, but the log's other files are there"))
		}
		if flag == os.O_RDWR {
			if err := l.create(path); err != nil {
				return err
			}
			f, err = l.disk.open(path, flag)
		}
	}
	if err != nil {
		return err
	}

	l.records = f
	var b [headerSize]byte
	if err := readAt(f, b[:], 0); err == io.ErrUnexpectedEOF {
		return l.damaged(recordsName, "offset 0: it ends inside the header")
	} else if err != nil {
		return err
	}

	if l.id, err = parseHeader(b[:], recordsMagic, path); err != nil {
		return err
	}

	if l.hashes, err = l.openTable(hashesName, hashesMagic, flag); err != nil {
		return err
	}

	l.index, err = l.openTable(indexName, indexMagic, flag)
	return err
}

// Exists reports whether a directory has a log, or parts of one.
func Exists(dir string) bool {
	found, err := present(osDisk{}, dir, recordsName, hashesName, indexName, stateName)
	return found || err != nil
}

// present reports whether a directory has any of the files.
func present(d disk, dir string, names ...string) (bool, error) {
	for _, name := range names {
		f, err := d.open(filepath.Join(dir, name), os.O_RDONLY)
		switch {
		case err == nil:
			return true, f.Close()
		case !errors.Is(err, fs.ErrNotExist):
			return false, err
		}
	}
	return false, nil
}

// create makes the records file of a new log. Records are created first and never removed. So any other file of a log
// shows that there was a log.
func (l *Log) create(path string) error {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return replace(l.disk, path, header(recordsMagic, binary.BigEndian.Uint64(b[:])))
}

// openTable opens the index or the hashes. If the file is missing or ends inside its header, it is made anew, empty,
// and filled from the records.
func (l *Log) openTable(name, magic string, flag int) (table, error) {
	path := filepath.Join(l.dir, name)
	f, err := l.disk.open(path, flag)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return table{}, err
	}
	if err == nil {
		var b [headerSize]byte
		err = readAt(f, b[:], 0)
		if err == nil {
			id, err := parseHeader(b[:], magic, path)
			if err == nil && id != l.id {
				err = l.damaged(name, "it belongs to another log than records does")
			}
			if err != nil {
				f.Close()
				return table{}, err
			}
			return table{f}, nil
		}
		f.Close()
		if err != io.ErrUnexpectedEOF {
			return table{}, err
		}
	}

	if flag != os.O_RDWR {
		return table{}, nil
	}
	if err := replace(l.disk, path, header(magic, l.id)); err != nil {
		return table{}, err
	}

	f, err = l.disk.open(path, flag)
	if err != nil {
		return table{}, err
	}
	return table{f}, nil
}

func (l *Log) closeFiles() error {
	var list []error
	for _, f := range []file{l.records, l.index.f, l.hashes.f} {
		if f != nil {
			list = append(list, f.Close())
		}
	}
	if l.lock != nil { // last: the next owner of the lock finds the files closed
		list = append(list, l.lock.Close())
	}
	return errors.Join(list...)
}

// Close saves the state, so that the next start is short, and releases the directory. No method may be called after it.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	var err error
	if l.lock != nil && l.failed == nil && l.saved != l.tip.tree.size {
		err = l.save(nil)
	}
	l.failed = transfer.Errorf(transfer.KindInternal, "the audit log in %s is closed", l.dir)
	return errors.Join(err, l.closeFiles())
}

// save writes the state file. The caller holds l.writing.
func (l *Log) save(lost *loss) error {
	st := &state{Size: l.tip.tree.size, Root: l.tip.tree.root(), End: l.tip.end, Streams: l.streams.save(), Lost: lost}
	if err := writeState(l.disk, l.dir, l.id, st); err != nil {
		return err
	}
	l.saved = st.Size
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
