package faulty

import (
	"bytes"
	"errors"
	"hash/maphash"
	"sync"

	"ferry/internal/ledger"
)

var errStoreClosed = errors.New("the store is closed")

// A MemoryStore is a ledger.Store in memory. It enforces the contract strictly: data from a transaction must not be
// used after it, and an iterator that continues after a change panics.
//
// The maps are persistent trees, so a Snapshot costs nothing and is independent.
type MemoryStore struct {
	writing sync.Mutex // held by the running Update

	mu     sync.Mutex
	id     int
	tables map[string]*storeTable // never changed, only replaced
	closed bool
}

// A storeTable is a bucket after a transaction.
type storeTable struct {
	root *storeLeaf
	seq  uint64
	was  int // its size before
}

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore { return &MemoryStore{tables: map[string]*storeTable{}} }

// Snapshot returns the possible state after a crash at this moment: an open store with the data of all finished
// transactions, even if this one is closed. It excludes a running transaction.
func (m *MemoryStore) Snapshot() *MemoryStore {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &MemoryStore{id: m.id, tables: m.tables}
}

// View runs fn on the state after the last Update.
func (m *MemoryStore) View(fn func(ledger.StoreTx) error) error {
	m.mu.Lock()
	tx := &memoryTx{id: m.id, tables: m.tables}
	closed := m.closed
	m.mu.Unlock()
	if closed {
		return errStoreClosed
	}
	defer tx.end()
	return fn(tx)
}

// Update runs fn on its own version, which replaces the last one if fn returns nil.
func (m *MemoryStore) Update(fn func(ledger.StoreTx) error) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	tx := &memoryTx{id: m.id + 1, writable: true, tables: make(map[string]*storeTable, len(m.tables))}
	for name, t := range m.tables {
		tx.tables[name] = &storeTable{t.root, t.seq, t.root.count()}
	}

	closed := m.closed
	m.mu.Unlock()
	if closed {
		return errStoreClosed
	}
	defer tx.end()

	if err := fn(tx); err != nil {
		return err
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errStoreClosed
	}

	m.id, m.tables = tx.id, tx.tables
	return nil
}

// Close ends the use of the store. Snapshot opens its content again.
func (m *MemoryStore) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Size returns the number of records of all buckets.
func (m *MemoryStore) Size() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tables {
		n += t.root.count()
	}
	return n
}

type memoryTx struct {
	id       int
	writable bool
	ended    bool
	tables   map[string]*storeTable
}

func (t *memoryTx) end() { t.ended = true }

func (t *memoryTx) check() {
	if t.ended {
		panic("faulty: a transaction is used after its end")
	}
}

func (t *memoryTx) ID() int { return t.id }

func (t *memoryTx) Make(name []byte) error {
	t.check()
	if !t.writable {
		return errors.New("the transaction only reads")
	}
	if t.tables[string(name)] == nil {
		t.tables[string(name)] = &storeTable{}
	}
	return nil
}

func (t *memoryTx) Bucket(name []byte) ledger.Bucket {
	t.check()
	b := t.tables[string(name)]
	if b == nil {
		panic("faulty: there is no bucket " + string(name))
	}
	return &memoryBucket{tx: t, table: b}
}

type memoryBucket struct {
	tx    *memoryTx
	table *storeTable
}

func (b *memoryBucket) Get(key []byte) []byte {
	b.tx.check()
	if l := b.table.root.least(key, false); l != nil && bytes.Equal(l.key, key) {
		return l.value
	}
	return nil
}

func (b *memoryBucket) write(key []byte) error {
	b.tx.check()
	switch {
	case !b.tx.writable:
		return errors.New("the transaction only reads")
	case len(key) == 0:
		return errors.New("an empty key")
	}
	return nil
}

func (b *memoryBucket) Put(key, value []byte) error {
	if err := b.write(key); err != nil {
		return err
	}
	// A stored value is not nil, even if it is empty.
	b.table.root = b.table.root.put(bytes.Clone(key), append([]byte{}, value...))
	return nil
}

