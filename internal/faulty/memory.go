package faulty

import (
	"cmp"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"ferry/internal/place/local/disk"
)

// MemoryOptions describe the file system of a Memory. The zero value is a large one with all features.
type MemoryOptions struct {
	Blocks int64 // of blockSize bytes; 0: no limit
	Inodes int64 // 0: no limit
	Fold   bool  // names that differ only in case are one name
	Plain  bool  // without a rename that never replaces a file
	// Ordered: a file's mode and times reach the disk before its later names, as with any journal of metadata.
	Ordered bool
	Dev     uint64
}

const blockSize = 4096

// A Memory is a file system in memory that a local.FS uses like the host's. It guarantees only what POSIX does. After
// a crash each unsynced change may be there or not, independently of all others: each write, each length, each name
// (see Crash). A sync of a file covers its data and no name of it. A sync of a directory covers its names. A rename is
// atomic. An inode number is used again as soon as it is free.
//
// A Memory does not enforce permissions: everything may be read and written. Its clock moves a millisecond with each
// change.
type Memory struct {
	mu     sync.Mutex
	opt    MemoryOptions
	t      *tree
	now    int64
	nextID uint64
	nextNo uint64   // inode numbers from here on are unused
	free   []uint64 // free inode numbers, the lowest first
	used   int64    // blocks

	base *tree // the durable state before ops
	ops  []memOp
}

// A tree is the whole content of a file system.
type tree struct {
	root  *node
	nodes map[uint64]*node // by id
}

// A node is a file, a directory or a link.
type node struct {
	id    uint64 // never used again
	ino   uint64
	typ   disk.FileType
	mode  uint32
	mtime int64
	ctime int64
	nlink uint64
	opens int

	data   []byte
	shared bool             // data belongs to another node, too, and must not be changed
	blocks map[int64]bool   // allocated blocks
	names  map[string]entry // of a directory, folded
	up     *node            // of a directory
	link   string           // target of a link
}

type entry struct {
	name string
	n    *node
}

const firstTime = 1_750_000_000_000_000_000

// NewMemory returns an empty file system with a root directory.
func NewMemory(opt MemoryOptions) *Memory {
	if opt.Dev == 0 {
		opt.Dev = 77
	}
	m := &Memory{opt: opt, now: firstTime, nextID: 3, nextNo: 3}
	root := &node{id: 2, ino: 2, typ: disk.TypeDir, mode: 0o755, mtime: m.now, ctime: m.now, nlink: 1, names: map[string]entry{}}
	root.up = root
	m.t = &tree{root, map[uint64]*node{2: root}}
	m.base = m.t.clone()
	return m
}

// Settle makes everything durable, and drops the history of changes.
func (m *Memory) Settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.base, m.ops = m.t.clone(), nil
}

// clone copies a tree. Contents of files are shared until one of the two changes them.
func (t *tree) clone() *tree {
	c := &tree{nodes: make(map[uint64]*node, len(t.nodes))}
	for id, n := range t.nodes {
		if n.nlink == 0 {
			continue
		}
		k := *n
		k.opens = 0
		n.shared, k.shared = true, true
		k.blocks = maps.Clone(n.blocks)
		c.nodes[id] = &k
	}

	for _, n := range c.nodes {
		if n.typ != disk.TypeDir {
			continue
		}
		names := make(map[string]entry, len(n.names))
		for key, e := range n.names {
			names[key] = entry{e.name, c.nodes[e.n.id]}
		}
		n.names = names
		n.up = c.nodes[n.up.id]
	}

	c.root = c.nodes[t.root.id]
	return c
}

// own makes a node's content its own, with room for size bytes. A growing content gets double the room: most files are
// written piece by piece.
func (n *node) own(size int64) {
	has, room := int64(len(n.data)), int64(cap(n.data))
	switch {
	case room < size:
		room = max(size, 2*has)
	case n.shared:
		room = max(size, has)
	default:
		return
	}
	d := make([]byte, has, room)
	copy(d, n.data)
	n.data, n.shared = d, false
}

// resize gives a file a size. New bytes are zeros.
func (n *node) resize(size int64) {
	n.own(size)
	old := int64(len(n.data))
	n.data = n.data[:size]
	if size > old {
		clear(n.data[old:])
	}
}

func (n *node) write(b []byte, off int64) {
	end := off + int64(len(b))
	if end > int64(len(n.data)) {
		n.resize(end)
	} else {
		n.own(int64(len(n.data)))
	}
	copy(n.data[off:], b)
}

