package ledger

import (
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

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"ferry/internal/clock"
	"ferry/internal/transfer"
)

const formatVersion = 1

var (
	bMeta     = []byte("meta")
	bSource   = []byte("source")
	bIncoming = []byte("incoming")
	bItems    = []byte("items")
	bDirs     = []byte("dirs")
	bDeletes  = []byte("deletes")
	bCommands = []byte("commands")
	bTombs    = []byte("tombs")
	bOutbox   = []byte("outbox")

	buckets = [][]byte{bMeta, bSource, bIncoming, bItems, bDirs, bDeletes, bCommands, bTombs, bOutbox}
)

// Options of Open.
type Options struct {
	Lock  time.Duration // how long to wait for another process to let go; default 5 s
	Clock clock.Clock
	Log   *slog.Logger
	// Reserve is how many bytes of disk are put aside; default 4 MiB, negative: none.
	Reserve int64
	// OutboxLimit is how many audit records may wait for coordination; default 100,000.
	OutboxLimit int64
}

// A Ledger is open in one process at a time.
type Ledger struct {
	dir   string
	db    *bolt.DB
	opt   Options
	ops   chan *op
	quit  chan struct{}
	ended chan struct{}
	close sync.Once

	incarnation uint64
	generation  uint64
	unclean     bool
	outbox      atomic.Int64
	low         atomic.Bool
}

// Open opens the ledger in dir, creating both. It fails with KindAlive when
// another process has it and does not let go in time.
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
	if opt.Reserve == 0 {
		opt.Reserve = 4 << 20
	}
	if opt.OutboxLimit == 0 {
		opt.OutboxLimit = 100_000
	}
	if err := os.MkdirAll(filepath.Join(dir, "items"), 0o700); err != nil {
		return nil, transfer.Errorf(transfer.KindUnwritable, "the ledger's directory cannot be made: %w", err)
	}
	file := filepath.Join(dir, "ledger.db")
	db, err := bolt.Open(file, 0o600, &bolt.Options{Timeout: opt.Lock, FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, transfer.Errorf(transfer.KindAlive, "the ledger %s is in use by another process", file).
			WithHint("stop the other agent, or give this one a state directory of its own")
	case err != nil:
		return nil, transfer.Errorf(transfer.KindInternal, "the ledger %s cannot be opened: %w", file, err).
			WithHint("restore it from a copy, or move it away to begin with an empty one: outcomes of running transfers are then unknown")
	}
	l := &Ledger{dir: dir, db: db, opt: opt, ops: make(chan *op, 256), quit: make(chan struct{}), ended: make(chan struct{})}
	if err := l.begin(); err != nil {
		db.Close()
		return nil, err
	}
	if err := syncDirs(dir, filepath.Join(dir, "items")); err != nil {
		db.Close()
		return nil, err
	}
	l.fillReserve()
	go l.write()
	return l, nil
}

// begin makes what is missing, counts the generation up and notes that the
// ledger is open.
func (l *Ledger) begin() error {
	return l.db.Update(func(tx *bolt.Tx) error {
		for _, b := range buckets {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
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
			return transfer.Errorf(transfer.KindVersion, "the ledger has format %d; this version of Ferry reads %d", v, formatVersion)
		}
		l.incarnation = getU64(m, "incarnation")
		l.generation = getU64(m, "generation") + 1
		l.unclean = getU64(m, "clean") == 0
		l.outbox.Store(int64(tx.Bucket(bOutbox).Stats().KeyN))
		return errors.Join(putU64(m, "generation", l.generation), putU64(m, "clean", 0))
	})
}

// Incarnation is the random number that names this ledger.
func (l *Ledger) Incarnation() uint64 { return l.incarnation }

// IncarnationText is Incarnation as it is written in messages and records.
func (l *Ledger) IncarnationText() string { return fmt.Sprintf("%016x", l.incarnation) }

// Generation counts how often the ledger has been opened; it is part of the
// name of every temporary, so that no run writes into another's.
func (l *Ledger) Generation() uint64 { return l.generation }

// Unclean reports whether the run before this one ended without Close.
func (l *Ledger) Unclean() bool { return l.unclean }

// Dir is the ledger's directory.
func (l *Ledger) Dir() string { return l.dir }

// Close ends the run. It waits for transactions under way; later ones fail.
func (l *Ledger) Close() error {
	var err error
	l.close.Do(func() {
		err = l.Update(func(tx *Tx) error { return putU64(tx.tx.Bucket(bMeta), "clean", 1) })
		close(l.quit)
		<-l.ended
		err = errors.Join(err, l.db.Close())
	})
	return err
}

// A Tx is one synced transaction. What it is asked to read sees what it wrote.
type Tx struct {
	tx *bolt.Tx
	l  *Ledger
}

type op struct {
	fn   func(*Tx) error
	done chan error
}

var errClosed = transfer.Errorf(transfer.KindInternal, "the ledger is closed")

// Update runs fn in a transaction that is on disk when Update returns. Many
// callers at once share transactions, and with them syncs; therefore fn may be
// run again and must change nothing but the transaction until Update returns.
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

// View runs fn in a read-only transaction.
func (l *Ledger) View(fn func(*Tx) error) error {
	return l.db.View(func(tx *bolt.Tx) error { return fn(&Tx{tx, l}) })
}

// write is the only goroutine that writes. It takes whatever is waiting into
// one transaction.
func (l *Ledger) write() {
	defer close(l.ended)
	for {
		select {
		case o := <-l.ops:
			l.commit(l.waiting(o))
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

// commit runs a group; one that fails does not take the others down with it.
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

// transact commits one transaction; where the disk is full it gives up the
// reserve and tries once more, and nothing new is accepted until there is
// space again.
func (l *Ledger) transact(fn func(*Tx) error) error {
	var added int64
	refused := false // by fn, in words of ours, not by the disk
	run := func() error {
		return l.db.Update(func(tx *bolt.Tx) error {
			before := tx.Bucket(bOutbox).Sequence()
			if err := fn(&Tx{tx, l}); err != nil {
				refused = errors.As(err, new(*transfer.Error))
				return err
			}
			added = int64(tx.Bucket(bOutbox).Sequence() - before)
			return nil
		})
	}
	err := run()
	if err != nil && !refused && transfer.KindOf(err) == transfer.KindNoSpace {
		l.dropReserve()
		err = run()
	}
	if err == nil && added > 0 {
		l.outbox.Add(added)
	}
	return err
}

func getU64(b *bolt.Bucket, key string) uint64 {
	v := b.Get([]byte(key))
	if len(v) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

func putU64(b *bolt.Bucket, key string, v uint64) error {
	return b.Put([]byte(key), binary.BigEndian.AppendUint64(nil, v))
}

func itemKey(id transfer.ID, item uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(nil), id[:]...), item)
}

// getJSON reads a record; found is false where there is none. A record that
// cannot be read is an error that names it, never skipped.
func getJSON(b *bolt.Bucket, name string, key []byte, v any) (found bool, err error) {
	data := b.Get(key)
	if data == nil {
		return false, nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, transfer.Errorf(transfer.KindInternal, "ledger: %s record %x is damaged: %w", name, key, err)
	}
	return true, nil
}

func putJSON(b *bolt.Bucket, key []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, data)
}

// each calls fn for every key that begins with prefix, in order.
func each(b *bolt.Bucket, prefix []byte, fn func(k, v []byte) error) error {
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
func dropAll(b *bolt.Bucket, prefix []byte) error {
	c := b.Cursor()
	for k, _ := c.Seek(prefix); k != nil && hasPrefix(k, prefix); k, _ = c.Seek(prefix) {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
