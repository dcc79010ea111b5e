package disktest

import (
	"ferry/internal/place/local/disk"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A Fault fails the Nth call. It also checks that no file is synced again after a failed sync.
type Fault struct {
	disk.Disk
	mu     sync.Mutex
	N      int
	FailAt int
	Sticky bool
	Err    error
	Only   string
	Log    []string
	bad    map[disk.File]bool
	Broken []string
	Before func(op string) // sees each call; one at a time

	calls sync.Mutex // held while before looks
}

// NewFault returns a Fault on the host's disk. It fails call failAt with err; 0 is none.
func NewFault(failAt int, err error) *Fault {
	return &Fault{Disk: disk.RealDisk(), FailAt: failAt, Err: err, bad: map[disk.File]bool{}}
}

func (d *Fault) observe(op string) {
	d.calls.Lock()
	defer d.calls.Unlock()
	if d.Before != nil {
		d.Before(op)
	}
}

func (d *Fault) Step(op string, f disk.File) error {
	d.observe(op)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Log = append(d.Log, op)
	if strings.HasPrefix(op, "sync") && f != nil && d.bad[f] {
		d.Broken = append(d.Broken, op+" after a failed sync")
	}
	if d.Only != "" && !strings.HasPrefix(op, d.Only) {
		return nil
	}
	d.N++
	if d.N == d.FailAt || d.Sticky && d.FailAt > 0 && d.N >= d.FailAt {
		if f != nil && strings.HasPrefix(op, "sync") {
			d.bad[f] = true
		}
		return d.Err
	}
	return nil
}

func (d *Fault) Hit() bool { return d.FailAt > 0 && d.N >= d.FailAt }

func (d *Fault) Heal() {
	d.mu.Lock()
	d.FailAt = 0
	d.mu.Unlock()
}

func (d *Fault) Open(dir *disk.Dir, name string, flag int, perm os.FileMode) (disk.File, error) {
	if err := d.Step("open "+name, nil); err != nil {
		return nil, err
	}
	return d.Disk.Open(dir, name, flag, perm)
}

func (d *Fault) Mkdir(dir *disk.Dir, name string) error {
	if err := d.Step("mkdir "+name, nil); err != nil {
		return err
	}
	return d.Disk.Mkdir(dir, name)
}

func (d *Fault) Rename(dir *disk.Dir, from, to string, replace bool) error {
	if err := d.Step("rename", nil); err != nil {
		return err
	}
	return d.Disk.Rename(dir, from, to, replace)
}

func (d *Fault) RenameInto(dir *disk.Dir, from string, into *disk.Dir, to string, replace bool) error {
	if err := d.Step("move", nil); err != nil {
		return err
	}
	return d.Disk.RenameInto(dir, from, into, to, replace)
}

func (d *Fault) Link(dir *disk.Dir, from, to string) error {
	if err := d.Step("link", nil); err != nil {
		return err
	}
	return d.Disk.Link(dir, from, to)
}

func (d *Fault) Unlink(dir *disk.Dir, name string) error {
	if err := d.Step("unlink", nil); err != nil {
		return err
	}
	return d.Disk.Unlink(dir, name)
}

func (d *Fault) SyncDir(dir *disk.Dir) error {
	if err := d.Step("dirsync "+filepath.Base(dir.Path()), nil); err != nil {
		return err
	}
	return d.Disk.SyncDir(dir)
}

func (d *Fault) Write(f disk.File, b []byte, off int64) (int, error) {
	if err := d.Step("write", nil); err != nil {
		n, _ := d.Disk.Write(f, b[:len(b)/2], off) // half of it arrives
		return n, err
	}
	return d.Disk.Write(f, b, off)
}

func (d *Fault) Truncate(f disk.File, size int64) error {
	if err := d.Step("truncate", nil); err != nil {
		return err
	}
	return d.Disk.Truncate(f, size)
}

func (d *Fault) Allocate(f disk.File, size int64) error {
	if err := d.Step("allocate", nil); err != nil {
		return err
	}
	return d.Disk.Allocate(f, size)
}

func (d *Fault) SetMeta(dir *disk.Dir, name string, f disk.File, mode uint32, mtime int64) error {
	if err := d.Step("meta", nil); err != nil {
		return err
	}
	return d.Disk.SetMeta(dir, name, f, mode, mtime)
}

func (d *Fault) SyncData(f disk.File) error {
	if err := d.Step("syncdata", f); err != nil {
		return err
	}
	return d.Disk.SyncData(f)
}

func (d *Fault) Sync(f disk.File) error {
	if err := d.Step("sync", f); err != nil {
		return err
	}
	return d.Disk.Sync(f)
}

// A faultWatch is offered on every file system, so that the order of calls is tested everywhere. Its sync syncs
// nothing.
type faultWatch struct{ name string }

func (w *faultWatch) Name() string { return w.name }

func (d *Fault) WatchFS(dir *disk.Dir) (disk.Watch, error) {
	return &faultWatch{dir.Path()}, d.Step("watch", nil)
}

func (d *Fault) SyncFS(disk.Watch) error { return d.Step("groupsync", nil) }

func (d *Fault) CloseWatch(disk.Watch) error { return d.Step("unwatch", nil) }

func (d *Fault) StartSync(f disk.File) error {
	if err := d.Step("start", f); err != nil {
		return err
	}
	return d.Disk.StartSync(f)
}

func (d *Fault) Close(f disk.File) error {
	err := d.Step("close", nil)
	d.Disk.Close(f)
	return err
}
