package ledger

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"ferry/internal/transfer"
)

// Items that are committed together are kept in one entry, a group. An entry for each of 100,000 small files, written,
// replaced and dropped, would cost more than the files. Groups do not show outside: an item is in at most one entry,
// its own or a group's, and every method finds it there.
//
// The key of a group is the transfer, the number of its first item and that of its last; no two groups of a transfer
// begin with the same number. For the value see packed.
const (
	groupFrom = 4    // fewer items have entries of their own
	groupMost = 256  // items in one entry
	groupSpan = 4096 // the numbers of the first and the last item differ by less
)

func groupKey(id transfer.ID, first, last uint64) []byte {
	return binary.BigEndian.AppendUint64(itemKey(id, first), last)
}

// groupRange reads the numbers of a group's key.
func groupRange(k []byte) (first, last uint64) {
	if len(k) != 32 {
		return 0, 0
	}
	return itemOf(k), binary.BigEndian.Uint64(k[24:])
}

// entries are the entries of a transfer's items in a transaction.
type entries struct {
	id     transfer.ID
	own    Bucket // entries of one item
	groups Bucket
}

func (t *Tx) entries(id transfer.ID) entries {
	return entries{id, t.tx.Bucket(bItems), t.tx.Bucket(bGroups)}
}

// PutIntents records items as committing, in place of their earlier entries. No number may come twice.
func (t *Tx) PutIntents(id transfer.ID, ins []transfer.Intent) error {
	return t.entries(id).putGroups(packedIntents, ins, func(in *transfer.Intent) Item { return Item{Intent: in} })
}

// PutOutcomes records the outcomes of items, in place of their earlier entries. No number may come twice.
func (t *Tx) PutOutcomes(id transfer.ID, outs []transfer.Outcome) error {
	ins := make([]transfer.Intent, len(outs))
	for n := range outs {
		ins[n].Outcome = outs[n]
	}
	return t.entries(id).putGroups(packedOutcomes, ins, func(in *transfer.Intent) Item { return Item{Outcome: &in.Outcome} })
}

func (e entries) putGroups(what byte, ins []transfer.Intent, alone func(*transfer.Intent) Item) error {
	byItem := func(a, b transfer.Intent) int { return cmp.Compare(a.Outcome.Item, b.Outcome.Item) }
	if !slices.IsSortedFunc(ins, byItem) {
		ins = slices.Clone(ins)
		slices.SortFunc(ins, byItem)
	}

	for len(ins) > 0 {
		n := 1
		for n < len(ins) && n < groupMost && ins[n].Outcome.Item-ins[0].Outcome.Item < groupSpan {
			n++
		}
		part := ins[:n]
		ins = ins[n:]
		if n < groupFrom {
			for k := range part {
				if err := e.put(part[k].Outcome.Item, alone(&part[k])); err != nil {
					return err
				}
			}
			continue
		}
		if err := e.putGroup(what, part); err != nil {
			return err
		}
	}
	return nil
}

func (e entries) putGroup(what byte, part []transfer.Intent) error {
	items := make([]uint64, len(part))
	for n := range part {
		items[n] = part[n].Outcome.Item
	}
	if err := e.drop(items); err != nil {
		return err
	}
	value, err := pack(what, part)
	if err != nil {
		return err
	}
	return e.groups.Put(groupKey(e.id, items[0], items[len(items)-1]), value)
}

// DropItems drops the entries of items; an item without an entry is no error.
func (t *Tx) DropItems(id transfer.ID, items []uint64) error { return t.entries(id).drop(items) }