func (m *Memory) fold(name string) string {
	if m.opt.Fold {
		return strings.ToLower(name)
	}
	return name
}

func (m *Memory) get(d *node, name string) *node { return d.names[m.fold(name)].n }

func (m *Memory) stat(n *node) disk.Stat {
	st := disk.Stat{Type: n.typ, Mode: n.mode, Dev: m.opt.Dev, Ino: n.ino, Nlink: n.nlink, UID: uint32(os.Geteuid()),
		Size: int64(len(n.data)), Mtime: n.mtime, Ctime: n.ctime, Allocated: int64(len(n.blocks)) * blockSize}
	if n.typ == disk.TypeLink {
		st.Size = int64(len(n.link))
	}
	return st
}

// tick returns the time of a change.
func (m *Memory) tick() int64 {
	m.now += 1_000_000
	return m.now
}

// makeNode makes a node without a name.
func (m *Memory) makeNode(typ disk.FileType, mode uint32) (*node, error) {
	if m.opt.Inodes > 0 && int64(len(m.t.nodes)) >= m.opt.Inodes {
		return nil, syscall.ENOSPC
	}

	ino := m.nextNo
	if len(m.free) > 0 {
		ino, m.free = m.free[0], m.free[1:]
	} else {
		m.nextNo++
	}

	n := &node{id: m.nextID, ino: ino, typ: typ, mode: mode, mtime: m.now, ctime: m.now}
	m.nextID++
	if typ == disk.TypeDir {
		n.names = map[string]entry{}
	}

	m.t.nodes[n.id] = n
	return n, nil
}

// drop frees a node that has no name and is not open.
func (m *Memory) drop(n *node) {
	if n.nlink > 0 || n.opens > 0 || m.t.nodes[n.id] != n {
		return
	}
	delete(m.t.nodes, n.id)
	m.used -= int64(len(n.blocks))
	at, _ := slices.BinarySearch(m.free, n.ino)
	m.free = slices.Insert(m.free, at, n.ino)
}

// take allocates the blocks of a range, or as many as are free. It returns the end of the allocated range.
func (m *Memory) take(n *node, off, end int64) int64 {
	for b := off / blockSize; b*blockSize < end; b++ {
		if n.blocks[b] {
			continue
		}
		if m.opt.Blocks > 0 && m.used >= m.opt.Blocks {
			return max(b*blockSize, off)
		}
		if n.blocks == nil {
			n.blocks = map[int64]bool{}
		}
		n.blocks[b] = true
		m.used++
	}
	return end
}

// give frees the whole blocks of a range.
func (m *Memory) give(n *node, off, end int64) {
	for b := range n.blocks {
		if b*blockSize >= off && (b+1)*blockSize <= end {
			delete(n.blocks, b)
			m.used--
		}
	}
}

// where returns a directory's path. ok is false if it was removed.
func (n *node) where() (string, bool) {
	var parts []string
	for ; n.up != n; n = n.up {
		name, found := "", false
		for _, e := range n.up.names {
			if e.n == n {
				name, found = e.name, true
			}
		}
		if !found {
			return "", false
		}
		parts = append(parts, name)
	}

	slices.Reverse(parts)
	return "/" + path.Join(parts...), true
}

// walk finds the object of a path. It follows links, except for the last component if last is false. Beneath a top no
// link may lead out, nor begin with '/'.
func (m *Memory) walk(from *node, p string, top *node, last bool) (*node, error) {
	at, left := from, strings.Split(p, "/")
	for hops := 0; len(left) > 0; {
		name := left[0]
		left = left[1:]
		switch {
		case name == "" || name == ".":
			continue
		case at.typ != disk.TypeDir:
			return nil, syscall.ENOTDIR
		case name == "..":
			if at == top {
				return nil, disk.ErrEscapes
			}
			at = at.up
			continue
		case len(name) > 255:
			return nil, syscall.ENAMETOOLONG
		}
		next := m.get(at, name)
		if next == nil {
			return nil, syscall.ENOENT
		}
		if next.typ != disk.TypeLink || len(left) == 0 && !last {
			at = next
			continue
		}
		if hops++; hops > 40 {
			return nil, syscall.ELOOP
		}
		if strings.HasPrefix(next.link, "/") {
			if top != nil {
				return nil, disk.ErrEscapes
			}
			at = m.t.root
		}
		left = append(strings.Split(next.link, "/"), left...)
	}
	return at, nil
}

// sorted returns a directory's names, sorted.
func (n *node) sorted() []string {
	names := make([]string, 0, len(n.names))
	for _, e := range n.names {
		names = append(names, e.name)
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names
}
