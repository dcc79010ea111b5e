package walk

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// model compares two files in an order, without bytes.
var model = map[string]func(a, b *transfer.Item) int{
	transfer.OrderName: func(a, b *transfer.Item) int { return cmp.Compare(a.Name, b.Name) },
	transfer.OrderTime: func(a, b *transfer.Item) int { return cmp.Compare(a.Mtime, b.Mtime) },
	transfer.OrderSize: func(a, b *transfer.Item) int { return cmp.Compare(a.Size, b.Size) },
}

func TestSortableStandsAsItsItem(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	times := []int64{-1 << 63, -1, 0, 1, 1 << 62, 1<<63 - 1}
	for word, compare := range model {
		for _, down := range []bool{false, true} {
			order := word
			if down {
				order = "-" + word
			}
			var items []transfer.Item
			for n := range 300 {
				it := transfer.Item{Type: transfer.ItemType(r.IntN(3) + 1), Arg: n, Size: r.Int64N(3) << (20 * r.IntN(3)), Mtime: times[r.IntN(len(times))],
					Name: transfer.Path(strings.Repeat("\xff", r.IntN(2)) + fmt.Sprint(r.IntN(12)) + strings.Repeat("/", r.IntN(2)))}
				it.Source = "/in/" + it.Name
				if it.Type == transfer.ItemBad {
					it.Err = &transfer.Error{Kind: transfer.KindMissing, Text: "it is not there", Hint: "look"}
				}
				items = append(items, it)
			}
			var sorted []string
			for n := range items {
				sorted = append(sorted, sortable(order, &items[n], uint64(n)))
			}
			slices.Sort(sorted)
			rank := map[transfer.ItemType]int{transfer.ItemBad: 0, transfer.ItemFile: 1, transfer.ItemDir: 2}
			slices.SortStableFunc(items, func(a, b transfer.Item) int {
				if a.Type != b.Type || a.Type != transfer.ItemFile {
					return cmp.Compare(rank[a.Type], rank[b.Type])
				}
				c := compare(&a, &b)
				if down {
					c = -c
				}
				return cmp.Or(c, cmp.Compare(a.Name, b.Name))
			})
			for n := range sorted {
				got, err := itemIn(sorted[n])
				if err != nil || !reflect.DeepEqual(got, items[n]) {
					t.Fatalf("by %s, place %d: %+v, %v; want %+v", order, n, got, err, items[n])
				}
			}
		}
	}
}

func FuzzItemIn(f *testing.F) {
	f.Add(sortable(transfer.OrderName, &transfer.Item{Type: transfer.ItemFile, Source: "/a\xff", Name: "a\xff", Size: 7, Mtime: -1}, 3))
	f.Add("")
	f.Add("\xff\xff\xff\xff")
	f.Add("\x01{}\x00\x00\x00\x02")
	f.Fuzz(func(t *testing.T, s string) {
		it, err := itemIn(s)
		if err != nil || it.Type < transfer.ItemFile || it.Type > transfer.ItemBad {
			return
		}
		if again, err := itemIn(sortable(transfer.OrderSize, &it, 1)); err != nil || !reflect.DeepEqual(again, it) {
			t.Fatalf("%+v becomes %+v, %v", it, again, err)
		}
	})
}

// The items of a request may be read in any order: each part is read from its position in the ledger.
func TestAskedInAnyOrder(t *testing.T) {
	q := &transfer.Request{ID: transfer.ID{1}, Dest: transfer.File("d/")}
	const count = 4000
	for n := range count {
		q.Items = append(q.Items, transfer.RequestItem{Source: transfer.File(transfer.Path(fmt.Sprintf("source-%d-%s", n, strings.Repeat("x", n%90))))})
	}
	head, parts, err := q.Split()
	if err != nil || len(parts) < 3 {
		t.Fatal(len(parts), err)
	}
	l, err := ledger.Open(t.TempDir(), ledger.Options{Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Update(func(tx *ledger.Tx) error { return tx.Requests().AcceptParts(q.ID, "ann", parts) }); err != nil {
		t.Fatal(err)
	}
	a := &Reader{ledger: l, Request: head}
	r := rand.New(rand.NewPCG(3, 4))
	for k := range 600 {
		n := r.IntN(count)
		if k < 300 {
			n = k * 13 % count
		}
		if it, err := a.Item(n); err != nil || it.Source != q.Items[n].Source {
			t.Fatalf("item %d is %v, %v", n, it, err)
		}
	}
}
