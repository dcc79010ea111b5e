package transfer

import (
	"math/rand/v2"
	"testing"
)

// Items in any order are in the ranges, and no others are.
func TestItemRanges(t *testing.T) {
	const most = 500
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all ItemRanges
		want := map[uint64]bool{}
		for range r.IntN(2 * most) {
			item := r.Uint64N(most)
			want[item] = true
			all.Add(item)
		}
		for item := range uint64(most + 1) {
			if all.Has(item) != want[item] {
				t.Fatalf("seed %d: item %d is there: %v, in %v", seed, item, !want[item], all)
			}
		}
		for n := 1; n < len(all); n++ {
			if all[n-1][1] >= all[n][0] {
				t.Fatalf("seed %d: the ranges are %v", seed, all)
			}
		}
	}
}

// Items beyond the bound are not there.
func TestItemRangesAreBounded(t *testing.T) {
	var all ItemRanges
	for n := range uint64(2 * MaxItemRanges) {
		all.Add(2 * n)
	}
	all.Add(1)
	if len(all) != MaxItemRanges-1 || !all.Has(2) || all.Has(3) || all.Has(2*MaxItemRanges) {
		t.Errorf("there are %d ranges", len(all))
	}
}
