package ledger

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"ferry/internal/sys/clock"
	"ferry/internal/sys/dirsync"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// formatVersion is the version of the store's format. The ledger reads no other version.
const formatVersion = 4

var (
	bMeta     = []byte("meta")
	bSource   = []byte("source")
	bIncoming = []byte("incoming")
	bItems    = []byte("items")
	bGroups   = []byte("groups") // of items
	bDirs     = []byte("dirs")
	bDeletes  = []byte("deletes")
	bCommands = []byte("commands")
	bTombs    = []byte("tombs")
	bOutbox   = []byte("outbox")
	bParts    = []byte("parts")    // of requests that are not accepted
	bAsked    = []byte("asked")    // the parts of those that are
	bResolved = []byte("resolved") // the destinations of their items
	bTargets  = []byte("targets")  // of incoming transfers
	bMarks    = []byte("marks")    // of the files of incoming transfers
	bDrawers  = []byte("drawers")  // of the agent's duties
	bFloors   = []byte("floors")   // of principals

	buckets = [][]byte{bMeta, bSource, bIncoming, bItems, bGroups, bDirs, bDeletes, bCommands, bTombs, bOutbox, bParts, bAsked, bResolved, bTargets, bMarks, bDrawers, bFloors}
)

// Options of Open.
type Options struct {
	Lock  time.Duration // how long to wait until another process releases the ledger; default 5 s
	Clock clock.Clock
	Log   *slog.Logger
	// Reserve is the number of bytes of disk to put aside; default 4 MiB, negative: none.
	Reserve int64
	// OutboxLimit is the most audit records that may wait for coordination; default 100,000.
	OutboxLimit int64
	// Store and Files replace ledger.db and items/ if they are given. With both of them there is no reserve unless
	// Reserve asks for one, and the ledger writes no file into the directory. The ledger closes the store.
	Store Store
	Files Files
	// Claim is the claim of a ledger that several instances share. Open and Close take it over: it is closed with the
	// ledger, and also if Open fails. Without one, Open takes its own in a directory that instances have ever shared.
	Claim *Claim
}

// A Ledger is open in one process at a time.
type Ledger struct {
	dir   string
	store Store
	files Files
	opt   Options
	ops   chan *op
	quit  chan struct{}
	ended chan struct{}
	close sync.Once

	incarnation uint64
	generation  uint64
	unclean     bool
	outbox      atomic.Int64
	reserve     reserve
	used        [rooms]use // the writer's, like doubt
	doubt       bool       // whether the last transaction is durable
	tenure
}

// Open opens the ledger in dir, and makes both if they are missing. It fails with KindAlive if another process has the
// ledger and does not release it in time.
func Open(dir string, opt Options) (*Ledger, error) {
	if opt.Lock == 0 {
		opt.Lock = 5 * time.Second
	}

	if opt.Clock == nil {
		opt.Clock = clock.System
	}

	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}

	if opt.OutboxLimit == 0 {
		opt.OutboxLimit = 100_000
	}

	if opt.Claim == nil && opt.Store == nil && opt.Files == nil {
		var err error
		if opt.Claim, err = claimShared(dir, opt.Lock); err != nil {
			return nil, err
		}
	}

	l := &Ledger{dir: dir, store: opt.Store, files: opt.Files, opt: opt, ops: make(chan *op, 256), quit: make(chan struct{}), ended: make(chan struct{}),
		tenure: tenure{claim: opt.Claim, gone: make(chan struct{})}}
	if err := l.open(); err != nil {
		if opt.Claim != nil {
			opt.Claim.Close()
		}
		return nil, err
	}

	go l.write()
	return l, nil
}

