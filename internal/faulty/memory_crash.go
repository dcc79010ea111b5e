package faulty

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"ferry/internal/place/local/disk"
)

// A damage is the effect of a crash on one unsynced change.
type damage uint64

// The damages of a change. A torn write has a mask of the surviving units: the bits above these are the seed of a
// generator.
const (
	lost       damage = iota // the change is gone
	whole                    // the change is complete
	zeroReader               // of a write: the size is there; the data is the earlier one, or zeros
	torn512                  // of a write: some sectors are there
	torn4k                   // of a write: some blocks are there
)

const damageShift = 3

func (f damage) kind() damage { return f & (1<<damageShift - 1) }

func (f damage) String() string {
	switch f.kind() {
	case lost:
		return "lost"
	case whole:
		return "there"
	case zeroReader:
		return "hollow"
	case torn512:
		return fmt.Sprintf("torn at 512 (%d)", f>>damageShift)
	}
	return fmt.Sprintf("torn at 4096 (%d)", f>>damageShift)
}

// write writes the surviving part of a write into a file.
func (f damage) write(n *node, o *memOp) {
	if f.kind() == whole {
		n.write(o.data, o.off)
		return
	}

	if f.kind() == zeroReader {
		if o.size > int64(len(n.data)) {
			n.resize(o.size)
		}
		return
	}

	unit := int64(512)
	if f.kind() == torn4k {
		unit = 4096
	}

	r := rand.New(rand.NewPCG(uint64(f>>damageShift), 5))
	if r.IntN(2) == 0 && o.size > int64(len(n.data)) {
		n.resize(o.size) // the size is there in any case
	}

	cut, tail := r.Int64N(int64(len(o.data))/unit+1), r.IntN(3)
	for at, k := int64(0), int64(0); at < int64(len(o.data)); k++ {
		end := min((o.off+at)/unit*unit+unit-o.off, int64(len(o.data)))
		keep := k < cut // keep the beginning, the end, or random units
		switch tail {
		case 1:
			keep = !keep
		case 2:
			keep = r.IntN(2) == 0
		}
		if keep {
			n.write(o.data[at:end], o.off+at)
		}
		at = end
	}
}

// damages returns the possible damages of a change for an exhaustive search.
func (o *memOp) damages() []damage {
	switch {
	case o.kind != opWrite:
		return []damage{lost, whole}
	case len(o.data) <= 512:
		return []damage{lost, whole, zeroReader}
	}
	return []damage{lost, whole, zeroReader, torn512 | 1<<damageShift, torn4k | 2<<damageShift}
}

// A Loss has the effect of a crash on each unsynced change, in order.
type Loss []damage

// pending returns the changes among the first k that a crash may undo.
func (m *Memory) pending(k int) (at []int) {
	data, all, dirs, everything := map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}, false
	for i := k - 1; i >= 0; i-- {
		o := &m.ops[i]
		safe := true
		switch o.kind {
		case opSyncData:
			data[o.node] = true
		case opSync:
			data[o.node], all[o.node] = true, true
		case opSyncDir:
			dirs[o.node], all[o.node] = true, true
		case opSyncFS:
			everything = true
		case opName:
			safe = everything || dirs[o.node]
		case opMove:
			safe = everything || dirs[o.node] && dirs[o.into]
		case opWrite, opResize:
			safe = (everything || data[o.node]) && !o.syncFailed
		case opMeta:
			safe = everything || all[o.node]
		}
		if !safe {
			at = append(at, i)
		}
	}

	slices.Reverse(at)
	return at
}

// pendingData returns the unsynced writes to one file.
func (m *Memory) pendingData(node uint64) []int {
	return slices.DeleteFunc(m.pending(len(m.ops)), func(i int) bool {
		return m.ops[i].node != node || m.ops[i].kind != opWrite && m.ops[i].kind != opResize
	})
}

// Losses returns all possible losses of a crash after the first k operations, with writes torn in two ways. It returns
// nil if there are more than limit.
func (m *Memory) Losses(k, limit int) (all []Loss) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pending := m.pending(k)
	n := 1
	for _, i := range pending {
		if n *= len(m.ops[i].damages()); n > limit {
			return nil
		}
	}

	all = []Loss{{}}
	for _, i := range pending {
		var next []Loss
		for _, l := range all {
			for _, f := range m.ops[i].damages() {
				next = append(next, append(l[:len(l):len(l)], f))
			}
		}
		all = next
	}
	return all
}

// Sample chooses a loss of a crash after the first k operations: all that can be lost, nothing, or each change by
// itself.
func (m *Memory) Sample(k int, r *rand.Rand) Loss {
	m.mu.Lock()
	defer m.mu.Unlock()
	pending := m.pending(k)
	l := make(Loss, len(pending))
	odds := []float64{0, 0.1, 0.5, 0.9, 1}[r.IntN(5)]
	for n, i := range pending {
		switch f := m.ops[i].damages(); {
		case r.Float64() >= odds:
			l[n] = whole
		case len(f) > 3:
			l[n] = f[r.IntN(len(f))]
			if l[n] > zeroReader {
				l[n] = l[n].kind() | damage(r.Uint32())<<damageShift
			}
		default:
			l[n] = f[r.IntN(len(f))]
		}
	}
	return l
}

