package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// full sets every field of a type to a value, so that no field is forgotten.
func full(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for n := range v.NumField() {
			full(r, v.Field(n))
		}
	case reflect.Pointer:
		if r.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			full(r, v.Elem())
		}
	case reflect.String:
		v.SetString([]string{"", "a", "/dir/file-17", "/dir/file-18", "xxh3:0011", strings.Repeat("long/", 30)}[r.IntN(6)])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, 1 << 62, -1 << 63, int64(r.Uint64())}[r.IntN(6)])
	case reflect.Uint8:
		v.SetUint(r.Uint64N(256))
	case reflect.Uint32:
		v.SetUint(uint64(r.Uint32()))
	case reflect.Uint64:
		v.SetUint([]uint64{0, 1, 1<<64 - 1, r.Uint64()}[r.IntN(4)])
	case reflect.Slice: // of bytes
		v.SetBytes([][]byte{nil, []byte("{}"), []byte("\x00\xff a line\n")}[r.IntN(3)])
	case reflect.Interface: // an error's cause, which is not kept
	default:
		panic(v.Kind().String() + " is new; see what packed makes of it")
	}
}

// sampleIntents returns n intents, or outcomes in them, with numbers that ascend.
func sampleIntents(r *rand.Rand, what byte, n int) []transfer.Intent {
	ins := make([]transfer.Intent, n)
	item := r.Uint64N(5)
	for k := range ins {
		if what == packedIntents {
			full(r, reflect.ValueOf(&ins[k]).Elem())
			ins[k].FileID = nil // which is not a part of the record
		} else {
			full(r, reflect.ValueOf(&ins[k].Outcome).Elem())
		}
		ins[k].Outcome.Item, ins[k].Outcome.Type = item, transfer.ItemType(1+r.IntN(3))
		item += 1 + r.Uint64N(3)
	}
	return ins
}

// Packed items unpack as the same, with any fields set.
func TestPackedRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		what := byte(packedIntents + r.IntN(2))
		ins := sampleIntents(r, what, 1+r.IntN(20))
		b, err := pack(what, ins)
		if err != nil {
			t.Fatal(err)
		}
		got, again, err := unpack(b)
		if err != nil || got != what || !reflect.DeepEqual(again, ins) {
			t.Fatalf("%v became %+v, %v", ins, again, err)
		}
		if items, err := packedItems(b); err != nil || len(items) != len(ins) || items[len(items)-1] != ins[len(ins)-1].Outcome.Item {
			t.Fatalf("%v, %v", items, err)
		}
	}
}

// small returns the intents of n small files.
func small(n int) []transfer.Intent {
	ins := make([]transfer.Intent, n)
	for k := range ins {
		sum := fmt.Sprintf("xxh3:%032x", uint64(k)*0x9e3779b97f4a7c15)
		o := transfer.Outcome{Item: uint64(k), Type: transfer.ItemFile, Path: transfer.Path(fmt.Sprintf("/srv/inbox/day/f%06d.dat", k)),
			Source: transfer.Path(fmt.Sprintf("/data/out/day/f%06d.dat", k)), Size: 10 << 10, Digest: sum, SrcSum: sum}
		ins[k] = transfer.Intent{Outcome: o, Place: []byte(strings.Repeat("x", 150))}
	}
	return ins
}

// FuzzPacked unpacks any bytes. The result is items that can be written and read as the same, or an error.
func FuzzPacked(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 6 {
		what := byte(packedIntents + n%2)
		b, err := pack(what, sampleIntents(r, what, 1+n))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{})
	f.Add([]byte{3, 1, 0})
	f.Add([]byte("\x03\x02\x01\x00[{}]"))
	f.Add([]byte("\x03\x01\x01\x00[{}]\x02a"))
	f.Add([]byte{3, 2, 2, 5, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		what, ins, err := unpack(b)
		items, ierr := packedItems(b)
		if err != nil {
			return
		}
		if ierr != nil || len(items) != len(ins) {
			t.Fatalf("%d items, and their numbers are %v, %v", len(ins), items, ierr)
		}
		out, err := pack(what, ins)
		if err != nil {
			t.Fatal(err)
		}
		if _, again, err := unpack(out); err != nil || !reflect.DeepEqual(ins, again) {
			t.Fatalf("%+v became %+v, %v", ins, again, err)
		}
	})
}

// A shadow is the expected items of some transfers.
type shadow map[transfer.ID]map[uint64]Item