func (b *memoryBucket) Delete(key []byte) error {
	if err := b.write(key); err != nil {
		return err
	}
	if b.Get(key) != nil {
		b.table.root = b.table.root.drop(key)
	}
	return nil
}

func (b *memoryBucket) Count() int {
	b.tx.check()
	if b.tx.writable {
		return b.table.was
	}
	return b.table.root.count()
}

func (b *memoryBucket) Sequence() uint64 { b.tx.check(); return b.table.seq }

func (b *memoryBucket) SetSequence(n uint64) error {
	if b.tx.check(); !b.tx.writable {
		return errors.New("the transaction only reads")
	}
	b.table.seq = n
	return nil
}

func (b *memoryBucket) NextSequence() (uint64, error) {
	b.tx.check()
	if !b.tx.writable {
		return 0, errors.New("the transaction only reads")
	}
	b.table.seq++
	return b.table.seq, nil
}

func (b *memoryBucket) Cursor() ledger.Iterator { return &memoryIterator{b: b} }

type memoryIterator struct {
	b    *memoryBucket
	root *storeLeaf // the root at the time of the search
	at   []byte
}

func (i *memoryIterator) Seek(key []byte) (k, v []byte) {
	i.root = i.b.table.root
	return i.give(i.root.least(key, false))
}

func (i *memoryIterator) Next() (k, v []byte) {
	if i.root != i.b.table.root {
		panic("faulty: an iterator goes on over a change of the bucket")
	}
	if i.at == nil {
		return nil, nil
	}
	return i.give(i.root.least(i.at, true))
}

func (i *memoryIterator) give(l *storeLeaf) (k, v []byte) {
	i.b.tx.check()
	if l == nil {
		i.at = nil
		return nil, nil
	}
	i.at = l.key
	return l.key, l.value
}

// A storeLeaf is a node of a persistent treap: a search tree by key, and a heap by weight, which is a hash of the key.
// Nodes are never changed.
type storeLeaf struct {
	key, value  []byte
	weight      uint64
	size        int
	left, right *storeLeaf
}

var weights = maphash.MakeSeed()

func (l *storeLeaf) count() int {
	if l == nil {
		return 0
	}
	return l.size
}

// least returns the first node with a key that is not less than key, or that is greater.
func (l *storeLeaf) least(key []byte, greater bool) (found *storeLeaf) {
	for l != nil {
		if c := bytes.Compare(l.key, key); c > 0 || c == 0 && !greater {
			found, l = l, l.left
		} else {
			l = l.right
		}
	}
	return found
}

// with returns the node with other children.
func (l *storeLeaf) with(left, right *storeLeaf) *storeLeaf {
	return &storeLeaf{l.key, l.value, l.weight, 1 + left.count() + right.count(), left, right}
}

func (l *storeLeaf) put(key, value []byte) *storeLeaf {
	if l == nil {
		return &storeLeaf{key: key, value: value, weight: maphash.Bytes(weights, key), size: 1}
	}

	switch c := bytes.Compare(key, l.key); {
	case c == 0:
		return &storeLeaf{key, value, l.weight, l.size, l.left, l.right}
	case c < 0:
		if n := l.left.put(key, value); n.weight <= l.weight {
			return l.with(n, l.right)
		} else {
			return n.with(n.left, l.with(n.right, l.right))
		}
	default:
		if n := l.right.put(key, value); n.weight <= l.weight {
			return l.with(l.left, n)
		} else {
			return n.with(l.with(l.left, n.left), n.right)
		}
	}
}

// drop removes an existing key.
func (l *storeLeaf) drop(key []byte) *storeLeaf {
	switch c := bytes.Compare(key, l.key); {
	case c < 0:
		return l.with(l.left.drop(key), l.right)
	case c > 0:
		return l.with(l.left, l.right.drop(key))
	}
	return joined(l.left, l.right)
}

// joined returns the tree of two. All keys of the first must be less than those of the second.
func joined(a, b *storeLeaf) *storeLeaf {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.weight > b.weight:
		return a.with(a.left, joined(a.right, b))
	default:
		return b.with(joined(a, b.left), b.right)
	}
}