// drop is DropItems.
func (e entries) drop(items []uint64) error {
	if len(items) == 0 {
		return nil
	}

	if !slices.IsSorted(items) {
		items = slices.Clone(items)
		slices.Sort(items)
	}
	if err := e.leaveGroups(items); err != nil {
		return err
	}

	var gone [][]byte
	c := e.own.Cursor()
	for k, _ := c.Seek(itemKey(e.id, items[0])); k != nil && hasPrefix(k, e.id[:]) && itemOf(k) <= items[len(items)-1]; k, _ = c.Next() {
		if _, is := slices.BinarySearch(items, itemOf(k)); is {
			gone = append(gone, slices.Clone(k))
		}
	}

	for _, k := range gone {
		if err := e.own.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// A groupRecord is a group with its key and value.
type groupRecord struct {
	key, value []byte
	items      []uint64
}

// groupsWith returns the groups that have one of these items, which must be sorted.
func (e entries) groupsWith(items []uint64) (with []groupRecord, err error) {
	from, to := items[0], items[len(items)-1]
	c := e.groups.Cursor()
	for k, v := c.Seek(groupKey(e.id, from-min(from, groupSpan), 0)); k != nil && hasPrefix(k, e.id[:]); k, v = c.Next() {
		first, last := groupRange(k)
		if first > to {
			break
		}
		if last < from {
			continue
		}
		g := groupRecord{key: k, value: v}
		if g.items, err = packedItems(v); err != nil {
			return nil, damagedGroup(k, err)
		}
		if slices.ContainsFunc(g.items, func(n uint64) bool { _, is := slices.BinarySearch(items, n); return is }) {
			g.key = slices.Clone(k)
			with = append(with, g)
		}
	}
	return with, nil
}

func damagedGroup(key []byte, err error) error {
	return transfer.Errorf(transfer.KindInternal, "ledger: group record %x is damaged: %w", key, err)
}

// leaveGroups removes items, which must be sorted, from their groups.
func (e entries) leaveGroups(items []uint64) error {
	groups, err := e.groupsWith(items)
	if err != nil {
		return err
	}

	stay := make([][]transfer.Intent, len(groups))
	what := make([]byte, len(groups))
	for n, g := range groups { // before any change: values are not valid after it
		if !slices.ContainsFunc(g.items, func(k uint64) bool { _, is := slices.BinarySearch(items, k); return !is }) {
			continue
		}
		var all []transfer.Intent
		if what[n], all, err = unpack(g.value); err != nil {
			return damagedGroup(g.key, err)
		}
		stay[n] = slices.DeleteFunc(all, func(in transfer.Intent) bool { _, is := slices.BinarySearch(items, in.Outcome.Item); return is })
	}

	for n, g := range groups {
		if err := e.groups.Delete(g.key); err != nil {
			return err
		}
		if rest := stay[n]; len(rest) > 0 {
			value, err := pack(what[n], rest)
			if err == nil {
				err = e.groups.Put(groupKey(e.id, rest[0].Outcome.Item, rest[len(rest)-1].Outcome.Item), value)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// A numbered is an item with its number.
type numbered struct {
	n  uint64
	it *Item
}

// unpackItems reads a group's value.
func unpackItems(key, value []byte) ([]numbered, error) {
	what, ins, err := unpack(value)
	if err == nil && len(key) != 32 {
		err = fmt.Errorf("its key has %d bytes", len(key))
	}
	if err != nil {
		return nil, damagedGroup(key, err)
	}

	all := make([]numbered, len(ins))
	for n := range ins {
		it := &Item{V: recordVersion, Intent: &ins[n]}
		if what == packedOutcomes {
			it.Intent, it.Outcome = nil, &ins[n].Outcome
		}
		all[n] = numbered{ins[n].Outcome.Item, it}
	}
	return all, nil
}

// groupItem returns an item from its group; nil if it is in none.
func (e entries) groupItem(item uint64) (*Item, error) {
	groups, err := e.groupsWith([]uint64{item})
	if err != nil || len(groups) == 0 {
		return nil, err
	}

	all, err := unpackItems(groups[0].key, groups[0].value)
	if err != nil {
		return nil, err
	}

	for _, k := range all {
		if k.n == item {
			return k.it, nil
		}
	}
	return nil, nil
}

// grouped returns all items of a transfer that are in groups, in order.
func (e entries) grouped() (all []numbered, err error) {
	err = each(e.groups, e.id[:], func(k, v []byte) error {
		some, err := unpackItems(k, v)
		all = append(all, some...)
		return err
	})
	slices.SortFunc(all, func(a, b numbered) int { return cmp.Compare(a.n, b.n) })
	return all, err
}
