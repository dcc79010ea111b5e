package faulty

import (
	"fmt"

	"ferry/internal/place/local/disk"
)

func on(c Call, f disk.File) Op { return Op{Call: c, Path: f.Name(), File: f} }

func (d *Disk) Stat(f disk.File) (st disk.Stat, err error) {
	err = d.do(on(CallStat, f), func() error {
		st, err = d.Disk.Stat(f)
		return err
	})
	return st, err
}

func (d *Disk) ReadAt(f disk.File, b []byte, off int64) (n int, err error) {
	err = d.do(on(CallRead, f), func() error {
		n, err = d.Disk.ReadAt(f, b, off)
		return err
	})
	return n, err
}

// Write fails as planned. A short one writes half of the bytes.
func (d *Disk) Write(f disk.File, b []byte, off int64) (n int, err error) {
	op := on(CallWrite, f)
	p := d.enter(&op)
	if d.Before != nil {
		if err := d.Before(op); err != nil {
			return 0, err
		}
	}

	switch {
	case p == nil, !p.Short && p.Err == nil:
		n, err = d.Disk.Write(f, b, off)
	case p.Short:
		n, err = d.Disk.Write(f, b[:(len(b)+1)/2], off)
		if p.Err != nil {
			err = p.Err
		}
	case p.Late:
		d.Disk.Write(f, b, off)
		err = p.Err
	default:
		err = p.Err
	}

	if d.After != nil {
		err = d.After(op, err)
	}
	return n, err
}

func (d *Disk) Truncate(f disk.File, size int64) error {
	return d.do(on(CallTruncate, f), func() error { return d.Disk.Truncate(f, size) })
}

func (d *Disk) Allocate(f disk.File, size int64) error {
	return d.do(on(CallAllocate, f), func() error { return d.Disk.Allocate(f, size) })
}

func (d *Disk) Punch(f disk.File, off, end int64) error {
	return d.do(on(CallPunch, f), func() error { return d.Disk.Punch(f, off, end) })
}

func (d *Disk) SetMeta(dir *disk.Dir, name string, f disk.File, mode uint32, mtime int64) error {
	return d.do(named(CallSetMeta, dir, name), func() error { return d.Disk.SetMeta(dir, name, f, mode, mtime) })
}

func (d *Disk) StartSync(f disk.File) error {
	return d.sync(on(CallStartSync, f), func() error { return d.Disk.StartSync(f) })
}

func (d *Disk) SyncData(f disk.File) error {
	return d.sync(on(CallSyncData, f), func() error { return d.Disk.SyncData(f) })
}

func (d *Disk) Sync(f disk.File) error {
	return d.sync(on(CallSync, f), func() error { return d.Disk.Sync(f) })
}

// sync performs a sync, and notes the file if it fails. A later successful sync proves nothing then, because the kernel
// has dropped the unwritten data.
func (d *Disk) sync(op Op, call func() error) error {
	st, serr := d.Disk.Stat(op.File)
	id := inode{st.Dev, st.Ino}
	d.mu.Lock()
	if serr == nil && d.bad[id] {
		d.broken = append(d.broken, fmt.Sprintf("%s comes after a sync of the file has failed", op))
	}

	d.started[id] = op.Call == CallStartSync
	d.mu.Unlock()
	err := d.do(op, call)
	if err != nil && serr == nil {
		d.mu.Lock()
		d.bad[id] = true
		d.mu.Unlock()
		if m, ok := d.Disk.(unsyncedDropper); ok {
			m.SyncFailed(op.File)
		}
	}
	return err
}

// WatchFS implements disk.Disk.
func (d *Disk) WatchFS(dir *disk.Dir) (w disk.Watch, err error) {
	err = d.do(of(CallWatchFS, dir), func() error {
		w, err = d.Disk.WatchFS(dir)
		return err
	})
	if err != nil && w != nil {
		d.Disk.CloseWatch(w)
		w = nil
	}
	return w, err
}

// CloseWatch implements disk.Disk.
func (d *Disk) CloseWatch(w disk.Watch) error {
	return d.do(Op{Call: CallCloseWatch, Path: w.Name()}, func() error { return d.Disk.CloseWatch(w) })
}

// SyncFS implements disk.Disk. If it fails, it counts as failed for every file with begun writing and no sync since.
func (d *Disk) SyncFS(w disk.Watch) error {
	err := d.do(Op{Call: CallSyncFS, Path: w.Name()}, func() error { return d.Disk.SyncFS(w) })
	d.mu.Lock()
	for id, waits := range d.started {
		if waits && err != nil {
			d.bad[id] = true
		}
	}

	clear(d.started)
	d.mu.Unlock()
	if m, ok := d.Disk.(unsyncedDropper); ok && err != nil {
		m.SyncFSFailed()
	}
	return err
}

// fresh notes that a file was just made: its inode number may have belonged to a deleted file.
func (d *Disk) fresh(f disk.File) {
	if st, err := d.Disk.Stat(f); err == nil && st.Size == 0 {
		d.mu.Lock()
		delete(d.bad, inode{st.Dev, st.Ino})
		d.mu.Unlock()
	}
}

// An unsyncedDropper disk drops unwritten data as a kernel does.
type unsyncedDropper interface {
	SyncFailed(f disk.File)
	SyncFSFailed()
	CloseFailed(f disk.File)
}

// Close releases the file, even if it returns an error.
func (d *Disk) Close(f disk.File) error {
	var inner error
	err := d.do(on(CallClose, f), func() error {
		inner = d.Disk.Close(f)
		return inner
	})
	if m, ok := d.Disk.(unsyncedDropper); ok && err != nil && inner == nil {
		m.CloseFailed(f)
	}
	return err
}