// open opens the store and begins the run in it.
func (l *Ledger) open() error {
	if l.claim != nil {
		if err := l.claim.enter(); err != nil {
			return err
		}
	}
	if err := l.openDir(); err != nil {
		return err
	}
	if err := errors.Join(l.reserve.spared(l.begin), l.syncDir()); err != nil {
		l.store.Close()
		return err
	}

	failpoint.Hit("ledger.opened")
	l.reserve.fill()
	if err := cmp.Or(l.watchPlaces(), l.Fence()); err != nil {
		l.store.Close()
		return err
	}
	return nil
}

// openDir opens the store and files that were not given, in the ledger's directory, and makes the directory.
func (l *Ledger) openDir() (err error) {
	if l.onDisk() {
		if err := os.MkdirAll(filepath.Join(l.dir, "items"), 0o700); err != nil {
			return transfer.Errorf(transfer.KindUnwritable, "the ledger's directory cannot be made: %w", err)
		}
	} else if l.opt.Reserve == 0 {
		l.opt.Reserve = -1
	}

	l.reserve.dir, l.reserve.size, l.reserve.log = l.dir, cmp.Or(l.opt.Reserve, 4<<20), l.opt.Log
	if l.files == nil {
		l.files = dirFiles(filepath.Join(l.dir, "items"))
	}

	if l.store == nil {
		l.store, err = openBolt(l.dir, l.opt.Lock)
	}
	return err
}

// onDisk reports whether the ledger keeps its store or its files in its directory.
func (l *Ledger) onDisk() bool { return l.opt.Store == nil || l.opt.Files == nil }

// syncDir makes the names in the ledger's directories durable.
func (l *Ledger) syncDir() error {
	if l.onDisk() {
		if err := dirsync.Sync(l.dir); err != nil {
			return err
		}
	}
	return l.files.Sync()
}

// begin makes missing buckets, counts the generation up and records that the ledger is open. The run before may have
// ended in the middle of a sync, so that its last transaction is in doubt, too.
func (l *Ledger) begin() error {
	l.doubt = true
	if err := l.settle(); err != nil {
		return err
	}

	return l.store.Update(func(tx StoreTx) error {
		for _, b := range buckets {
			if err := tx.Make(b); err != nil {
				return err
			}
		}
		m := tx.Bucket(bMeta)
		if v := getU64(m, "version"); v == 0 {
			var inc [8]byte
			rand.Read(inc[:])
			if err := errors.Join(putU64(m, "version", formatVersion),
				putU64(m, "incarnation", binary.BigEndian.Uint64(inc[:])|1), putU64(m, "clean", 1)); err != nil {
				return err
			}
		} else if v != formatVersion {
			return transfer.Errorf(transfer.KindVersion, "the ledger has format %d; this version of Ferry reads %d", v, formatVersion).
				WithHint("run the version of Ferry that has written it; or " + damagedHint)
		}
		l.incarnation = getU64(m, "incarnation")
		l.generation = getU64(m, "generation") + 1
		l.unclean = getU64(m, "clean") == 0
		l.outbox.Store(int64(tx.Bucket(bOutbox).Count()))
		if err := countRooms(l, tx); err != nil {
			return err
		}
		return errors.Join(putU64(m, "generation", l.generation), putU64(m, "clean", 0))
	})
}

// Incarnation returns the random number that names this ledger.
func (l *Ledger) Incarnation() uint64 { return l.incarnation }

// IncarnationText returns Incarnation as it is written in messages and records.
func (l *Ledger) IncarnationText() string { return fmt.Sprintf("%016x", l.incarnation) }

// Generation returns how often the ledger has been opened. It is part of the name of every temporary, so that no run
// writes into another's.
func (l *Ledger) Generation() uint64 { return l.generation }

// Unclean reports whether the run before this one ended without Close.
func (l *Ledger) Unclean() bool { return l.unclean }

// Dir returns the ledger's directory.
func (l *Ledger) Dir() string { return l.dir }

// Close ends the run. It waits for running transactions; later ones fail.
func (l *Ledger) Close() error {
	var err error
	l.close.Do(func() {
		err = l.Update(func(tx *Tx) error { return putU64(tx.tx.Bucket(bMeta), "clean", 1) })
		close(l.quit)
		<-l.ended
		err = errors.Join(err, l.store.Close())
		if l.claim != nil {
			err = errors.Join(err, l.claim.leave(err))
		}
	})
	return err
}

