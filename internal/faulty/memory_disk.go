package faulty

import (
	"io"
	"os"
	"path"
	"syscall"

	"ferry/internal/place/local/disk"
)

// A memFile is an open file or directory of a Memory.
type memFile struct {
	m      *Memory
	n      *node
	name   string
	write  bool
	closed bool
	read   []string // names not yet returned
	begun  bool
}

// Name returns the path given when it was opened.
func (f *memFile) Name() string { return f.name }

func fail(op, name string, errno error) error {
	return &os.PathError{Op: op, Path: name, Err: errno}
}

func (m *Memory) handle(n *node, name string) *memFile {
	n.opens++
	return &memFile{m: m, n: n, name: name}
}

func (m *Memory) shut(f *memFile) error {
	if f.closed {
		return fail("close", f.name, os.ErrClosed)
	}
	f.closed = true
	f.n.opens--
	m.drop(f.n)
	return nil
}

func dirOf(d *disk.Dir) *node { return d.Handle().(*memFile).n }

func (m *Memory) Resolve(p string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.walk(m.t.root, p, nil, true)
	if err != nil {
		return "", fail("lstat", p, err)
	}

	if n.typ == disk.TypeDir {
		real, _ := n.where()
		return real, nil
	}

	d, err := m.walk(m.t.root, path.Dir(p), nil, true)
	if err != nil {
		return "", fail("lstat", p, err)
	}

	real, _ := d.where()
	return path.Join(real, path.Base(p)), nil
}

func (m *Memory) OpenRoot(p string) (disk.Root, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.walk(m.t.root, p, nil, true)
	if err == nil && n.typ != disk.TypeDir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, fail("open", p, err)
	}
	return m.handle(n, p), nil
}

func (m *Memory) CloseRoot(r disk.Root) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shut(r.(*memFile))
}

func (m *Memory) OpenBeneath(r disk.Root, rel string) (disk.Handle, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	top := r.(*memFile)
	if top.closed {
		return nil, fail("open", rel, os.ErrClosed)
	}

	n, err := m.walk(top.n, rel, top.n, true)
	if err == nil && n.typ != disk.TypeDir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, fail("open", rel, err)
	}
	return m.handle(n, path.Join(top.name, rel)), nil
}

func (m *Memory) Child(d *disk.Dir, name string) (disk.Handle, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(d, name)
	if err == nil && n.typ != disk.TypeDir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, fail("openat", name, err)
	}
	return m.handle(n, d.Path()+"/"+name), nil
}

// lookup finds a name in a directory, and does not follow it.
func (m *Memory) lookup(d *disk.Dir, name string) (*node, error) {
	if len(name) > 255 {
		return nil, syscall.ENAMETOOLONG
	}

	dir := dirOf(d)
	switch name {
	case ".":
		return dir, nil
	case "..":
		return dir.up, nil
	}

	n := m.get(dir, name)
	if n == nil {
		return nil, syscall.ENOENT
	}
	return n, nil
}

func (m *Memory) CloseDir(d *disk.Dir) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shut(d.Handle().(*memFile))
}

func (m *Memory) Where(d *disk.Dir) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := dirOf(d).where(); ok {
		return p, nil
	}
	return "", fail("readlink", d.Path(), syscall.ENOENT)
}

func (m *Memory) StatDir(d *disk.Dir) (disk.Stat, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stat(dirOf(d)), nil
}

// Trace implements disk.Disk.
func (m *Memory) Trace(p string, follow bool) (disk.Stat, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.walk(m.t.root, p, nil, true)
	if err == nil && n.typ != disk.TypeDir {
		err = syscall.ENOTDIR
	}
	if err == nil && !follow {
		if real, ok := n.where(); !ok || real != path.Clean(p) {
			err = syscall.ELOOP
		}
	}
	if err != nil {
		return disk.Stat{}, fail("trace", p, err)
	}
	return m.stat(n), nil
}

// Mounted implements disk.Disk: a Memory is one file system.
func (m *Memory) Mounted(p string) (bool, error) {
	_, err := m.Trace(p, false)
	return err == nil && p == "/", err
}

func (m *Memory) Lstat(d *disk.Dir, name string) (disk.Stat, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(d, name)
	if err != nil {
		return disk.Stat{}, fail("lstat", name, err)
	}
	return m.stat(n), nil
}

func (m *Memory) Names(d *disk.Dir, n int) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := d.Handle().(*memFile)
	if n < 0 {
		return h.n.sorted(), nil
	}

	if !h.begun {
		h.read, h.begun = h.n.sorted(), true
	}

	if len(h.read) == 0 {
		return nil, io.EOF
	}

	k := min(n, len(h.read))
	names := h.read[:k]
	h.read = h.read[k:]
	return names, nil
}

func (m *Memory) Free(*disk.Dir) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opt.Blocks == 0 {
		return 1 << 40, nil
	}
	return (m.opt.Blocks - m.used) * blockSize, nil
}

