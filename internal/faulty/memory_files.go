package faulty

import (
	"io"
	"os"
	"syscall"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// file returns an open file after checks.
func (m *Memory) file(f disk.File, op string, writes bool) (*memFile, error) {
	h := f.(*memFile)
	switch {
	case h.closed:
		return nil, fail(op, h.name, os.ErrClosed)
	case writes && !h.write:
		return nil, fail(op, h.name, syscall.EBADF)
	}
	return h, nil
}

func (m *Memory) Stat(f disk.File) (disk.Stat, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, err := m.file(f, "fstat", false)
	if err != nil {
		return disk.Stat{}, err
	}
	return m.stat(h.n), nil
}

func (m *Memory) ReadAt(f disk.File, b []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, err := m.file(f, "read", false)
	switch {
	case err != nil:
		return 0, err
	case h.n.typ == disk.TypeDir:
		return 0, fail("read", h.name, syscall.EISDIR)
	case off < 0:
		return 0, fail("read", h.name, syscall.EINVAL)
	case off >= int64(len(h.n.data)):
		return 0, io.EOF
	}

	n := copy(b, h.n.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Write writes as many bytes as there are blocks for.
func (m *Memory) Write(f disk.File, b []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, err := m.file(f, "write", true)
	if err != nil || len(b) == 0 {
		return 0, err
	}

	n := int(m.take(h.n, off, off+int64(len(b))) - off)
	if n > 0 {
		m.change(memOp{kind: opWrite, node: h.n.id, off: off, data: append([]byte(nil), b[:n]...), size: max(int64(len(h.n.data)), off+int64(n)), at: m.tick()})
	}

	if n < len(b) {
		return n, fail("write", h.name, syscall.ENOSPC)
	}
	return n, nil
}

func (m *Memory) Truncate(f disk.File, size int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, err := m.file(f, "truncate", true)
	if err != nil {
		return err
	}
	m.give(h.n, (size+blockSize-1)/blockSize*blockSize, 1<<62)
	m.change(memOp{kind: opResize, node: h.n.id, size: size, at: m.tick()})
	return nil
}

func (m *Memory) Allocate(f disk.File, size int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, err := m.file(f, "fallocate", true)
	if err != nil {
		return err
	}
	if m.take(h.n, 0, size) < size {
		m.give(h.n, (int64(len(h.n.data))+blockSize-1)/blockSize*blockSize, 1<<62)
		return syscall.ENOSPC
	}
	return nil
}

// Punch frees blocks. For a file it is only called beyond its end.
func (m *Memory) Punch(f disk.File, off, end int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, err := m.file(f, "fallocate", true)
	if err != nil {
		return err
	}
	if off < int64(len(h.n.data)) {
		return syscall.ENOTSUP
	}
	m.give(h.n, off, end)
	return nil
}

func (m *Memory) SetMeta(d *disk.Dir, _ string, f disk.File, mode uint32, mtime int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := dirOf(d)
	if f != nil {
		h, err := m.file(f, "chmod", false)
		if err != nil {
			return err
		}
		n = h.n
	}
	if mode == disk.KeepMode {
		mode = n.mode
	}
	if !transfer.KnownTime(mtime) {
		mtime = n.mtime
	}
	m.change(memOp{kind: opMeta, node: n.id, mode: mode & 0o777, mtime: mtime, at: m.tick()})
	return nil
}

func (m *Memory) StartSync(disk.File) error { return nil }

func (m *Memory) SyncData(f disk.File) error { return m.sync(f, opSyncData) }
func (m *Memory) Sync(f disk.File) error     { return m.sync(f, opSync) }

func (m *Memory) sync(f disk.File, kind memOpKind) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, err := m.file(f, "fsync", false)
	if err == nil {
		m.recordSync(memOp{kind: kind, node: h.n.id})
	}
	return err
}

func (m *Memory) Close(f disk.File) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shut(f.(*memFile))
}

// WatchFS implements disk.Disk; a Memory is one file system.
func (m *Memory) WatchFS(d *disk.Dir) (disk.Watch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.handle(dirOf(d), d.Path()), nil
}

// CloseWatch implements disk.Disk.
func (m *Memory) CloseWatch(w disk.Watch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shut(w.(*memFile))
}

// SyncFS implements disk.Disk.
func (m *Memory) SyncFS(w disk.Watch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := w.(*memFile)
	if h.closed {
		return fail("syncfs", h.name, os.ErrClosed)
	}
	m.recordSync(memOp{kind: opSyncFS})
	return nil
}

// SyncFSFailed is for a decorator that fails a sync of the file system: it counts as a failed sync of each file.
func (m *Memory) SyncFSFailed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range m.pending(len(m.ops)) {
		if k := m.ops[i].kind; k == opWrite || k == opResize {
			m.ops[i].syncFailed = true
		}
	}
}

// SyncFailed is for a decorator that fails a sync. The unsynced data can be read until a crash, and no later sync makes
// it durable.
func (m *Memory) SyncFailed(f disk.File) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range m.pendingData(f.(*memFile).n.id) {
		m.ops[i].syncFailed = true
	}
}

// CloseFailed is for a decorator that fails a close, as a file system does that writes data back at close. Unsynced
// data reads as zeros from then on.
func (m *Memory) CloseFailed(f disk.File) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := f.(*memFile).n
	for _, i := range m.pendingData(n.id) {
		o := &m.ops[i]
		if end := min(o.off+int64(len(o.data)), int64(len(n.data))); o.kind == opWrite && end > o.off {
			m.change(memOp{kind: opWrite, node: n.id, off: o.off, data: make([]byte, end-o.off), size: int64(len(n.data)), at: m.now})
		}
	}
}
