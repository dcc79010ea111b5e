package faulty

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"ferry/internal/place/local/disk"
)

// The methods below are for other programs on the host, and for tests that examine the file system. Paths begin with
// '/'.

// at finds the directory of a path.
func (m *Memory) at(p string) (*node, string, error) {
	d, err := m.walk(m.t.root, path.Dir(p), nil, true)
	if err == nil && d.typ != disk.TypeDir {
		err = syscall.ENOTDIR
	}
	return d, path.Base(p), err
}

// host makes one change to a name.
func (m *Memory) host(p string, do func(d *node, name string) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, name, err := m.at(p)
	if err == nil {
		err = do(d, name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	return nil
}

// MkdirAll makes a directory and its missing parents.
func (m *Memory) MkdirAll(p string) error {
	if p == "/" {
		return nil
	}
	if err := m.MkdirAll(path.Dir(p)); err != nil {
		return err
	}
	return m.host(p, func(d *node, name string) error {
		if n := m.get(d, name); n != nil && n.typ == disk.TypeDir {
			return nil
		}
		return m.mkdir(d, name, 0o755)
	})
}

// WriteFile makes a file with the content, or rewrites it in place. It is not synced.
func (m *Memory) WriteFile(p string, content []byte) error {
	return m.host(p, func(d *node, name string) (err error) {
		n := m.get(d, name)
		if n == nil {
			if n, err = m.create(d, name, 0o644); err != nil {
				return err
			}
		}
		m.change(memOp{kind: opResize, node: n.id, at: m.tick()})
		if m.take(n, 0, int64(len(content))) < int64(len(content)) {
			return syscall.ENOSPC
		}
		if len(content) > 0 {
			m.change(memOp{kind: opWrite, node: n.id, data: append([]byte(nil), content...), size: int64(len(content)), at: m.tick()})
		}
		return nil
	})
}

// Symlink makes a link.
func (m *Memory) Symlink(to, p string) error {
	return m.host(p, func(d *node, name string) error {
		if m.get(d, name) != nil {
			return syscall.EEXIST
		}
		n, err := m.makeNode(disk.TypeLink, 0o777)
		if err != nil {
			return err
		}
		n.link = to
		at := m.tick()
		m.record(memOp{kind: opMake, node: n.id, ino: n.ino, typ: n.typ, mode: n.mode, link: to, at: at})
		m.name(d, at, set{name, n.id})
		return nil
	})
}

// Hardlink gives a file a second name in its directory.
func (m *Memory) Hardlink(p, to string) error {
	return m.host(p, func(d *node, name string) error {
		n := m.get(d, name)
		if n == nil {
			return syscall.ENOENT
		}
		m.name(d, m.tick(), set{to, n.id})
		return nil
	})
}

// Remove removes a name, and the content of a directory.
func (m *Memory) Remove(p string) error {
	return m.host(p, func(d *node, name string) error {
		n := m.get(d, name)
		if n == nil {
			return syscall.ENOENT
		}
		m.removeAll(d, name, n)
		return nil
	})
}

func (m *Memory) removeAll(d *node, name string, n *node) {
	for _, below := range n.sorted() {
		m.removeAll(n, below, m.get(n, below))
	}
	m.name(d, m.tick(), set{name, 0})
}

// Move renames within a directory, and replaces an existing file.
func (m *Memory) Move(p, to string) error {
	return m.host(p, func(d *node, name string) error { return m.rename(d, name, to, true) })
}

// Chmod sets permission bits and leaves the time alone.
func (m *Memory) Chmod(p string, mode uint32) error {
	return m.host(p, func(d *node, name string) error {
		n := m.get(d, name)
		if n == nil {
			return syscall.ENOENT
		}
		m.change(memOp{kind: opMeta, node: n.id, mode: mode, mtime: n.mtime, at: m.tick()})
		return nil
	})
}

// SyncFile makes a file's content durable, and none of its names.
func (m *Memory) SyncFile(p string) error {
	return m.host(p, func(d *node, name string) error {
		n := m.get(d, name)
		if n == nil {
			return syscall.ENOENT
		}
		m.recordSync(memOp{kind: opSync, node: n.id})
		return nil
	})
}

// SyncNames makes the names in a directory durable.
func (m *Memory) SyncNames(p string) error {
	return m.host(p+"/.", func(d *node, _ string) error {
		m.recordSync(memOp{kind: opSyncDir, node: d.id})
		return nil
	})
}

// SyncAll makes everything so far durable, like sync(1).
func (m *Memory) SyncAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.t.nodes)) {
		n, kind := m.t.nodes[id], opSync
		if n.typ == disk.TypeDir {
			kind = opSyncDir
		}
		m.recordSync(memOp{kind: kind, node: n.id})
	}
}

// ReadFile returns a file's content. It does not follow a link.
func (m *Memory) ReadFile(p string) (content []byte, err error) {
	err = m.host(p, func(d *node, name string) error {
		n := m.get(d, name)
		switch {
		case n == nil:
			return syscall.ENOENT
		case n.typ != disk.TypeFile:
			return syscall.EISDIR
		}
		content = append([]byte{}, n.data...)
		return nil
	})
	return content, err
}

// StatName returns the properties of a name. It does not follow a link.
func (m *Memory) StatName(p string) (st disk.Stat, err error) {
	err = m.host(p, func(d *node, name string) error {
		n := m.get(d, name)
		if n == nil {
			return syscall.ENOENT
		}
		st = m.stat(n)
		return nil
	})
	return st, err
}

// Files calls see for each file beneath a directory, in order, with its name there. see must not change the content.
func (m *Memory) Files(dir string, see func(name string, content []byte)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.walk(m.t.root, dir, nil, true)
	if err == nil {
		m.files(d, "", see)
	}
}

func (m *Memory) files(d *node, above string, see func(string, []byte)) {
	for _, name := range d.sorted() {
		n := m.get(d, name)
		full := strings.TrimPrefix(above+"/"+name, "/")
		switch n.typ {
		case disk.TypeDir:
			m.files(n, full, see)
		case disk.TypeFile:
			see(full, n.data)
		}
	}
}

// Opened returns the number of open files and directories.
func (m *Memory) Opened() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.t.nodes {
		n += k.opens
	}
	return n
}

// Limit leaves the given number of blocks, or inodes, free. A number below 0 removes the limit.
func (m *Memory) Limit(inodes bool, left int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case left < 0:
		m.opt.Blocks, m.opt.Inodes = 0, 0
	case inodes:
		m.opt.Inodes = int64(len(m.t.nodes)) + left
	default:
		m.opt.Blocks = m.used + left
	}
}

// Rewrite changes a file's content in place, as data corruption does: its size and times stay.
func (m *Memory) Rewrite(p string, content []byte) error {
	return m.host(p, func(d *node, name string) error {
		n := m.get(d, name)
		if n == nil || len(n.data) != len(content) {
			return syscall.EINVAL
		}
		at := n.ctime
		mtime := n.mtime
		m.change(memOp{kind: opWrite, node: n.id, data: append([]byte(nil), content...), size: int64(len(content)), at: at})
		m.change(memOp{kind: opMeta, node: n.id, mode: n.mode, mtime: mtime, at: at})
		return nil
	})
}
