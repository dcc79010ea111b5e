package ledger

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"ferry/internal/transfer"
)

// A reserve is disk space put aside for the transactions of transfers that are under way.
type reserve struct {
	dir  string
	size int64 // negative: none
	log  *slog.Logger

	low   atomic.Bool
	space sync.RWMutex // read-held while something is written, held while the reserve is
}

// reserveName is the reserve in the ledger's directory. Once it is there it stays,
// if only as an empty file: it shows that there has been a ledger.
const reserveName = "reserve"

func (r *reserve) path() string { return filepath.Join(r.dir, reserveName) }

// Low reports whether the ledger's disk has been full: nothing new is to be
// accepted. It tries to take the reserve again first, unless something is being
// written: that must not find the disk full for the sake of the reserve.
func (l *Ledger) Low() bool {
	r := &l.reserve
	if r.low.Load() && r.space.TryLock() {
		defer r.space.Unlock()
		r.fill()
	}
	return r.low.Load()
}

// spared makes a call that writes. Where the disk is full it is made once more
// on the space of the reserve.
func (r *reserve) spared(call func() error) error {
	r.space.RLock()
	defer r.space.RUnlock()
	err := call()
	if transfer.KindOf(err) == transfer.KindNoSpace {
		r.drop()
		err = call()
	}
	return err
}

// fill writes the reserve where it is missing; until that succeeds the ledger is low.
func (r *reserve) fill() {
	if r.size < 0 { // only a transaction can tell whether there is space
		r.low.Store(false)
		return
	}

	if fi, err := os.Stat(r.path()); err == nil && fi.Size() == r.size {
		r.low.Store(false)
		return
	}
	if err := writeReserve(r.path(), r.size); err != nil {
		os.Truncate(r.path(), 0)
		r.low.Store(true)
		return
	}

	r.low.Store(false)
}

// drop gives the space up for what is being written.
func (r *reserve) drop() {
	fi, err := os.Stat(r.path())
	if err == nil && fi.Size() > 0 && os.Truncate(r.path(), 0) == nil {
		r.log.Warn("the ledger's disk is full; its reserve is given up and nothing new is accepted", "dir", r.dir)
	}
	r.low.Store(true)
}

// writeReserve writes real bytes: a hole would reserve nothing.
func writeReserve(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()

	block := make([]byte, 1<<20)
	for left := size; left > 0; {
		n, err := f.Write(block[:min(left, int64(len(block)))])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	return f.Close()
}