// Killed returns the file system after the first k operations as another process finds it: the process ended and the
// system did not. Unsynced changes may still be lost later. Further operations follow the first k.
func (m *Memory) Killed(k int) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.after(k, nil, m.opt.Dev)
	c.base, c.ops = m.base.clone(), slices.Clone(m.ops[:k])
	return c
}

// Crashed returns the file system after a crash of the system following the first k operations, with that loss. The
// device may have another number then.
func (m *Memory) Crashed(k int, l Loss, dev uint64) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	fate := map[int]damage{}
	for n, i := range m.pending(k) {
		fate[i] = l[n]
	}
	if m.opt.Ordered {
		m.order(k, fate)
	}
	return m.after(k, fate, dev)
}

// order keeps the mode and times of a file with a later name.
func (m *Memory) order(k int, fate map[int]damage) {
	named := map[uint64]bool{}
	for i := k - 1; i >= 0; i-- {
		o := &m.ops[i]
		if how, lossy := fate[i]; (o.kind == opName || o.kind == opMove) && (!lossy || how == whole) {
			for _, s := range o.sets {
				named[s.node] = true
			}
		} else if lossy && o.kind == opMeta && named[o.node] {
			fate[i] = whole
		}
	}
}

// after builds the state. A change without a damage is complete.
func (m *Memory) after(k int, fate map[int]damage, dev uint64) *Memory {
	c := &Memory{opt: m.opt, t: m.base.clone(), now: m.now + 1_000_000_000, nextID: m.nextID, nextNo: 3}
	c.opt.Dev = dev
	for i := range m.ops[:k] {
		how, ok := fate[i]
		if !ok {
			how = whole
		}
		c.t.apply(&m.ops[i], how, c.fold)
	}
	c.rebuild()
	c.base = c.t.clone()
	return c
}

// rebuild makes a tree consistent as a check of the file system does: nodes without a name are removed, links and
// blocks are counted.
func (m *Memory) rebuild() {
	for _, n := range m.t.nodes {
		n.nlink, n.opens = 0, 0
	}

	m.t.root.nlink = 1
	byNo := map[uint64]*node{}
	m.reach(m.t.root, byNo)
	for id, n := range m.t.nodes {
		if n.nlink == 0 {
			delete(m.t.nodes, id)
			continue
		}
		m.nextNo = max(m.nextNo, n.ino+1)
		n.blocks = map[int64]bool{}
		for b := range (int64(len(n.data)) + blockSize - 1) / blockSize {
			n.blocks[b] = true
		}
		m.used += int64(len(n.blocks))
	}

	for no := uint64(3); no < m.nextNo; no++ {
		if byNo[no] == nil {
			m.free = append(m.free, no)
		}
	}
}

// reach counts the names beneath a directory. A reused inode number belongs to the later file, so the names of the
// earlier one are removed.
func (m *Memory) reach(d *node, byNo map[uint64]*node) {
	for _, name := range d.sorted() {
		n := m.get(d, name)
		if n == nil {
			continue // forgotten since
		}
		if other := byNo[n.ino]; other != nil && other != n {
			if other.id > n.id {
				delete(d.names, m.fold(name))
				continue
			}
			other.nlink = 0
			m.forget(m.t.root, other)
		}
		byNo[n.ino] = n
		n.nlink++
		if n.typ == disk.TypeDir {
			n.up = d
			m.reach(n, byNo)
		}
	}
}

// forget removes every name of a node.
func (m *Memory) forget(d *node, n *node) {
	for key, e := range d.names {
		switch {
		case e.n == n:
			delete(d.names, key)
		case e.n.typ == disk.TypeDir:
			m.forget(e.n, n)
		}
	}
}

// Describe describes the first k operations, and the effect of a loss on them.
func (m *Memory) Describe(k int, l Loss) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	fate := map[int]damage{}
	if l != nil {
		for n, i := range m.pending(k) {
			fate[i] = l[n]
		}
	}

	var b strings.Builder
	for i := range m.ops[:k] {
		fmt.Fprintf(&b, "%3d %s", i, m.ops[i].String())
		if f, ok := fate[i]; ok {
			fmt.Fprintf(&b, ": %s", f)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (o *memOp) String() string {
	switch o.kind {
	case opMake:
		return fmt.Sprintf("make %d (inode %d)", o.node, o.ino)
	case opName:
		var s []string
		for _, set := range o.sets {
			s = append(s, fmt.Sprintf("%s=%d", path.Base(set.name), set.node))
		}
		return fmt.Sprintf("name in %d %s", o.node, strings.Join(s, " "))
	case opMove:
		return fmt.Sprintf("move %s from %d to %s in %d", path.Base(o.sets[0].name), o.node, path.Base(o.sets[1].name), o.into)
	case opWrite:
		return fmt.Sprintf("write %d, %d bytes at %d", o.node, len(o.data), o.off)
	case opResize:
		return fmt.Sprintf("resize %d to %d", o.node, o.size)
	case opMeta:
		return fmt.Sprintf("meta of %d", o.node)
	case opSyncData:
		return fmt.Sprintf("syncdata %d", o.node)
	case opSync:
		return fmt.Sprintf("sync %d", o.node)
	case opSyncDir:
		return fmt.Sprintf("syncdir %d", o.node)
	case opSyncFS:
		return "sync of everything"
	}
	return fmt.Sprintf("event %v", o.event)
}

// Pending returns the number of the first k operations that a crash may undo: the length of a Loss.
func (m *Memory) Pending(k int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending(k))
}
