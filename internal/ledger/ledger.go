package ledger

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ferry/internal/sys/clock"
	"ferry/internal/sys/dirsync"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// formatVersion is the version of the store's format. The ledger reads no other version.
const formatVersion = 4

var (
	bMeta          = []byte("meta")
	bSource        = []byte("source")
	bIncoming      = []byte("incoming")
	bItems         = []byte("items")
	bGroups        = []byte("groups") // of items
	bDirs          = []byte("dirs")
	bDeletes       = []byte("deletes")
	bCommands      = []byte("commands")
	bTombstones    = []byte("tombs")
	bOutbox        = []byte("outbox")
	bParts         = []byte("parts")    // of requests that are not accepted
	bAcceptedParts = []byte("asked")    // the parts of those that are
	bResolved      = []byte("resolved") // the destinations of their items
	bTargets       = []byte("targets")  // of incoming transfers
	bFileIDs       = []byte("marks")    // of the files of incoming transfers
	bNamespaces    = []byte("drawers")  // of the agent's duties
	bFloors        = []byte("floors")   // of principals
	bRetries       = []byte("retries")  // that run now

	buckets = [][]byte{bMeta, bSource, bIncoming, bItems, bGroups, bDirs, bDeletes, bCommands, bTombstones, bOutbox, bParts, bAcceptedParts, bResolved, bTargets, bFileIDs, bNamespaces, bFloors, bRetries}
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
	// DirLock is the lock of a ledger that several instances share. Open and Close take it over: it is closed with the
	// ledger, and also if Open fails. Without one, Open takes its own in a directory that instances have ever shared.
	DirLock *DirLock
}

// A Ledger is open in one process at a time.
type Ledger struct {
	dir   string
	store Store
	files Files
	opt   Options
	close sync.Once

	incarnation uint64
	generation  uint64
	unclean     bool
	reserve     reserve
	counted     counters
	writer      *writer
	ownership
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

	if opt.DirLock == nil && opt.Store == nil && opt.Files == nil {
		var err error
		if opt.DirLock, err = lockSharedDir(dir, opt.Lock); err != nil {
			return nil, err
		}
	}

	l := &Ledger{dir: dir, store: opt.Store, files: opt.Files, opt: opt,
		ownership: ownership{dir: dir, lock: opt.DirLock, gone: make(chan struct{})}}
	if err := l.open(); err != nil {
		if opt.DirLock != nil {
			opt.DirLock.Close()
		}
		return nil, err
	}

	go l.writer.write()
	return l, nil
}

// open opens the store and begins the run in it.
func (l *Ledger) open() error {
	if l.lock != nil {
		if err := l.lock.markDir(); err != nil {
			return err
		}
	}
	if err := l.openDir(); err != nil {
		return err
	}
	l.writer = newWriter(l)
	if err := errors.Join(l.reserve.writeWithReserve(l.begin), l.syncDir()); err != nil {
		l.store.Close()
		return err
	}

	failpoint.Hit("ledger.opened")
	l.reserve.fill()
	if err := cmp.Or(l.recordFiles(l.paths()), l.Fence()); err != nil {
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

// paths returns the paths of the store and the files that the ledger keeps in its directory.
func (l *Ledger) paths() (all []string) {
	if l.opt.Store == nil {
		all = append(all, filepath.Join(l.dir, storeName))
	}
	if l.opt.Files == nil {
		all = append(all, filepath.Join(l.dir, "items"))
	}
	return all
}

// begin makes missing buckets, counts the generation up and records that the ledger is open. The run before may have
// ended in the middle of a sync, so that its last transaction is in doubt, too.
func (l *Ledger) begin() error {
	l.writer.doubt = true
	if err := l.writer.resolveDoubt(); err != nil {
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
		if getU64(m, "made") == 0 { // an earlier version has made it
			if err := putMade(m, l.opt.Clock.Now()); err != nil {
				return err
			}
		}
		l.incarnation = getU64(m, "incarnation")
		l.generation = getU64(m, "generation") + 1
		l.unclean = getU64(m, "clean") == 0
		if err := l.counted.count(tx); err != nil {
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
		l.writer.stop()
		err = errors.Join(err, l.store.Close())
		if l.lock != nil {
			err = errors.Join(err, l.lock.unmark(err))
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

func (l *Ledger) begun(tx StoreTx) *Tx { return &Tx{tx: tx, l: l} }

// Update runs fn in a transaction that is on disk when Update returns. Concurrent callers share transactions, and with
// them syncs. Therefore fn may be run again, and must change only the transaction until Update returns. fn must not
// wait for a lock that a caller holds during an Update: the transactions of all callers run one after the other, and
// would wait for each other.
func (l *Ledger) Update(fn func(*Tx) error) error { return l.writer.update(fn) }

// View runs fn in a read-only transaction. If the ledger was taken over, View returns the error of the loss, also after
// fn has run. A transaction that ended after the takeover is in the file of this process alone, and its writer has yet
// to notice the loss.
func (l *Ledger) View(fn func(*Tx) error) error {
	if err := l.Lost(); err != nil {
		return err
	}
	err := l.store.View(func(tx StoreTx) error { return fn(l.begun(tx)) })
	return cmp.Or(l.Fence(), err)
}
