package transfer

import "slices"

// MaxItemRanges bounds the ranges of an ItemRanges.
const MaxItemRanges = 1024

// ItemRanges are item numbers, as ranges in ascending order: each has its first number, and the number after its last.
type ItemRanges [][2]uint64

// Add adds an item. It drops an item that would need another range once there are MaxItemRanges.
func (r *ItemRanges) Add(item uint64) {
	all := *r
	n := all.after(item)
	left := n > 0 && all[n-1][1] >= item
	right := n < len(all) && all[n][0] == item+1
	switch {
	case left && all[n-1][1] > item: // it is there
	case left && right:
		all[n-1][1] = all[n][1]
		*r = slices.Delete(all, n, n+1)
	case left:
		all[n-1][1]++
	case right:
		all[n][0]--
	case len(all) < MaxItemRanges:
		*r = slices.Insert(all, n, [2]uint64{item, item + 1})
	}
}

// Has reports whether an item is in a range.
func (r ItemRanges) Has(item uint64) bool {
	n := r.after(item)
	return n > 0 && item < r[n-1][1]
}

// after returns the index of the first range that begins after an item.
func (r ItemRanges) after(item uint64) int {
	n, _ := slices.BinarySearchFunc(r, item, func(one [2]uint64, item uint64) int {
		if one[0] <= item {
			return -1
		}
		return 1
	})
	return n
}
