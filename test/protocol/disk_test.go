package protocol_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"ferry/internal/ledger"
	"ferry/internal/place/local/disk"
)

var errDead = errors.New("the process is gone")

// A crashable is the common part of the disk and the ledger of a run. All effects of the process on them stop at one
// instant. Later calls wait until the ledger has been kept in that state, and fail.
type crashable struct {
	r     *run
	state atomic.Int32  // 0 lives, 1 dies, 2 is dead
	dying chan struct{} // closed when it dies
	gone  chan struct{} // closed when it is dead
	busy  sync.RWMutex  // read-held by a call in progress
	once  sync.Once
	left  string // state of the ledger at a crash; written before gone is closed
}

func newCrashable(r *run) *crashable {
	return &crashable{r: r, dying: make(chan struct{}), gone: make(chan struct{})}
}

func (m *crashable) crashed() bool { return m.state.Load() != 0 }

// do makes one call. The hooks may let the run die before it or after.
func (m *crashable) do(op, name string, call func() error) error {
	node := m.r.node
	if node == node.w.dst || op != "ledger" { // the sender waits for its ledger with a mutex held, and time would not go on
		node.wait(m)
	}
	n, h := node.countOp(), node.w.now()
	if h.crash != nil && !m.crashed() && h.crash(node, op, name, n, false) {
		m.die(false)
	}
	if m.crashed() {
		<-m.gone
		return errDead
	}
	if h.linger != nil {
		if d := h.linger(node, op, name); d > 0 {
			pass(d)
		}
	}
	if h.inject != nil {
		if err := h.inject(node, op, name); err != nil {
			toll.add("calls that failed", 1)
			return err
		}
	}
	err := m.call(call)
	if h.crash != nil && h.crash(node, op, name, n, true) {
		m.die(false)
		return errDead
	}
	return err
}

func (m *crashable) call(call func() error) error {
	m.busy.RLock()
	defer m.busy.RUnlock()
	return call()
}

// die is a crash: from here on the run has no effect. With writing, the caller is in the ledger's own transaction,
// which is lost.
func (m *crashable) die(writing bool) {
	if !m.state.CompareAndSwap(0, 1) {
		return
	}
	close(m.dying)
	toll.add("crashes", 1)
	node := m.r.node
	to := node.nextDir()
	switch take := func(*ledger.Tx) error {
		m.once.Do(func() { copyLedger(node.w.t, m.r.dir, to) })
		return nil
	}; {
	case node.memory != nil:
		node.leave(m.r.dir, to)
	case writing:
		take(nil)
	default:
		if err := m.r.ledger.Update(take); err != nil {
			node.w.t.Errorf("the ledger could not be copied: %v", err)
		}
	}
	m.left = to
	m.state.Store(2)
	close(m.gone)
	node.crashed <- m.r
}

// end is the orderly end of a run. Calls in progress have no effect any more, but the ledger may still be closed.
func (m *crashable) end() {
	if m.state.CompareAndSwap(0, 2) {
		close(m.dying)
		close(m.gone)
	}
	m.busy.Lock()
	defer m.busy.Unlock()
}

// A crashableDisk is the host's disk until its run dies.
type crashableDisk struct {
	disk.Disk
	*crashable
}

func (d crashableDisk) Open(dir *disk.Dir, name string, flag int, perm os.FileMode) (f disk.File, err error) {
	if flag&os.O_CREATE == 0 {
		if d.crashed() {
			<-d.gone
			return nil, errDead
		}
		if h := d.r.node.w.now(); h.reads != nil {
			if err := h.reads(d.r.node, "open", name); err != nil {
				return nil, err
			}
		}
		return d.Disk.Open(dir, name, flag, perm)
	}
	err = d.do("create", name, func() (err error) {
		f, err = d.Disk.Open(dir, name, flag, perm)
		return err
	})
	if err != nil && f != nil {
		d.Disk.Close(f)
		f = nil
	}
	return f, err
}

func (d crashableDisk) Mkdir(dir *disk.Dir, name string) error {
	return d.do("mkdir", name, func() error { return d.Disk.Mkdir(dir, name) })
}

func (d crashableDisk) RenameInto(dir *disk.Dir, from string, into *disk.Dir, to string, replace bool) error {
	return d.do("rename", to, func() error { return d.Disk.RenameInto(dir, from, into, to, replace) })
}

func (d crashableDisk) Rename(dir *disk.Dir, from, to string, replace bool) error {
	return d.do("rename", to, func() error {
		d.r.node.w.naming.Lock() // a power cut comes before a name is given, or after it is counted
		defer d.r.node.w.naming.Unlock()
		if d.crashed() { // the cut came first: this disk is no longer the host's
			return errDead
		}
		if strings.HasPrefix(to, ".ferry-") {
			d.r.node.w.leaves(d.r.node, dir.Path()+"/"+from)
		}
		err := d.Disk.Rename(dir, from, to, replace)
		if err == nil && strings.HasSuffix(from, ".part") {
			d.r.node.w.renamed(dir.Path() + "/" + to)
		}
		return err
	})
}

