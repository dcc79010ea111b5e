package faulty

import (
	"slices"

	"ferry/internal/place/local/disk"
)

type memOpKind uint8

const (
	opMake     memOpKind = iota // a node is made, without a name
	opName                      // names of a directory are set, all or none
	opMove                      // a node moves from its name to one in another directory
	opWrite                     // data, and the size if it grows
	opResize                    // the size alone
	opMeta                      // mode and mtime
	opSyncData                  // of a file: data and size
	opSync                      // of a file: all but its names
	opSyncDir                   // of a directory: its names, mode and mtime
	opSyncFS                    // of everything
	opEvent                     // another fact that was durable at that moment
)

// A memOp is one recorded change or sync.
type memOp struct {
	kind       memOpKind
	node       uint64
	at         int64
	syncFailed bool // a sync of it has failed

	ino  uint64 // opMake
	typ  disk.FileType
	up   uint64
	link string

	sets []set  // opName, opMove
	into uint64 // opMove: the directory of the second of sets

	off  int64 // opWrite
	data []byte
	size int64 // opWrite, opResize

	mode  uint32 // opMake, opMeta
	mtime int64  // opMeta

	event any
}

// A set gives a name to a node, or to none.
type set struct {
	name string
	node uint64
}

func (m *Memory) record(o memOp) {
	m.room()
	m.ops = append(m.ops, o)
}

// room makes room for one more operation, by doubling the room: operations are many and large.
func (m *Memory) room() {
	if len(m.ops) == cap(m.ops) {
		m.ops = slices.Grow(m.ops, len(m.ops)+1)
	}
}

// recordSync puts consecutive syncs in one order: they may have been concurrent.
func (m *Memory) recordSync(o memOp) {
	m.room()
	at := len(m.ops)
	for at > 0 && m.ops[at-1].kind == o.kind && m.ops[at-1].node > o.node {
		at--
	}
	m.ops = slices.Insert(m.ops, at, o)
}

// Record notes a fact that became durable outside the file system, such as a ledger's record.
func (m *Memory) Record(event any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record(memOp{kind: opEvent, event: event})
}

// Ops returns the number of changes and syncs so far.
func (m *Memory) Ops() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ops)
}

// Events returns the events recorded among the first k operations.
func (m *Memory) Events(k int) (events []any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.ops[:k] {
		if m.ops[i].kind == opEvent {
			events = append(events, m.ops[i].event)
		}
	}
	return events
}

// name sets names in the present tree, and records that. Files without a name are removed.
func (m *Memory) name(dir *node, at int64, sets ...set) {
	o := memOp{kind: opName, node: dir.id, sets: sets, at: at}
	m.record(o)
	for _, s := range sets {
		key := m.fold(s.name)
		if old := dir.names[key].n; old != nil {
			old.nlink--
			old.ctime = at
			delete(dir.names, key)
			defer m.drop(old)
		}
		if n := m.t.nodes[s.node]; n != nil {
			dir.names[key] = entry{s.name, n}
			n.nlink++
			n.ctime = at
		}
	}

	dir.mtime, dir.ctime = at, at
}

// move moves a file to a name in another directory, and replaces a file with that name.
func (m *Memory) move(dir *node, from string, into *node, to string, at int64) {
	n := m.get(dir, from)
	m.record(memOp{kind: opMove, node: dir.id, into: into.id, sets: []set{{from, n.id}, {to, n.id}}, at: at})
	if old := m.get(into, to); old != nil {
		old.nlink--
		old.ctime = at
		defer m.drop(old)
	}
	delete(dir.names, m.fold(from))
	into.names[m.fold(to)] = entry{to, n}
	dir.mtime, dir.ctime, into.mtime, into.ctime, n.ctime = at, at, at, at, at
}

// change makes and records a change of one node itself.
func (m *Memory) change(o memOp) {
	m.record(o)
	m.t.apply(&o, whole, m.fold)
}

// apply makes a recorded change in a tree, as far as it survives.
func (t *tree) apply(o *memOp, how damage, fold func(string) string) {
	n := t.nodes[o.node]
	if o.kind == opMake {
		t.make(o)
		return
	}

	if n == nil || how == lost {
		return
	}

	switch o.kind {
	case opName:
		for _, s := range o.sets {
			delete(n.names, fold(s.name))
			if c := t.nodes[s.node]; c != nil {
				n.names[fold(s.name)] = entry{s.name, c}
				c.ctime = o.at
			}
		}
		n.mtime, n.ctime = o.at, o.at
	case opMove:
		c, into := t.nodes[o.sets[1].node], t.nodes[o.into]
		if c == nil || into == nil {
			return
		}
		delete(n.names, fold(o.sets[0].name))
		into.names[fold(o.sets[1].name)] = entry{o.sets[1].name, c}
		n.mtime, n.ctime, into.mtime, into.ctime, c.ctime = o.at, o.at, o.at, o.at, o.at
	case opWrite:
		how.write(n, o)
		n.mtime, n.ctime = o.at, o.at
	case opResize:
		n.resize(o.size)
		n.mtime, n.ctime = o.at, o.at
	case opMeta:
		n.mode, n.mtime, n.ctime = o.mode, o.mtime, o.at
	}
}

func (t *tree) make(o *memOp) {
	n := &node{id: o.node, ino: o.ino, typ: o.typ, mode: o.mode, mtime: o.at, ctime: o.at, link: o.link}
	if n.typ == disk.TypeDir {
		n.names, n.up = map[string]entry{}, t.nodes[o.up]
	}
	t.nodes[n.id] = n
}