func (s shadow) check(t *testing.T, tx *Tx, r *rand.Rand) {
	t.Helper()
	for id, want := range s {
		got := map[uint64]Item{}
		last := -1
		if err := tx.Items(id, func(n uint64, it *Item) error {
			if int(n) <= last {
				t.Fatalf("item %d comes after item %d", n, last)
			}
			last = int(n)
			got[n] = *it
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("it has items %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		n := r.Uint64N(60)
		it, err := tx.Item(id, n)
		if w, has := want[n]; err != nil || has != (it != nil) || has && !reflect.DeepEqual(*it, w) {
			t.Fatalf("item %d is %+v, want %+v: %v", n, it, w, err)
		}
	}
}

// Groups do not show in the items: after any puts and drops, alone and together, an item is the one that was put last.
func TestGroupsAreInvisible(t *testing.T) {
	l := newLedger(t)
	r := rand.New(rand.NewPCG(5, 6))
	ids := []transfer.ID{journalID, {9: 1}}
	want := shadow{ids[0]: {}, ids[1]: {}}
	some := func() (items []uint64) {
		from, odds := r.Uint64N(40), 1+r.IntN(4)
		for n := from; n < from+r.Uint64N(20)+1; n++ {
			if r.IntN(odds) == 0 {
				items = append(items, n)
			}
		}
		r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		return items
	}
	for step := range 600 {
		id, items := ids[r.IntN(2)], some()
		err := l.Update(func(tx *Tx) error {
			switch k := r.IntN(6); k {
			case 0, 1:
				var ins []transfer.Intent
				var outs []transfer.Outcome
				for _, n := range items {
					in := transfer.Intent{Place: []byte(fmt.Sprint(step)), Outcome: transfer.Outcome{Item: n, Size: int64(step)}}
					ins, outs = append(ins, in), append(outs, in.Outcome)
					if want[id][n] = (Item{V: 1, Intent: &in}); k == 1 {
						want[id][n] = Item{V: 1, Outcome: &in.Outcome}
					}
				}
				if k == 1 {
					return tx.PutOutcomes(id, outs)
				}
				return tx.PutIntents(id, ins)
			case 2:
				n := r.Uint64N(60)
				pt := &Checkpoint{Name: transfer.Path(fmt.Sprint(step))}
				want[id][n] = Item{V: 1, Point: pt}
				return tx.PutItem(id, n, Item{Point: pt})
			case 3:
				n := r.Uint64N(60)
				delete(want[id], n)
				return tx.DropItem(id, n)
			case 4:
				for _, n := range items {
					delete(want[id], n)
				}
				return tx.DropItems(id, items)
			}
			want.check(t, tx, r) // in the transaction, too
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.View(func(tx *Tx) error { want.check(t, tx, r); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Update(func(tx *Tx) error {
		return tx.PutIncoming(&Incoming{Request: transfer.Request{ID: ids[0]}, State: transfer.Done})
	}); err != nil {
		t.Fatal(err)
	}
	want[ids[0]] = map[uint64]Item{}
	if err := l.View(func(tx *Tx) error { want.check(t, tx, r); return nil }); err != nil {
		t.Fatal(err)
	}
}

// Items far apart, and very many items, are in groups of their own.
func TestGroupsAreBounded(t *testing.T) {
	l := newLedger(t)
	var outs []transfer.Outcome
	for n := range uint64(1000) {
		outs = append(outs, transfer.Outcome{Item: n}, transfer.Outcome{Item: 1<<40 + n*groupSpan/2})
	}
	if err := l.Update(func(tx *Tx) error { return tx.PutOutcomes(journalID, outs) }); err != nil {
		t.Fatal(err)
	}
	groups, seen := 0, 0
	if err := l.View(func(tx *Tx) error {
		if err := tx.Items(journalID, func(uint64, *Item) error { seen++; return nil }); err != nil {
			return err
		}
		return each(tx.tx.Bucket(bGroups), nil, func(k, v []byte) error {
			first, last := groupRange(k)
			items, err := packedItems(v)
			if groups++; err != nil || last-first >= groupSpan || len(items) > groupMost || len(items) < groupFrom || items[0] != first || items[len(items)-1] != last {
				t.Errorf("a group from %d to %d has %d items: %v", first, last, len(items), err)
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	if seen != 2000 || groups != 4 {
		t.Errorf("%d items, %d groups", seen, groups)
	}
}

// A ledger of another format is refused, and stays as it is.
func TestOtherFormatsAreRefused(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Update(func(tx *Tx) error { return putU64(tx.tx.Bucket(bMeta), "version", formatVersion-1) }); err != nil {
		t.Fatal(err)
	}
	l.Close()
	for range 2 {
		if l, err := Open(dir, Options{Reserve: -1}); transfer.KindOf(err) != transfer.KindVersion {
			t.Errorf("a ledger of format %d is opened: %v, %v", formatVersion-1, l, err)
		}
	}
}

// A damaged group is named, never skipped.
func TestDamagedGroupIsNamed(t *testing.T) {
	l := newLedger(t)
	key := groupKey(journalID, 3, 9)
	if err := l.Update(func(tx *Tx) error { return tx.tx.Bucket(bGroups).Put(key, []byte{7}) }); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(*Tx) error{
		"Items": func(tx *Tx) error { return tx.Items(journalID, func(uint64, *Item) error { return nil }) },
		"Item":  func(tx *Tx) error { _, err := tx.Item(journalID, 5); return err },
		"Drop":  func(tx *Tx) error { return tx.DropItem(journalID, 5) },
	} {
		if err := l.Update(do); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%x", key)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkPack(b *testing.B) {
	ins := small(256)
	b.Run("packed", func(b *testing.B) {
		for b.Loop() {
			pack(packedIntents, ins)
		}
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			for n := range ins {
				json.Marshal(Item{V: 1, Intent: &ins[n]})
			}
		}
	})
}
