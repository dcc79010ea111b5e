package ledger

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

func idOf(n int) (id transfer.ID) {
	binary.BigEndian.PutUint32(id[:], uint32(n))
	return id
}

// A principal has a floor of its own. Beyond MaxFloors the lowest becomes the floor of all: no forgotten ID becomes
// unknown.
func TestFloorsAreBounded(t *testing.T) {
	l := newLedger(t)
	who := func(n int) string { return fmt.Sprint("user", n) }
	const most = MaxFloors + 7
	if err := l.Update(func(tx *Tx) error {
		for n := most; n > 0; n-- { // the last one has the lowest
			if err := transferFloors.raisePrincipal(tx, keyOf(who(n)), idOf(n)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := l.View(func(tx *Tx) error {
		for n := 1; n <= most; n++ {
			floor := tx.Floor(who(n))
			if string(floor[:]) < string(bytesOf(n)) {
				t.Errorf("the floor of %s is %v, below %v", who(n), floor, idOf(n))
			}
		}
		if n := tx.tx.Bucket(bFloors).Count(); n > MaxFloors {
			t.Errorf("%d principals have a floor", n)
		}
		if all := tx.Floor(""); all.IsZero() || string(all[:]) > string(bytesOf(8)) {
			t.Errorf("the floor of all is %v", all)
		}
		if tx.CommandFloor("") != (transfer.ID{}) || tx.CommandFloor(who(most)) != (transfer.ID{}) {
			t.Error("the floors of commands have risen, too")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// The parts of the principal with most bytes of them are dropped, for any dates of its IDs.
func TestPartsOfOneLeaveThoseOfOthers(t *testing.T) {
	l := newLedger(t)
	put := func(principal string, n, bytes int) {
		t.Helper()
		p := transfer.Part{From: 1, Items: json.RawMessage(`["` + strings.Repeat("x", bytes) + `"]`)}
		if err := l.Update(func(tx *Tx) error { return tx.Requests().PutPart(idOf(n), principal, p) }); err != nil {
			t.Fatal(err)
		}
	}
	waits := func(principal string, n int) (yes bool) {
		t.Helper()
		if err := l.View(func(tx *Tx) error {
			yes = len(tx.tx.Bucket(bParts).Get(binary.BigEndian.AppendUint64(partsOf(idOf(n), principal), 1))) > 0
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return yes
	}
	for n := range 3 {
		put("bob", 1+n, 1<<20)
	}
	for n := range 80 {
		put("eve", 1000+n, 1<<20)
	}
	for n := range 3 {
		if !waits("bob", 1+n) {
			t.Errorf("part %d of bob gave way to those of eve", n)
		}
	}
	if waits("eve", 1000) || !waits("eve", 1079) {
		t.Error("the oldest parts of eve are not the ones that give way")
	}
	for n := range 40 {
		put("bob", 10+n, 1<<20)
	}
	if waits("bob", 1) || !waits("bob", 49) || !waits("eve", 1079) || waits("eve", 1040) {
		t.Error("a principal that has most does not give way")
	}
	if all := l.WaitingParts(); all > maxWaitingParts || all < maxWaitingParts-2<<20 {
		t.Errorf("%d bytes of parts wait", all)
	}
}

// Many small entries are dropped for a large one, in shared buckets of many sharers, and the sums equal the entries
// that are there.
func TestSharedBucketsAreCounted(t *testing.T) {
	l := newLedger(t)
	counted := func() (all int64, of map[string]int64) {
		if err := l.Update(func(tx *Tx) error {
			all, of = tx.l.counted.used[sharedTombstones].all, map[string]int64{}
			for h, n := range tx.l.counted.used[sharedTombstones].of {
				of[h] = n
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all, of
	}
	for n := 0; n < 3*MaxTombstones; n += 500 {
		if err := l.Update(func(tx *Tx) error {
			for k := range 500 {
				if err := tx.PutTombstone(idOf(n+k), transfer.Cancelled, fmt.Sprint("user", k%50)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	all, of := counted()
	there := map[string]int64{}
	if err := l.View(func(tx *Tx) error {
		return each(tx.tx.Bucket(bTombstones), nil, func(k, _ []byte) error {
			there[string(k[:1+principalSize])]++
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	if all != MaxTombstones || len(of) != 50 || fmt.Sprint(of) != fmt.Sprint(there) {
		t.Errorf("%d are counted, of %d sharers", all, len(of))
	}
	for h, n := range of {
		if n < MaxTombstones/50-1 || n > MaxTombstones/50+1 {
			t.Errorf("%x has %d", h, n)
		}
	}
}

func bytesOf(n int) []byte { id := idOf(n); return id[:] }
