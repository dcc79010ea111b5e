package transfer

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// TestItemSetAgainstMap: after any items were added in any order, the set equals a map of them.
func TestItemSetAgainstMap(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		var set ItemSet
		model := map[uint64]bool{}
		var below, end uint64
		spread := 1 + r.Uint64N(MaxUndecided)
		for range 3000 {
			item := below + r.Uint64N(spread)
			if r.IntN(4) == 0 {
				item = below // so that the mark moves
			}
			if r.IntN(20) == 0 && below > 0 {
				item = r.Uint64N(below)
			}
			if !set.Fits(item) {
				t.Fatalf("seed %d: %d does not fit over %d", seed, item, below)
			}
			if set.Add(item) == model[item] {
				t.Fatalf("seed %d: adding %d is new: %v", seed, item, model[item])
			}
			model[item], end = true, max(end, item+1)
			for model[below] {
				below++
			}
			if set.End() != end {
				t.Fatalf("seed %d: the set ends at %d, want %d", seed, set.End(), end)
			}
			if set.Below() != below || set.Count() != uint64(len(model)) {
				t.Fatalf("seed %d: below %d, want %d; %d items, want %d", seed, set.Below(), below, set.Count(), len(model))
			}
		}
		for item := range below + MaxUndecided + 100 {
			if set.Has(item) != model[item] {
				t.Fatalf("seed %d: it has %d: %v", seed, item, set.Has(item))
			}
		}
		data, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		var back ItemSet
		if err := json.Unmarshal(data, &back); err != nil || back != set {
			t.Fatalf("seed %d: %s came back as another set, %v", seed, data, err)
		}
		if len(data) > 256 {
			t.Errorf("it takes %d bytes", len(data))
		}
	}
}

func TestItemSetBounds(t *testing.T) {
	var set ItemSet
	if !set.Fits(MaxUndecided-1) || set.Fits(MaxUndecided) || set.Has(0) || set.Count() != 0 {
		t.Error("the empty set")
	}
	set.Add(MaxUndecided - 1)
	for item := range uint64(MaxUndecided - 1) {
		set.Add(item)
	}
	if set.Below() != MaxUndecided || set.Count() != MaxUndecided {
		t.Errorf("filled up: below %d", set.Below())
	}
	defer func() {
		if recover() == nil {
			t.Error("an item that does not fit is taken")
		}
	}()
	set.Add(2 * MaxUndecided)
}

func TestItemSetGolden(t *testing.T) {
	var set ItemSet
	for _, item := range []uint64{0, 1, 2, 5, 70} {
		set.Add(item)
	}
	data, err := json.Marshal(set)
	if want := `{"below":3,"bits":"AAAAAAAAAAQAAAAAAAAACA=="}`; err != nil || string(data) != want {
		t.Errorf("%s, want %s", data, want)
	}
	if data, _ := json.Marshal(ItemSet{}); string(data) != `{"below":0}` {
		t.Errorf("the empty set is %s", data)
	}
}

func FuzzItemSet(f *testing.F) {
	for _, s := range []string{`{}`, `{"below":3}`, `{"below":3,"bits":"AAAAAAAAAAQAAAAAAAAACA=="}`, `{"below":18446744073709551615,"bits":"//////////8="}`,
		`{"bits":"AAAA"}`, `{"bits":"!"}`, `null`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var set ItemSet
		if err := json.Unmarshal(data, &set); err != nil {
			return
		}
		if set.Has(set.Below()) {
			t.Fatalf("%s: the item at the mark is in the set", data)
		}
		out, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		var back ItemSet
		if err := json.Unmarshal(out, &back); err != nil || back != set {
			t.Fatalf("%s became %s, %v", data, out, err)
		}
	})
}

// A Resume ends after its last decided item and its last point.
func TestResumeEnd(t *testing.T) {
	var r Resume
	for _, c := range []struct {
		decided bool
		item    uint64
		end     uint64
	}{{true, 0, 1}, {true, 2, 3}, {false, 1, 3}, {false, 7, 8}, {true, 5, 8}, {true, 900, 901}} {
		if c.decided {
			r.Decided.Add(c.item)
		} else {
			r.Points = append(r.Points, Point{Item: c.item})
		}
		if end := r.End(); end != c.end {
			t.Errorf("with item %d it ends at %d, want %d", c.item, end, c.end)
		}
	}
	if end := (&Resume{}).End(); end != 0 {
		t.Errorf("an empty one ends at %d", end)
	}
}
