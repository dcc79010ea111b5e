package faulty

import (
	"errors"
	"sync"
	"syscall"

	"ferry/internal/ledger"
)

// A StoreFault selects the calls that fail, and their error.
type StoreFault struct {
	At    int64         // number of the first failing call, from 1; 0: none
	Count int64         // number of consecutive failing calls; 0 means one, negative all further ones
	Every int64         // after these, every Every-th call fails; 0: none
	Late  bool          // the call has its effect and fails then
	Errno syscall.Errno // the error
	Hook  func()        // runs before each call; nil: nothing

	mu    sync.Mutex
	calls int64
	trips int64
}

// hit counts a call and reports whether it is to fail.
func (t *StoreFault) hit() bool {
	if t.Hook != nil {
		t.Hook()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	since := t.calls - t.At
	if t.At == 0 || since < 0 || t.Count >= 0 && since >= max(t.Count, 1) && (t.Every == 0 || since%t.Every != 0) {
		return false
	}
	t.trips++
	return true
}

// Calls returns the number of calls.
func (t *StoreFault) Calls() int64 { t.mu.Lock(); defer t.mu.Unlock(); return t.calls }

// Trips returns the number of failed calls.
func (t *StoreFault) Trips() int64 { t.mu.Lock(); defer t.mu.Unlock(); return t.trips }

// Heal ends the faults.
func (t *StoreFault) Heal() { t.mu.Lock(); defer t.mu.Unlock(); t.At = 0 }

// A FaultyStore is a store with transactions that fail by a StoreFault: without effect, or with their whole effect.
type FaultyStore struct {
	ledger.Store
	Fault *StoreFault
}

// Update fails after fn has run, as on a disk.
func (s FaultyStore) Update(fn func(ledger.StoreTx) error) error {
	trip := s.Fault.hit()
	err := s.Store.Update(func(tx ledger.StoreTx) error {
		if err := fn(tx); err != nil || !trip || s.Fault.Late {
			return err
		}
		return s.Fault.Errno
	})
	if err == nil && trip {
		return s.Fault.Errno
	}
	return err
}

// FaultyFiles are files with calls that fail by a StoreFault: those that change, open or read a file. A write that
// fails late has written half of its data.
type FaultyFiles struct {
	ledger.Files
	Fault *StoreFault
}

// do runs one call that only returns an error.
func (t *StoreFault) do(call func() error) error {
	if !t.hit() {
		return call()
	}
	if t.Late {
		if err := call(); err != nil {
			return err
		}
	}
	return t.Errno
}

func (f FaultyFiles) open(call func() (ledger.File, error)) (file ledger.File, err error) {
	err = f.Fault.do(func() (err error) {
		file, err = call()
		return err
	})
	if err != nil {
		if file != nil {
			file.Close()
		}
		return nil, err
	}
	return faultyFile{file, f.Fault}, nil
}

// Create creates a file, or fails by the fault.
func (f FaultyFiles) Create(name string) (ledger.File, error) {
	return f.open(func() (ledger.File, error) { return f.Files.Create(name) })
}

// Open opens a file, or fails by the fault.
func (f FaultyFiles) Open(name string) (ledger.File, error) {
	return f.open(func() (ledger.File, error) { return f.Files.Open(name) })
}

// Remove removes a file, or fails by the fault.
func (f FaultyFiles) Remove(name string) error {
	return f.Fault.do(func() error { return f.Files.Remove(name) })
}

// List lists the files, or fails by the fault.
func (f FaultyFiles) List() (names []string, err error) {
	err = f.Fault.do(func() (err error) {
		names, err = f.Files.List()
		return err
	})
	if err != nil {
		names = nil
	}
	return names, err
}

// Sync syncs the names, or fails by the fault.
func (f FaultyFiles) Sync() error { return f.Fault.do(f.Files.Sync) }

type faultyFile struct {
	ledger.File
	fault *StoreFault
}

func (f faultyFile) ReadAt(b []byte, off int64) (n int, err error) {
	if f.fault.hit() {
		return 0, f.fault.Errno
	}
	return f.File.ReadAt(b, off)
}

func (f faultyFile) WriteAt(b []byte, off int64) (n int, err error) {
	if !f.fault.hit() {
		return f.File.WriteAt(b, off)
	}
	if f.fault.Late {
		n, err = f.File.WriteAt(b[:len(b)/2], off)
	}
	return n, errors.Join(f.fault.Errno, err)
}

func (f faultyFile) Truncate(size int64) error {
	return f.fault.do(func() error { return f.File.Truncate(size) })
}

// Sync, if it fails, leaves the unsynced data behind: the data counts as clean. If it fails late, the data is durable
// all the same.
func (f faultyFile) Sync() error {
	if !f.fault.hit() {
		return f.File.Sync()
	}
	if f.fault.Late {
		return errors.Join(f.fault.Errno, f.File.Sync())
	}
	if m, ok := f.File.(interface{ FailSync(uint64) }); ok {
		m.FailSync(uint64(f.fault.Calls()) * 0x9e3779b97f4a7c15)
	}
	return f.fault.Errno
}

func (f faultyFile) Close() error { return f.fault.do(f.File.Close) }
