package local

import (
	"ferry/internal/place/local/disk"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A faultDisk fails the Nth call. It also checks that no file is synced again after a failed sync.
type faultDisk struct {
	disk.Disk
	mu     sync.Mutex
	n      int
	failAt int
	sticky bool
	err    error
	only   string
	log    []string
	bad    map[disk.File]bool
	broken []string
	before func(op string) // sees each call; one at a time

	calls sync.Mutex // held while before looks
}

func newFault(failAt int, err error) *faultDisk {
	return &faultDisk{Disk: disk.RealDisk(), failAt: failAt, err: err, bad: map[disk.File]bool{}}
}

func (d *faultDisk) look(op string) {
	d.calls.Lock()
	defer d.calls.Unlock()
	if d.before != nil {
		d.before(op)
	}
}

func (d *faultDisk) step(op string, f disk.File) error {
	d.look(op)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, op)
	if strings.HasPrefix(op, "sync") && f != nil && d.bad[f] {
		d.broken = append(d.broken, op+" after a failed sync")
	}
	if d.only != "" && !strings.HasPrefix(op, d.only) {
		return nil
	}
	d.n++
	if d.n == d.failAt || d.sticky && d.failAt > 0 && d.n >= d.failAt {
		if f != nil && strings.HasPrefix(op, "sync") {
			d.bad[f] = true
		}
		return d.err
	}
	return nil
}

func (d *faultDisk) hit() bool { return d.failAt > 0 && d.n >= d.failAt }

func (d *faultDisk) heal() {
	d.mu.Lock()
	d.failAt = 0
	d.mu.Unlock()
}

func (d *faultDisk) Open(dir *disk.Dir, name string, flag int, perm os.FileMode) (disk.File, error) {
	if err := d.step("open "+name, nil); err != nil {
		return nil, err
	}
	return d.Disk.Open(dir, name, flag, perm)
}

func (d *faultDisk) Mkdir(dir *disk.Dir, name string) error {
	if err := d.step("mkdir "+name, nil); err != nil {
		return err
	}
	return d.Disk.Mkdir(dir, name)
}

func (d *faultDisk) Rename(dir *disk.Dir, from, to string, replace bool) error {
	if err := d.step("rename", nil); err != nil {
		return err
	}
	return d.Disk.Rename(dir, from, to, replace)
}

func (d *faultDisk) RenameInto(dir *disk.Dir, from string, into *disk.Dir, to string, replace bool) error {
	if err := d.step("move", nil); err != nil {
		return err
	}
	return d.Disk.RenameInto(dir, from, into, to, replace)
}

func (d *faultDisk) Link(dir *disk.Dir, from, to string) error {
	if err := d.step("link", nil); err != nil {
		return err
	}
	return d.Disk.Link(dir, from, to)
}

func (d *faultDisk) Unlink(dir *disk.Dir, name string) error {
	if err := d.step("unlink", nil); err != nil {
		return err
	}
	return d.Disk.Unlink(dir, name)
}

func (d *faultDisk) SyncDir(dir *disk.Dir) error {
	if err := d.step("dirsync "+filepath.Base(dir.Path()), nil); err != nil {
		return err
	}
	return d.Disk.SyncDir(dir)
}

func (d *faultDisk) Write(f disk.File, b []byte, off int64) (int, error) {
	if err := d.step("write", nil); err != nil {
		n, _ := d.Disk.Write(f, b[:len(b)/2], off) // half of it arrives
		return n, err
	}
	return d.Disk.Write(f, b, off)
}

func (d *faultDisk) Truncate(f disk.File, size int64) error {
	if err := d.step("truncate", nil); err != nil {
		return err
	}
	return d.Disk.Truncate(f, size)
}

func (d *faultDisk) Allocate(f disk.File, size int64) error {
	if err := d.step("allocate", nil); err != nil {
		return err
	}
	return d.Disk.Allocate(f, size)
}

func (d *faultDisk) SetMeta(dir *disk.Dir, name string, f disk.File, mode uint32, mtime int64) error {
	if err := d.step("meta", nil); err != nil {
		return err
	}
	return d.Disk.SetMeta(dir, name, f, mode, mtime)
}

func (d *faultDisk) SyncData(f disk.File) error {
	if err := d.step("syncdata", f); err != nil {
		return err
	}
	return d.Disk.SyncData(f)
}

func (d *faultDisk) Sync(f disk.File) error {
	if err := d.step("sync", f); err != nil {
		return err
	}
	return d.Disk.Sync(f)
}

// A faultWatch is offered on every file system, so that the order of calls is tested everywhere. Its sync syncs
// nothing.
type faultWatch struct{ name string }

func (w *faultWatch) Name() string { return w.name }

func (d *faultDisk) WatchFS(dir *disk.Dir) (disk.Watch, error) {
	return &faultWatch{dir.Path()}, d.step("watch", nil)
}

func (d *faultDisk) SyncFS(disk.Watch) error { return d.step("groupsync", nil) }

func (d *faultDisk) CloseWatch(disk.Watch) error { return d.step("unwatch", nil) }

func (d *faultDisk) StartSync(f disk.File) error {
	if err := d.step("start", f); err != nil {
		return err
	}
	return d.Disk.StartSync(f)
}

func (d *faultDisk) Close(f disk.File) error {
	err := d.step("close", nil)
	d.Disk.Close(f)
	return err
}