// A Tx is one synced transaction. Its reads see its own writes.
type Tx struct {
	tx   StoreTx
	l    *Ledger
	made change
}

type op struct {
	fn   func(*Tx) error
	done chan error
}

var errClosed = transfer.Errorf(transfer.KindInternal, "the ledger is closed")

// Update runs fn in a transaction that is on disk when Update returns. Concurrent callers share transactions, and with
// them syncs. Therefore fn may be run again, and must change only the transaction until Update returns. fn must not
// wait for a lock that a caller holds during an Update: the transactions of all callers run one after the other, and
// would wait for each other.
func (l *Ledger) Update(fn func(*Tx) error) error {
	o := &op{fn, make(chan error, 1)}
	select {
	case l.ops <- o:
	case <-l.quit:
		return errClosed
	}

	select {
	case err := <-o.done:
		return err
	case <-l.ended:
		select {
		case err := <-o.done:
			return err
		default:
			return errClosed
		}
	}
}

// View runs fn in a read-only transaction. If the ledger was taken over, View returns the error of the loss, also after
// fn has run. A transaction that ended after the takeover is in the file of this process alone, and its writer has yet
// to notice the loss.
func (l *Ledger) View(fn func(*Tx) error) error {
	if err := l.Lost(); err != nil {
		return err
	}
	err := l.store.View(func(tx StoreTx) error { return fn(&Tx{tx: tx, l: l}) })
	return cmp.Or(l.Fence(), err)
}

// write is the only goroutine that writes. It takes all waiting updates into one transaction.
func (l *Ledger) write() {
	defer close(l.ended)
	var look clock.Timer
	var due <-chan time.Time
	if len(l.places) > 0 {
		look = l.opt.Clock.NewTimer(lookEvery)
		due = look.C()
		defer look.Stop()
	}

	for {
		select {
		case o := <-l.ops:
			l.commit(l.waiting(o))
		case <-due:
			if l.look() == nil {
				look.Reset(lookEvery)
			}
		case <-l.quit:
			return
		}
	}
}

func (l *Ledger) waiting(first *op) []*op {
	group := []*op{first}
	for len(group) < 256 {
		select {
		case o := <-l.ops:
			group = append(group, o)
		default:
			return group
		}
	}
	return group
}

// commit runs a group; a failing member does not make the others fail.
func (l *Ledger) commit(group []*op) {
	var culprit *op
	var failure error
	err := l.transact(func(tx *Tx) error {
		culprit, failure = nil, nil
		for _, o := range group {
			if failure = o.fn(tx); failure != nil {
				culprit = o
				return failure
			}
		}
		return nil
	})
	if culprit == nil {
		for _, o := range group {
			o.done <- err
		}
		return
	}

	culprit.done <- failure
	rest := make([]*op, 0, len(group))
	for _, o := range group {
		if o != culprit {
			rest = append(rest, o)
		}
	}

	if len(rest) > 0 {
		l.commit(rest)
	}
}

// transact commits one transaction. If the disk is full, it gives up the reserve and tries once more, and no new work
// is accepted until there is space again.
//
// Data in a file that has lost its path is not a record. So transact checks the path after the transaction, before it
// reports success. For a shared ledger it also checks the claim.
func (l *Ledger) transact(fn func(*Tx) error) error {
	if err := l.Lost(); err != nil {
		return err
	}
	if err := l.Fence(); err != nil {
		return err
	}
	failpoint.Hit("ledger.before_transaction")
	err := l.transactOnDisk(fn)
	if gone := cmp.Or(l.look(), l.Fence()); gone != nil {
		return gone
	}
	return err
}

