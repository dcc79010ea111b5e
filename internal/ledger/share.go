package ledger

import (
	"crypto/sha256"

	"ferry/internal/transfer"
)

// A sharedBucket is a bucket that several sharers fill: principals or source agents. A key begins with its sharer. In a
// full bucket the oldest entry of the largest sharer is dropped.
type sharedBucket struct {
	bucket     []byte
	sharerSize int // number of bytes of a key that name the sharer
	limit      int64
	cost       func(k, v []byte) int64
}

const (
	sharedTombstones = iota
	sharedParts
	sharedCommands
	sharedBucketCount
)

var sharedBuckets = [sharedBucketCount]sharedBucket{
	sharedTombstones: {bTombstones, 1 + principalSize, MaxTombstones, func(_, _ []byte) int64 { return 1 }},
	sharedParts:      {bParts, principalSize, maxWaitingParts, sizeOf},
	sharedCommands:   {bCommands, principalSize, MaxCommands, sizeOf},
}

func sizeOf(k, v []byte) int64 { return int64(len(k) + len(v)) }

const principalSize = 8

// keyOf returns the part of a key that names a principal.
func keyOf(principal string) []byte {
	sum := sha256.Sum256([]byte(principal))
	return sum[:principalSize]
}

// A usage is the size of a shared bucket by sharer, or the change of it by a transaction. Every sharer in it has
// entries.
type usage struct {
	all int64
	of  map[string]int64
}

func (u *usage) add(sharer string, n int64) {
	if u.of == nil {
		u.of = map[string]int64{}
	}
	u.all += n
	if u.of[sharer] += n; u.of[sharer] == 0 {
		delete(u.of, sharer)
	}
}

func (u *usage) merge(made *usage) {
	for h, n := range made.of {
		u.add(h, n)
	}
}