func (m *Memory) Open(d *disk.Dir, name string, flag int, perm os.FileMode) (disk.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := d.Path() + "/" + name
	n, err := m.lookup(d, name)
	writes := flag&(os.O_RDWR|os.O_WRONLY) != 0
	switch {
	case err == syscall.ENOENT && flag&os.O_CREATE != 0:
		n, err = m.create(dirOf(d), name, uint32(perm.Perm()))
	case err != nil:
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		err = syscall.EEXIST
	case n.typ == disk.TypeLink:
		err = syscall.ELOOP
	case n.typ == disk.TypeDir && writes:
		err = syscall.EISDIR
	case n.typ == disk.TypeOther:
		err = syscall.ENXIO
	}
	if err != nil {
		return nil, fail("open", full, err)
	}

	f := m.handle(n, full)
	f.write = writes
	return f, nil
}

// create makes a file with a name.
func (m *Memory) create(dir *node, name string, mode uint32) (*node, error) {
	if dir.nlink == 0 {
		return nil, syscall.ENOENT
	}
	at := m.tick()
	n, err := m.makeNode(disk.TypeFile, mode)
	if err != nil {
		return nil, err
	}
	m.record(memOp{kind: opMake, node: n.id, ino: n.ino, typ: n.typ, mode: n.mode, at: at})
	m.name(dir, at, set{name, n.id})
	return n, nil
}

// DefaultMode reports that there are no access control lists.
func (m *Memory) DefaultMode(*disk.Dir) (uint32, bool, error) { return 0, false, nil }

func (m *Memory) Mkdir(d *disk.Dir, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mkdir(dirOf(d), name, 0o755)
}

func (m *Memory) mkdir(dir *node, name string, mode uint32) error {
	switch {
	case len(name) > 255:
		return syscall.ENAMETOOLONG
	case m.get(dir, name) != nil:
		return syscall.EEXIST
	case dir.nlink == 0:
		return syscall.ENOENT
	}

	at := m.tick()
	n, err := m.makeNode(disk.TypeDir, mode)
	if err != nil {
		return err
	}

	n.up = dir
	m.record(memOp{kind: opMake, node: n.id, ino: n.ino, typ: n.typ, mode: mode, up: dir.id, at: at})
	m.name(dir, at, set{name, n.id})
	return nil
}

func (m *Memory) Rename(d *disk.Dir, from, to string, replace bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rename(dirOf(d), from, to, replace)
}

func (m *Memory) rename(dir *node, from, to string, replace bool) error {
	if !replace && m.opt.Plain {
		return syscall.EINVAL
	}

	if len(from) > 255 || len(to) > 255 {
		return syscall.ENAMETOOLONG
	}

	n, old := m.get(dir, from), m.get(dir, to)
	switch {
	case n == nil:
		return syscall.ENOENT
	case old == nil:
	case !replace && (old != n || m.fold(from) != m.fold(to)):
		return syscall.EEXIST
	case old == n && m.fold(from) != m.fold(to):
		return nil // two names of one file: POSIX keeps both
	case old == n:
	case old.typ == disk.TypeDir && n.typ != disk.TypeDir:
		return syscall.EISDIR
	case old.typ != disk.TypeDir && n.typ == disk.TypeDir:
		return syscall.ENOTDIR
	case old.typ == disk.TypeDir && len(old.names) > 0:
		return syscall.ENOTEMPTY
	}

	m.name(dir, m.tick(), set{from, 0}, set{to, n.id})
	return nil
}

func (m *Memory) RenameInto(d *disk.Dir, from string, into *disk.Dir, to string, replace bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, there := dirOf(d), dirOf(into)
	if dir == there {
		return m.rename(dir, from, to, replace)
	}
	n, old := m.get(dir, from), m.get(there, to)
	switch {
	case !replace && m.opt.Plain:
		return syscall.EINVAL
	case len(from) > 255 || len(to) > 255:
		return syscall.ENAMETOOLONG
	case n == nil || there.nlink == 0:
		return syscall.ENOENT
	case n.typ == disk.TypeDir:
		return syscall.EINVAL // only files are moved
	case old == n && replace:
		return nil
	case old != nil && !replace:
		return syscall.EEXIST
	case old != nil && old.typ == disk.TypeDir:
		return syscall.EISDIR
	}
	m.move(dir, from, there, to, m.tick())
	return nil
}

func (m *Memory) Link(d *disk.Dir, from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(d, from)
	if err != nil {
		return err
	}

	if n.typ == disk.TypeDir {
		return syscall.EPERM
	}

	if len(to) > 255 {
		return syscall.ENAMETOOLONG
	}

	if m.get(dirOf(d), to) != nil {
		return syscall.EEXIST
	}

	m.name(dirOf(d), m.tick(), set{to, n.id})
	return nil
}

func (m *Memory) Unlink(d *disk.Dir, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(d, name)
	if err != nil {
		return err
	}
	if n.typ == disk.TypeDir {
		return syscall.EISDIR
	}
	m.name(dirOf(d), m.tick(), set{name, 0})
	return nil
}

func (m *Memory) SyncDir(d *disk.Dir) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recordSync(memOp{kind: opSyncDir, node: dirOf(d).id})
	return nil
}
