package protocol_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"ferry/internal/ledger"
	"ferry/internal/localfs"
)

var errDead = errors.New("the process is gone")

// A mortalDisk is the host's disk until its run dies. What a process does to
// the disk and to its ledger stops at one instant then: calls that begin later
// wait until the ledger has been copied as it was, and fail.
type mortalDisk struct {
	localfs.Disk
	r     *run
	state atomic.Int32  // 0 lives, 1 dies, 2 is dead
	gone  chan struct{} // closed when it is dead
	busy  sync.RWMutex  // read-held by a call under way
	once  sync.Once
}

func (d *mortalDisk) doomed() bool { return d.state.Load() != 0 }

// do makes one call. The node's plan may let the run die before it or after.
func (d *mortalDisk) do(op, name string, call func() error) error {
	n := d.r.node.countOp()
	if plan := d.r.node.w.plan(); plan != nil && !d.doomed() {
		if plan(d.r.node, op, name, n, false) {
			d.die(false)
		}
	}
	if d.doomed() {
		<-d.gone
		return errDead
	}
	if inject := d.r.node.w.injection(); inject != nil {
		if err := inject(d.r.node, op, name); err != nil {
			return err
		}
	}
	err := d.call(call)
	if plan := d.r.node.w.plan(); plan != nil && plan(d.r.node, op, name, n, true) {
		d.die(false)
		return errDead
	}
	return err
}

func (d *mortalDisk) call(call func() error) error {
	d.busy.RLock()
	defer d.busy.RUnlock()
	return call()
}

// die is a crash: from here on nothing that the run does has an effect. With
// writing the caller is in the ledger's own transaction, which is lost.
func (d *mortalDisk) die(writing bool) {
	if !d.state.CompareAndSwap(0, 1) {
		return
	}
	to := d.r.node.nextDir()
	take := func(*ledger.Tx) error {
		d.once.Do(func() { copyLedger(d.r.node.w.t, d.r.dir, to) })
		return nil
	}
	if writing {
		take(nil)
	} else if err := d.r.ledger.Update(take); err != nil {
		d.r.node.w.t.Errorf("the ledger could not be copied: %v", err)
	}
	d.state.Store(2)
	close(d.gone)
	d.r.node.crashed <- to
}

// end is the orderly end of a run: what is still under way in it has no effect
// any more.
func (d *mortalDisk) end() {
	if d.state.CompareAndSwap(0, 2) {
		close(d.gone)
	}
	d.busy.Lock()
	defer d.busy.Unlock()
}

func (d *mortalDisk) Open(dir *localfs.Dir, name string, flag int, perm os.FileMode) (f *os.File, err error) {
	if flag&os.O_CREATE == 0 {
		if d.doomed() {
			<-d.gone
			return nil, errDead
		}
		return d.Disk.Open(dir, name, flag, perm)
	}
	err = d.do("create", name, func() (err error) {
		f, err = d.Disk.Open(dir, name, flag, perm)
		return err
	})
	if err != nil && f != nil {
		f.Close()
		f = nil
	}
	return f, err
}

func (d *mortalDisk) Mkdir(dir *localfs.Dir, name string) error {
	return d.do("mkdir", name, func() error { return d.Disk.Mkdir(dir, name) })
}

func (d *mortalDisk) Rename(dir *localfs.Dir, from, to string, replace bool) error {
	return d.do("rename", to, func() error {
		err := d.Disk.Rename(dir, from, to, replace)
		if err == nil && strings.HasSuffix(from, ".part") {
			d.r.node.w.renamed(dir.Path() + "/" + to)
		}
		return err
	})
}

func (d *mortalDisk) Link(dir *localfs.Dir, from, to string) error {
	return d.do("link", to, func() error { return d.Disk.Link(dir, from, to) })
}

func (d *mortalDisk) Unlink(dir *localfs.Dir, name string) error {
	return d.do("unlink", name, func() error { return d.Disk.Unlink(dir, name) })
}

func (d *mortalDisk) SyncDir(dir *localfs.Dir) error {
	return d.do("syncdir", dir.Path(), func() error { return d.Disk.SyncDir(dir) })
}

func (d *mortalDisk) Write(f *os.File, b []byte, off int64) (n int, err error) {
	err = d.do("write", f.Name(), func() (err error) {
		n, err = d.Disk.Write(f, b, off)
		return err
	})
	return n, err
}

func (d *mortalDisk) Truncate(f *os.File, size int64) error {
	return d.do("truncate", f.Name(), func() error { return d.Disk.Truncate(f, size) })
}

func (d *mortalDisk) Allocate(f *os.File, size int64) error {
	return d.do("allocate", f.Name(), func() error { return d.Disk.Allocate(f, size) })
}

func (d *mortalDisk) SetMeta(dir *localfs.Dir, name string, f *os.File, mode uint32, mtime int64) error {
	return d.do("setmeta", name, func() error { return d.Disk.SetMeta(dir, name, f, mode, mtime) })
}

func (d *mortalDisk) SyncData(f *os.File) error {
	return d.do("syncdata", f.Name(), func() error { return d.Disk.SyncData(f) })
}

func (d *mortalDisk) Sync(f *os.File) error {
	return d.do("sync", f.Name(), func() error { return d.Disk.Sync(f) })
}

// copyLedger copies a ledger's directory as it is on disk. It may be asked for
// where the machine's test is not running, so it reports and goes on.
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
