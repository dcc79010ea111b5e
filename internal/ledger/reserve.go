package ledger

import (
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"ferry/internal/sys/space"
	"ferry/internal/transfer"
)

// A reserve is disk space put aside for the transactions of in-flight transfers.
type reserve struct {
	dir  string
	size int64 // negative: none
	log  *slog.Logger

	low     atomic.Bool
	writing sync.RWMutex // read-held during a write, held while the reserve is written
}

// reserveName is the reserve in the ledger's directory. It stays there, if only as an empty file: it shows that there
// has been a ledger.
const reserveName = "reserve"

func (r *reserve) path() string { return filepath.Join(r.dir, reserveName) }

// Shortage returns the shortage of the ledger's disk in words: "is full" or "has no inodes left".
func (l *Ledger) Shortage() string { return space.Shortage(l.dir) }

// Low reports whether the ledger's disk has been full: then no new work is to be accepted. It first tries to write the
// reserve again, unless a write is running: the reserve must not fill the disk for that write.
func (l *Ledger) Low() bool {
	r := &l.reserve
	if r.low.Load() && r.writing.TryLock() {
		defer r.writing.Unlock()
		r.fill()
	}
	return r.low.Load()
}

// writeWithReserve makes a call that writes. If the disk is full, it makes the call once more on the space of the
// reserve.
func (r *reserve) writeWithReserve(call func() error) error {
	r.writing.RLock()
	defer r.writing.RUnlock()
	err := call()
	if transfer.KindOf(err) == transfer.KindNoSpace {
		r.drop()
		err = call()
	}
	return err
}

// fill writes a missing reserve; until that succeeds the ledger is low.
func (r *reserve) fill() {
	// Without a reserve only a transaction shows whether there is space.
	r.low.Store(r.size >= 0 && space.Reserve(r.path(), r.size) != nil)
}

// drop frees the reserve's space for the data that is being written.
func (r *reserve) drop() {
	if space.GiveUp(r.path()) {
		r.log.Warn("the ledger's reserve is given up and nothing new is accepted", "dir", r.dir, "error", "the disk of the ledger "+space.Shortage(r.dir))
	}
	r.low.Store(true)
}