func (d crashableDisk) Link(dir *disk.Dir, from, to string) error {
	return d.do("link", to, func() error { return d.Disk.Link(dir, from, to) })
}

func (d crashableDisk) Unlink(dir *disk.Dir, name string) error {
	return d.do("unlink", name, func() error { return d.Disk.Unlink(dir, name) })
}

func (d crashableDisk) SyncDir(dir *disk.Dir) error {
	return d.do("syncdir", dir.Path(), func() error { return d.Disk.SyncDir(dir) })
}

func (d crashableDisk) ReadAt(f disk.File, b []byte, off int64) (int, error) {
	if h := d.r.node.w.now(); h.reads != nil {
		if err := h.reads(d.r.node, "read", f.Name()); err != nil {
			return 0, err
		}
	}
	return d.Disk.ReadAt(f, b, off)
}

func (d crashableDisk) Write(f disk.File, b []byte, off int64) (n int, err error) {
	err = d.do("write", f.Name(), func() (err error) {
		n, err = d.Disk.Write(f, b, off)
		return err
	})
	if h := d.r.node.w.now(); h.wrote != nil {
		h.wrote(d.r.node, f.Name(), n)
	}
	return n, err
}

func (d crashableDisk) Truncate(f disk.File, size int64) error {
	return d.do("truncate", f.Name(), func() error { return d.Disk.Truncate(f, size) })
}

func (d crashableDisk) Allocate(f disk.File, size int64) error {
	return d.do("allocate", f.Name(), func() error { return d.Disk.Allocate(f, size) })
}

func (d crashableDisk) SetMeta(dir *disk.Dir, name string, f disk.File, mode uint32, mtime int64) error {
	return d.do("setmeta", name, func() error { return d.Disk.SetMeta(dir, name, f, mode, mtime) })
}

func (d crashableDisk) SyncData(f disk.File) error {
	return d.do("syncdata", f.Name(), func() error { return d.Disk.SyncData(f) })
}

func (d crashableDisk) Sync(f disk.File) error {
	return d.do("sync", f.Name(), func() error { return d.Disk.Sync(f) })
}

func (d crashableDisk) SyncFS(w disk.Watch) error {
	return d.do("syncfs", w.Name(), func() error { return d.Disk.SyncFS(w) })
}

// A crashableStore is a ledger in memory until its run dies. If a run dies before a transaction or in it, the transaction
// is lost. If it dies after it, the run gets no result.
type crashableStore struct {
	ledger.Store
	m *crashable
}

func (s crashableStore) Update(fn func(ledger.StoreTx) error) error {
	if s.m.state.Load() == 2 { // an orderly end, or a ledger that no run will read
		return s.Store.Update(fn)
	}
	return s.m.do("ledger", "", func() error { return s.Store.Update(fn) })
}

// crashableFiles are item journals in memory until their run dies.
type crashableFiles struct {
	ledger.Files
	m *crashable
}

func (f crashableFiles) Create(name string) (file ledger.File, err error) {
	err = f.m.do("journal", name, func() (err error) {
		file, err = f.Files.Create(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return crashableFile{file, f.m}, nil
}

func (f crashableFiles) Remove(name string) error {
	return f.m.do("journal", name, func() error { return f.Files.Remove(name) })
}

func (f crashableFiles) Sync() error { return f.m.do("journal", "", f.Files.Sync) }

type crashableFile struct {
	ledger.File
	m *crashable
}

func (f crashableFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.m.do("journal", "", func() (err error) {
		n, err = f.File.WriteAt(b, off)
		return err
	})
	return n, err
}

func (f crashableFile) Truncate(size int64) error {
	return f.m.do("journal", "", func() error { return f.File.Truncate(size) })
}

func (f crashableFile) Sync() error { return f.m.do("journal", "", f.File.Sync) }

// copyLedger copies a ledger's directory. It may be called outside the goroutine of the test, so it reports an error
// and returns.
func copyLedger(t interface{ Errorf(string, ...any) }, from, to string) {
	err := os.CopyFS(to, ledgerFiles{os.DirFS(from)})
	if err != nil {
		t.Errorf("copying the ledger: %v", err)
	}
}

// ledgerFiles leaves out the reserve, and journals that vanish meanwhile.
type ledgerFiles struct{ fs.FS }

func (l ledgerFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(l.FS, name)
	kept := all[:0]
	for _, e := range all {
		if e.Name() != "reserve" {
			kept = append(kept, e)
		}
	}
	return kept, err
}
