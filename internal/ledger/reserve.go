package ledger

import (
	"os"
	"path/filepath"
	"runtime"

	"ferry/internal/transfer"
)

// Low reports whether the ledger's disk has been full: nothing new is to be
// accepted. It tries to take the reserve again first, unless something is being
// written: that must not find the disk full for the sake of the reserve.
func (l *Ledger) Low() bool {
	if l.low.Load() && l.space.TryLock() {
		defer l.space.Unlock()
		l.fillReserve()
	}
	return l.low.Load()
}

// spared makes a call that writes. Where the disk is full it is made once more
// on the space of the reserve.
func (l *Ledger) spared(call func() error) error {
	l.space.RLock()
	defer l.space.RUnlock()
	err := call()
	if transfer.KindOf(err) == transfer.KindNoSpace {
		l.dropReserve()
		err = call()
	}
	return err
}

// reserveName is the reserve in the ledger's directory. Once it is there it stays,
// if only as an empty file: it shows that there has been a ledger.
const reserveName = "reserve"

func (l *Ledger) reservePath() string { return filepath.Join(l.dir, reserveName) }

// fillReserve writes the reserve where it is missing; until that succeeds the
// ledger is low.
func (l *Ledger) fillReserve() {
	if l.opt.Reserve < 0 { // only a transaction can tell whether there is space
		l.low.Store(false)
		return
	}
	if fi, err := os.Stat(l.reservePath()); err == nil && fi.Size() == l.opt.Reserve {
		l.low.Store(false)
		return
	}
	if err := writeReserve(l.reservePath(), l.opt.Reserve); err != nil {
		os.Truncate(l.reservePath(), 0)
		l.low.Store(true)
		return
	}
	l.low.Store(false)
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

func (l *Ledger) dropReserve() {
	fi, err := os.Stat(l.reservePath())
	if err == nil && fi.Size() > 0 && os.Truncate(l.reservePath(), 0) == nil {
		l.opt.Log.Warn("the ledger's disk is full; its reserve is given up and nothing new is accepted", "dir", l.dir)
	}
	l.low.Store(true)
}

// syncDirs makes the names in directories durable, where the platform can.
func syncDirs(dirs ...string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	for _, dir := range dirs {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		err = d.Sync()
		d.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