func (l *Ledger) transactOnDisk(fn func(*Tx) error) error {
	l.reserve.writing.RLock()
	defer l.reserve.writing.RUnlock()
	if err := l.settle(); err != nil {
		return err
	}

	err, refused := l.attempt(fn)
	if !l.doubt && !refused && transfer.KindOf(err) == transfer.KindNoSpace {
		l.reserve.drop()
		err, _ = l.attempt(fn)
	}

	if l.doubt {
		l.opt.Log.Error("the ledger could not be synced; nothing is written until it can be", "dir", l.dir, "error", err)
		if again := l.settle(); again != nil {
			return errors.Join(err, again)
		}
		return nil
	}
	return err
}

// A change is the difference that a transaction makes to the counted values.
type change struct {
	outbox int64
	used   [rooms]use
}

// attempt runs fn in a transaction. A transaction may fail and take effect all the same: the sync after it failed, so
// that this process sees it and a crash may undo it. Then it is in doubt. refused reports that fn returned a
// transfer.Error, and the disk did not fail.
func (l *Ledger) attempt(fn func(*Tx) error) (err error, refused bool) {
	var made change
	id, content := 0, false
	err = l.store.Update(func(tx StoreTx) error {
		t := &Tx{tx: tx, l: l}
		if err := fn(t); err != nil {
			refused = errors.As(err, new(*transfer.Error))
			return err
		}
		id, made, content = tx.ID(), t.made, true
		return nil
	})
	l.doubt = err != nil && content && l.lastID() >= id
	if err == nil || l.doubt {
		l.outbox.Add(made.outbox)
		for r := range l.used {
			l.used[r].join(&made.used[r])
		}
	}
	return err, refused
}

// settle makes a transaction durable that is in doubt. It runs an empty transaction, which writes only the root again
// and does no harm. A transaction with content would overwrite pages of the state before, and a crash may still go back
// to that state.
func (l *Ledger) settle() error {
	if !l.doubt {
		return nil
	}

	err := l.store.Update(nothing)
	if transfer.KindOf(err) == transfer.KindNoSpace {
		l.reserve.drop()
		err = l.store.Update(nothing)
	}
	if err != nil {
		return fmt.Errorf("the ledger cannot be synced: %w", err)
	}

	l.doubt = false
	return nil
}

func nothing(StoreTx) error { return nil }

// lastID returns the number of the last transaction that took effect.
func (l *Ledger) lastID() (id int) {
	if err := l.store.View(func(tx StoreTx) error { id = tx.ID(); return nil }); err != nil {
		return 0
	}
	return id
}

func getU64(b Bucket, key string) uint64 {
	v := b.Get([]byte(key))
	if len(v) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

func putU64(b Bucket, key string, v uint64) error {
	return b.Put([]byte(key), binary.BigEndian.AppendUint64(nil, v))
}

func itemKey(id transfer.ID, item uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(nil), id[:]...), item)
}

// getJSON reads a value; found is false if there is none. A value that cannot be read is an error that names it, never
// skipped.
func getJSON(b Bucket, name string, key []byte, v any) (found bool, err error) {
	data := b.Get(key)
	if data == nil {
		return false, nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, transfer.Errorf(transfer.KindInternal, "ledger: %s record %x is damaged: %w", name, key, err)
	}
	return true, nil
}

func putJSON(b Bucket, key []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, data)
}

// each calls fn for every key that begins with prefix, in order.
func each(b Bucket, prefix []byte, fn func(k, v []byte) error) error {
	c := b.Cursor()
	for k, v := c.Seek(prefix); k != nil && hasPrefix(k, prefix); k, v = c.Next() {
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

func hasPrefix(k, p []byte) bool { return len(k) >= len(p) && string(k[:len(p)]) == string(p) }

// dropAll deletes every key that begins with prefix.
func dropAll(b Bucket, prefix []byte) error {
	c := b.Cursor()
	for k, _ := c.Seek(prefix); k != nil && hasPrefix(k, prefix); k, _ = c.Seek(prefix) {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