// countShared reads the sizes of the sharers.
func countShared(used *[sharedBucketCount]usage, tx StoreTx) error {
	for r := range sharedBuckets {
		used[r] = usage{}
		if err := each(tx.Bucket(sharedBuckets[r].bucket), nil, func(k, v []byte) error {
			used[r].add(string(k[:sharedBuckets[r].sharerSize]), sharedBuckets[r].cost(k, v))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// putShared puts an entry into a shared bucket. It calls gone for each entry that it drops for that, before the
// deletion.
func putShared(t *Tx, r int, k, v []byte, gone func(k, v []byte) error) error {
	if err := dropShared(t, r, k); err != nil {
		return err
	}
	sharer, cost := string(k[:sharedBuckets[r].sharerSize]), sharedBuckets[r].cost(k, v)
	for t.l.counted.used[r].all+t.made.used[r].all+cost > sharedBuckets[r].limit {
		most, next := largest(t, r, sharer, cost)
		if most == "" {
			break
		}
		if err := dropOldest(t, r, most, gone, func(has int64) bool {
			if most == sharer {
				has += cost
			}
			return has >= next && t.l.counted.used[r].all+t.made.used[r].all+cost > sharedBuckets[r].limit
		}); err != nil {
			return err
		}
	}
	t.made.used[r].add(sharer, cost)
	return t.tx.Bucket(sharedBuckets[r].bucket).Put(k, v)
}

// dropShared deletes an entry of a shared bucket; a missing entry is no error.
func dropShared(t *Tx, r int, k []byte) error {
	b := t.tx.Bucket(sharedBuckets[r].bucket)
	v := b.Get(k)
	if v == nil {
		return nil
	}
	t.made.used[r].add(string(k[:sharedBuckets[r].sharerSize]), -sharedBuckets[r].cost(k, v))
	return b.Delete(k)
}

// largest returns the sharer that has most of a shared bucket, and the share of the second largest. more is the size
// that sharer is about to add. Of equal sharers it returns the first in the order of their keys.
func largest(t *Tx, r int, sharer string, more int64) (most string, next int64) {
	had, made := t.l.counted.used[r].of, t.made.used[r].of
	top := int64(0)
	look := func(h string, n int64) {
		if n == 0 {
			return // it has no entry to drop
		}
		if h == sharer {
			n += more
		}
		if n > top || n == top && h < most {
			most, top, next = h, n, top
		} else {
			next = max(next, n)
		}
	}
	for h, n := range had {
		look(h, n+made[h])
	}
	for h, n := range made {
		if had[h] == 0 {
			look(h, n)
		}
	}
	return most, next
}

// dropOldest deletes the oldest entries of a sharer, one at least, while on is true for the rest.
func dropOldest(t *Tx, r int, sharer string, gone func(k, v []byte) error, on func(has int64) bool) error {
	b := t.tx.Bucket(sharedBuckets[r].bucket)
	for {
		k, v := b.Cursor().Seek([]byte(sharer))
		if k == nil || !hasPrefix(k, []byte(sharer)) {
			return transfer.Errorf(transfer.KindInternal, "ledger: the records of %s are fewer than were counted", sharedBuckets[r].bucket)
		}
		if gone != nil {
			if err := gone(k, v); err != nil {
				return err
			}
		}
		if err := dropShared(t, r, k); err != nil {
			return err
		}
		if has := t.l.counted.used[r].of[sharer] + t.made.used[r].of[sharer]; has == 0 || !on(has) {
			return nil
		}
	}
}

// MaxFloors bounds the principals with a floor of their own. Beyond it the lowest of these floors becomes the floor of
// all principals.
const MaxFloors = 1000

// floors are the greatest IDs of a kind that the ledger has forgotten.
type floors struct {
	all string // key in meta
	own byte   // keys in floors begin with it
}

var (
	transferFloors = floors{"floor", 't'}
	commandFloors  = floors{"command_floor", 'c'}
)

// of returns the greatest forgotten ID of all principals, or of the principal with a key; a nil key: only the floor of
// all.
func (f floors) of(t *Tx, principal []byte) (id transfer.ID) {
	copy(id[:], t.tx.Bucket(bMeta).Get([]byte(f.all)))
	if principal != nil {
		if own := t.tx.Bucket(bFloors).Get(append([]byte{f.own}, principal...)); string(own) > string(id[:]) {
			copy(id[:], own)
		}
	}
	return id
}

// raise raises the floor of all principals to an ID, unless it is higher already.
func (f floors) raise(t *Tx, id transfer.ID) error {
	if floor := f.of(t, nil); string(id[:]) <= string(floor[:]) {
		return nil
	}
	return t.tx.Bucket(bMeta).Put([]byte(f.all), id[:])
}

// raisePrincipal raises the floor of a principal to an ID, unless it is higher already.
func (f floors) raisePrincipal(t *Tx, principal []byte, id transfer.ID) error {
	if floor := f.of(t, principal); string(id[:]) <= string(floor[:]) {
		return nil
	}
	b, key := t.tx.Bucket(bFloors), append([]byte{f.own}, principal...)
	if b.Get(key) == nil {
		if err := f.makeRoom(t); err != nil {
			return err
		}
		if floor := f.of(t, nil); string(id[:]) <= string(floor[:]) {
			return nil
		}
	}
	return b.Put(key, id[:])
}

// makeRoom makes room for one more floor if there are MaxFloors: the lowest becomes the floor of all principals.
func (f floors) makeRoom(t *Tx) error {
	n, lowest, b := 0, transfer.ID{}, t.tx.Bucket(bFloors)
	if err := each(b, []byte{f.own}, func(_, v []byte) error {
		if n++; n == 1 || string(v) < string(lowest[:]) {
			lowest = transfer.ID(v)
		}
		return nil
	}); err != nil || n < MaxFloors {
		return err
	}
	if err := f.raise(t, lowest); err != nil {
		return err
	}
	var covered [][]byte
	floor := f.of(t, nil)
	if err := each(b, []byte{f.own}, func(k, v []byte) error {
		if string(v) <= string(floor[:]) {
			covered = append(covered, append([]byte(nil), k...))
		}
		return nil
	}); err != nil {
		return err
	}
	for _, k := range covered {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
