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

	"ferry/internal/localfs"
)

// MemoryOptions say what kind of file system a Memory is. The zero value is a
// large one that has everything.
type MemoryOptions struct {
	Blocks int64 // of blockSize bytes; 0: no end of them
	Inodes int64 // 0: no end of them
	Fold   bool  // names that differ only in case are one name
	Plain  bool  // there is no rename that replaces nothing
	// Ordered: a file's mode and times are on the disk before a name that it is
	// given later, as with any journal of metadata.
	Ordered bool
	Dev     uint64
}

const blockSize = 4096

// A Memory is a file system in memory, which a localfs.FS takes for the host's.
// It keeps to POSIX and to no more than it: what was not synced, each write,
// each length, each name, may be there after a crash or not, independently of
// all else (see Crash). A sync of a file covers its data and no name of it; a
// sync of a directory covers the names in it. A rename is all or nothing. An
// inode number is used again as soon as it is free.
//
// It has no permissions: whatever they are, everything may be read and written.
// Its clock moves a millisecond with each change.
type Memory struct {
	mu     sync.Mutex
	opt    MemoryOptions
	t      *tree
	now    int64
	nextID uint64
	nextNo uint64   // no inode number from here on has been used
	free   []uint64 // inode numbers to be used again, the lowest first
	used   int64    // blocks

	base *tree // as it was, durably, before ops
	ops  []memOp
}

// A tree is all there is on a file system.
type tree struct {
	root  *node
	nodes map[uint64]*node // by id
}

// A node is a file, a directory or a link.
type node struct {
	id    uint64 // never used again
	ino   uint64
	typ   localfs.FileType
	mode  uint32
	mtime int64
	ctime int64
	nlink uint64
	opens int

	data   []byte
	shared bool             // data is another node's, too, and is not to be changed
	blocks map[int64]bool   // that are allocated
	names  map[string]entry // of a directory, folded
	up     *node            // of a directory
	link   string           // what a link says
}

type entry struct {
	name string
	n    *node
}

const firstTime = 1_750_000_000_000_000_000

// NewMemory makes an empty file system with a root directory.
func NewMemory(opt MemoryOptions) *Memory {
	if opt.Dev == 0 {
		opt.Dev = 77
	}
	m := &Memory{opt: opt, now: firstTime, nextID: 3, nextNo: 3}
	root := &node{id: 2, ino: 2, typ: localfs.TypeDir, mode: 0o755, mtime: m.now, ctime: m.now, nlink: 1, names: map[string]entry{}}
	root.up = root
	m.t = &tree{root, map[uint64]*node{2: root}}
	m.base = m.t.clone()
	return m
}

// Settle makes everything durable as it is, and forgets how it came about.
func (m *Memory) Settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.base, m.ops = m.t.clone(), nil
}

// clone copies a tree; contents of files are shared until one of the two
// changes them.
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
		if n.typ != localfs.TypeDir {
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

// own makes a node's content its own, with room for size bytes. A content that grows gets
// room for as much again: most files are written piece by piece.
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

// resize gives a file a size; what is new is zeros.
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

func (m *Memory) stat(n *node) localfs.Stat {
	st := localfs.Stat{Type: n.typ, Mode: n.mode, Dev: m.opt.Dev, Ino: n.ino, Nlink: n.nlink, UID: uint32(os.Geteuid()),
		Size: int64(len(n.data)), Mtime: n.mtime, Ctime: n.ctime, Allocated: int64(len(n.blocks)) * blockSize}
	if n.typ == localfs.TypeLink {
		st.Size = int64(len(n.link))
	}
	return st
}

// tick is the time of a change.
func (m *Memory) tick() int64 {
	m.now += 1_000_000
	return m.now
}

// makeNode makes a node that has no name yet.
func (m *Memory) makeNode(typ localfs.FileType, mode uint32) (*node, error) {
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
	if typ == localfs.TypeDir {
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

// take allocates the blocks of a range, all or as many as there are; it gives
// the end of what is allocated.
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

// where is a directory's path; one that was removed has none.
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

// walk finds what a path leads to. Links are followed, but for the last
// component where last is false. Beneath a top no link may lead out, nor begin
// with '/'.
func (m *Memory) walk(from *node, p string, top *node, last bool) (*node, error) {
	at, left := from, strings.Split(p, "/")
	for hops := 0; len(left) > 0; {
		name := left[0]
		left = left[1:]
		switch {
		case name == "" || name == ".":
			continue
		case at.typ != localfs.TypeDir:
			return nil, syscall.ENOTDIR
		case name == "..":
			if at == top {
				return nil, localfs.ErrEscapes
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
		if next.typ != localfs.TypeLink || len(left) == 0 && !last {
			at = next
			continue
		}
		if hops++; hops > 40 {
			return nil, syscall.ELOOP
		}
		if strings.HasPrefix(next.link, "/") {
			if top != nil {
				return nil, localfs.ErrEscapes
			}
			at = m.t.root
		}
		left = append(strings.Split(next.link, "/"), left...)
	}
	return at, nil
}

// sorted are a directory's names.
func (n *node) sorted() []string {
	names := make([]string, 0, len(n.names))
	for _, e := range n.names {
		names = append(names, e.name)
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names
}
