package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ferry/internal/transfer"
)

func markOf(n uint64) *transfer.FileID {
	return &transfer.FileID{Volume: 1 + n%2, Number: n / 2, Stamp: uint32(n * 7)}
}

// Every other item finds a file ID until the transfer ends, and only while no other file has its number.
func TestFileIDs(t *testing.T) {
	l, err := Open(t.TempDir(), Options{Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	update := func(do func(tx *Tx) error) {
		t.Helper()
		if err := l.Update(do); err != nil {
			t.Fatal(err)
		}
	}
	now := time.UnixMilli(1_800_000_000_000)
	id, other := transfer.NewID(now), transfer.NewID(now.Add(time.Millisecond))
	has := func(of transfer.ID, item uint64, m *transfer.FileID) (dir transfer.Path) {
		if err := l.View(func(tx *Tx) (err error) {
			dir, err = FindFileID(tx, of, item, *m)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return dir
	}

	const files = 3000
	order := rand.New(rand.NewPCG(1, 1)).Perm(files)
	for len(order) > 0 {
		var ins []transfer.Intent
		for _, n := range order[:100] {
			item := uint64(n)
			ins = append(ins, transfer.Intent{FileID: markOf(item), Outcome: transfer.Outcome{Item: item, Path: transfer.Path(fmt.Sprintf("/d%d/f%d", n%3, n))}})
		}
		ins = append(ins, transfer.Intent{Outcome: transfer.Outcome{Item: files}}) // without a mark
		order = order[100:]
		update(func(tx *Tx) error { return PutFileIDs(tx, id, ins) })
	}
	for n := range uint64(files) {
		if dir := has(id, files+1, markOf(n)); dir != transfer.Path(fmt.Sprintf("/d%d", n%3)) {
			t.Fatalf("mark %d is that of %q", n, dir)
		}
		if has(id, n, markOf(n)) != "" || has(other, files+1, markOf(n)) != "" || has(id, files+1, markOf(n+files)) != "" {
			t.Fatalf("mark %d is found by its own item, or in another transfer, or without having been put", n)
		}
	}

	again := *markOf(5)
	again.Stamp++
	update(func(tx *Tx) error {
		return PutFileIDs(tx, id, []transfer.Intent{{FileID: &again, Outcome: transfer.Outcome{Item: 9, Path: "/e/f"}}})
	})
	if has(id, 1, markOf(5)) != "" || has(id, 1, &again) != "/e" {
		t.Error("a number has the mark of a file that is gone")
	}

	update(func(tx *Tx) error {
		return tx.PutIncoming(&Incoming{Request: transfer.Request{ID: id}, State: transfer.Done})
	})
	update(func(tx *Tx) error {
		return each(tx.tx.Bucket(bFileIDs), nil, func(k, _ []byte) error {
			t.Errorf("%x is left of a transfer that is over", k)
			return nil
		})
	})
}

// FuzzFileIDs reads any bytes as a record of file IDs. The result is written again as the same record, or is an error.
func FuzzFileIDs(f *testing.F) {
	f.Add(packFileIDs([]fileIDEntry{{1, 2, 3, "/a"}, {2, 3, 4, "/a"}, {3, 4, 1 << 60, "/b"}}))
	f.Add([]byte{fileIDVersion})
	f.Add([]byte{fileIDVersion, 1, 2, 3, 4, 5, 6, 200})
	f.Add([]byte{9})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := unpackFileIDs(b)
		if err != nil {
			return
		}
		again, err := unpackFileIDs(packFileIDs(all))
		if err != nil || len(again) != len(all) {
			t.Fatalf("%v became %v, %v", all, again, err)
		}
		for n := range all {
			if all[n] != again[n] {
				t.Fatalf("%v became %v", all[n], again[n])
			}
		}
	})
}
