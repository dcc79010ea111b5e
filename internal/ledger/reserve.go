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
	writing sync.RWMutex // read-held while something is written, held while the reserve is
}

// reserveName is the reserve in the ledger's directory. Once it is there it stays,
// if only as an empty file: it shows that there has been a ledger.
const reserveName = "reserve"

func (r *reserve) path() string { return filepath.Join(r.dir, reserveName) }

// Shortage returns the shortage of the ledger's disk in words: "is full" or "has no inodes left".
func (l *Ledger) Shortage() string { return space.Shortage(l.dir) }

// Low reports whether the ledger's disk has been full: nothing new is to be
// accepted. It tries to take the reserve again first, unless something is being
// written: that must not find the disk full for the sake of the reserve.
func (l *Ledger) Low() bool {
	r := &l.reserve
	if r.low.Load() && r.writing.TryLock() {
		defer r.writing.Unlock()
		r.fill()
	}
	return r.low.Load()
}

// spared makes a call that writes. Where the disk is full it is made once more
// on the space of the reserve.
func (r *reserve) spared(call func() error) error {
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
