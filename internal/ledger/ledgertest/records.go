package ledgertest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

func opensCount(t *testing.T, p *Place) {
	l := p.open(t)
	inc := l.Incarnation()
	if inc == 0 || l.IncarnationText() != fmt.Sprintf("%016x", inc) || l.Generation() != 1 || l.Unclean() {
		t.Errorf("a new ledger: incarnation %x, generation %d, unclean %v", inc, l.Generation(), l.Unclean())
	}

	must(t, l.Close())
	must(t, l.Close()) // one close is enough
	l = p.open(t)
	if l.Incarnation() != inc || l.Generation() != 2 || l.Unclean() {
		t.Errorf("opened again: incarnation %x, generation %d, unclean %v", l.Incarnation(), l.Generation(), l.Unclean())
	}

	p.Crash(t)
	l = p.open(t)
	if l.Incarnation() != inc || l.Generation() != 3 || !l.Unclean() {
		t.Errorf("after a crash: incarnation %x, generation %d, unclean %v", l.Incarnation(), l.Generation(), l.Unclean())
	}
}

// crashKeeps checks that committed entries are there after a crash, and refused ones are not.
func crashKeeps(t *testing.T, p *Place) {
	for n := range 20 {
		l := p.open(t)
		must(t, l.Update(func(tx *ledger.Tx) error {
			return errors.Join(tx.PutSource(source(id(n), transfer.Accepted)), tx.Audit(func(n uint64) []byte { return []byte{byte(n)} }))
		}))
		no := errors.New("no")
		if err := l.Update(func(tx *ledger.Tx) error {
			return errors.Join(tx.PutSource(source(id(100+n), transfer.Accepted)), tx.Audit(func(uint64) []byte { return nil }), no)
		}); !errors.Is(err, no) {
			t.Errorf("refused: %v", err)
		}
		p.Crash(t)
	}

	l := p.open(t)
	var seen []transfer.ID
	must(t, l.View(func(tx *ledger.Tx) error {
		return tx.Sources(func(s *ledger.Source) error { seen = append(seen, s.Request.ID); return nil })
	}))
	if len(seen) != 20 || seen[0] != id(0) || seen[19] != id(19) || l.Outbox() != 20 {
		t.Errorf("after the crashes: %v, %d records", seen, l.Outbox())
	}

	_, recs, _, err := l.OutboxFrom(20, 1, 100)
	if err != nil || len(recs) != 1 || recs[0][0] != 20 {
		t.Errorf("the last record: %v, %v", recs, err)
	}
}

func updateAfterCloseFails(t *testing.T, p *Place) {
	l := p.open(t)
	must(t, l.Close())
	if err := l.Update(func(*ledger.Tx) error { return nil }); err == nil {
		t.Error("a closed ledger takes an update")
	}
}

// updatesShareTransactions checks that each of many concurrent callers has its own entry on disk when Update returns. A
// failing caller makes no other one fail.
func updatesShareTransactions(t *testing.T, p *Place) {
	l := p.open(t)
	no := errors.New("no")
	var wg sync.WaitGroup
	for n := range 300 {
		wg.Go(func() {
			err := l.Update(func(tx *ledger.Tx) error {
				if err := tx.PutSource(source(id(n), transfer.Accepted)); err != nil {
					return err
				}
				if err := tx.Audit(func(uint64) []byte { return []byte("x") }); err != nil {
					return err
				}
				if n%10 == 3 {
					return no
				}
				return nil
			})
			if want := n%10 == 3; want != errors.Is(err, no) || !want && err != nil {
				t.Errorf("update %d: %v", n, err)
			}
		})
	}

	wg.Wait()
	if n := l.Outbox(); n != 270 {
		t.Errorf("%d records wait, want 270", n)
	}

	must(t, l.Close())
	l = p.open(t)
	count := 0
	must(t, l.View(func(tx *ledger.Tx) error {
		return tx.Sources(func(s *ledger.Source) error { count++; return nil })
	}))
	if count != 270 || l.Outbox() != 270 {
		t.Errorf("after opening again: %d sources, %d records", count, l.Outbox())
	}
}

func recordsRoundTrip(t *testing.T, p *Place) {
	l := p.open(t)
	s := source(id(1), transfer.Running)
	s.Hash, s.Epoch, s.Nonce, s.Dest = "h", 3, 9, "bb"
	s.Resolution = &transfer.Resolution{Base: "/\xff", Into: true}
	s.Decided.Add(0)
	s.Decided.Add(7)
	in := &ledger.Incoming{Request: transfer.Request{ID: id(1)}, From: "aa", State: transfer.Receiving, Epoch: 5, Extent: ledger.Extent{Total: 8, HasTotal: true}, Temps: 256}
	pt := &ledger.Checkpoint{Point: transfer.Point{Item: 7, Source: 10}, Place: []byte("somewhere"), Name: "\xfe", Durable: true}
	must(t, l.Update(func(tx *ledger.Tx) error {
		return errors.Join(tx.PutSource(s), tx.PutIncoming(in), tx.PutItem(id(1), 7, ledger.Item{Point: pt}),
			tx.PutItem(id(1), 300, ledger.Item{}), tx.PutItem(id(2), 1, ledger.Item{}), tx.PutDir(id(1), "/d\xff", true), tx.PutDir(id(1), "/d\xff", false), tx.PutDir(id(1), "/e", false), tx.PutDir(id(1), "/e", true),
			tx.PutDelete(id(1), 4, ledger.Delete{Source: "/x", Aside: "y"}))
	}))
	must(t, l.View(func(tx *ledger.Tx) error {
		got, err := tx.Source(id(1))
		must(t, err)
		if !reflect.DeepEqual(got, s) {
			t.Errorf("source %+v became %+v", s, got)
		}
		gotIn, err := tx.Incoming(id(1))
		must(t, err)
		if !reflect.DeepEqual(gotIn, in) {
			t.Errorf("incoming %+v became %+v", in, gotIn)
		}
		it, err := tx.Item(id(1), 7)
		must(t, err)
		if it == nil || !reflect.DeepEqual(it.Point, pt) {
			t.Errorf("item %+v", it)
		}
		var seen []uint64
		must(t, tx.Items(id(1), func(n uint64, _ *ledger.Item) error { seen = append(seen, n); return nil }))
		if !reflect.DeepEqual(seen, []uint64{7, 300}) {
			t.Errorf("items %v", seen)
		}
		dirs, err := tx.Dirs(id(1))
		if ledger.MissingIn(tx, id(1), "/d\xff") != l.Generation() || ledger.MissingIn(tx, id(1), "/e") != 0 || ledger.MissingIn(tx, id(2), "/d\xff") != 0 {
			t.Error("the first note of a directory does not hold")
		}
		if err != nil || !reflect.DeepEqual(dirs, []transfer.Path{"/d\xff", "/e"}) {
			t.Errorf("directories %v, %v", dirs, err)
		}
		for _, missing := range []func() (bool, error){
			func() (bool, error) { v, err := tx.Source(id(9)); return v == nil, err },
			func() (bool, error) { v, err := tx.Incoming(id(9)); return v == nil, err },
			func() (bool, error) { v, err := tx.Item(id(1), 8); return v == nil, err },
		} {
			if ok, err := missing(); !ok || err != nil {
				t.Errorf("a missing entry: %v, %v", ok, err)
			}
		}
		return nil
	}))
	items, dels, err := l.Deletes(id(1), 10)
	if err != nil || len(items) != 1 || items[0] != 4 || dels[0].Aside != "y" {
		t.Errorf("deletions %v %v, %v", items, dels, err)
	}

	// A final entry removes the data kept for the items.
	s.State, in.State = transfer.Successful, transfer.Done
	must(t, l.Update(func(tx *ledger.Tx) error { return errors.Join(tx.PutSource(s), tx.PutIncoming(in)) }))
	must(t, l.View(func(tx *ledger.Tx) error {
		it, _ := tx.Item(id(1), 7)
		dirs, _ := tx.Dirs(id(1))
		other, _ := tx.Item(id(2), 1)
		s, _ := tx.Source(id(1))
		if it != nil || len(dirs) > 0 || other == nil || s.Request.Items != nil || s.Decided.Count() != 0 {
			t.Errorf("kept after the end: %v %v %v; another's item: %v", it, dirs, s, other)
		}
		return nil
	}))
	if items, _, _ := l.Deletes(id(1), 10); len(items) > 0 {
		t.Errorf("deletions kept after the end: %v", items)
	}
}

func deletesAreLimited(t *testing.T, p *Place) {
	l := p.open(t)
	must(t, l.Update(func(tx *ledger.Tx) error {
		for n := range uint64(10) {
			if err := tx.PutDelete(id(1), n, ledger.Delete{}); err != nil {
				return err
			}
		}
		return tx.DropDelete(id(1), 0)
	}))
	items, _, err := l.Deletes(id(1), 4)
	if err != nil || !reflect.DeepEqual(items, []uint64{1, 2, 3, 4}) {
		t.Errorf("%v, %v", items, err)
	}
}

func outbox(t *testing.T, p *Place) {
	l := p.open(t, func(o *ledger.Options) { o.OutboxLimit = 10 })
	put := func(n int) {
		t.Helper()
		for range n {
			must(t, l.Update(func(tx *ledger.Tx) error {
				return tx.Audit(func(n uint64) []byte { return fmt.Appendf(nil, "record %d", n) })
			}))
		}
	}
	put(9)
	must(t, l.OutboxFull())
	put(1)
	if err := l.OutboxFull(); transfer.KindOf(err) != transfer.KindBusy || !strings.Contains(err.Error(), "10") {
		t.Errorf("a full outbox: %v", err)
	}

	first, recs, oldest, err := l.OutboxFrom(3, 4, 1<<20)
	if err != nil || first != 3 || oldest != 1 || len(recs) != 4 || string(recs[0]) != "record 3" {
		t.Errorf("%d %q %d %v", first, recs, oldest, err)
	}

	if _, recs, _, _ := l.OutboxFrom(1, 100, 20); len(recs) != 2 {
		t.Errorf("%d records of 8 bytes in 20", len(recs))
	}

	if _, recs, _, _ := l.OutboxFrom(1, 100, 1); len(recs) != 1 {
		t.Errorf("%d records where not one fits; one must come", len(recs))
	}

	must(t, l.Receipted(6))
	must(t, l.Receipted(6))
	if first, _, oldest, _ := l.OutboxFrom(1, 1, 100); first != 7 || oldest != 7 || l.Outbox() != 4 || l.OutboxFull() != nil {
		t.Errorf("after a receipt: first %d, oldest %d, %d wait", first, oldest, l.Outbox())
	}

	must(t, l.Receipted(100))
	if first, recs, oldest, _ := l.OutboxFrom(1, 1, 100); first != 0 || oldest != 0 || len(recs) != 0 || l.Outbox() != 0 {
		t.Errorf("empty: %d %v %d, %d wait", first, recs, oldest, l.Outbox())
	}

	// Numbers go on after drops and after each opening.
	must(t, l.Close())
	l = p.open(t)
	put(1)
	if first, recs, _, _ := l.OutboxFrom(0, 1, 100); first != 11 || string(recs[0]) != "record 11" {
		t.Errorf("numbers go on with %d %q", first, recs)
	}
}

func retention(t *testing.T, p *Place) {
	l := p.open(t)
	const keep = 30 * 24 * time.Hour
	put := func(n int, state transfer.State, in transfer.Incoming) transfer.ID {
		tid := id(n)
		must(t, l.Update(func(tx *ledger.Tx) error {
			return errors.Join(tx.PutSource(source(tid, state)),
				tx.PutIncoming(&ledger.Incoming{Request: transfer.Request{ID: tid}, State: in}),
				tx.PutCommand("ann", tid, "hash", []byte(`{"v":1}`)))
		}))
		return tid
	}
	old, stays := put(1, transfer.Failed, transfer.Done), put(2, transfer.Running, transfer.Receiving)
	must(t, errors.Join(l.AddRunning(20*24*time.Hour), l.Forget(keep)))
	young := put(3, transfer.Successful, transfer.Abandoned)
	known := func(tid transfer.ID) (yes [3]bool, floor transfer.ID) {
		must(t, l.View(func(tx *ledger.Tx) error {
			s, err := tx.Source(tid)
			must(t, err)
			in, err := tx.Incoming(tid)
			must(t, err)
			hash, answer, err := tx.Command("ann", tid)
			must(t, err)
			yes, floor = [3]bool{s != nil, in != nil, hash == "hash" && string(answer) == `{"v":1}`}, tx.Floor("")
			return nil
		}))
		return yes, floor
	}
	all := [3]bool{true, true, true}
	must(t, errors.Join(l.AddRunning(10*24*time.Hour), l.Forget(keep)))
	if yes, floor := known(old); yes != all || !floor.IsZero() {
		t.Errorf("after exactly 30 days: %v, floor %v", yes, floor)
	}

	must(t, errors.Join(l.AddRunning(time.Nanosecond), l.Forget(keep)))
	if yes, floor := known(old); yes != ([3]bool{}) || floor != old {
		t.Errorf("after 30 days: %v, floor %v, want %v", yes, floor, old)
	}

	if yes, _ := known(stays); yes != [3]bool{true, true, false} {
		t.Errorf("entries that are not over: %v", yes)
	}

	if yes, _ := known(young); yes != all {
		t.Errorf("younger entries: %v", yes)
	}

	must(t, errors.Join(l.AddRunning(20*24*time.Hour), l.Forget(keep)))
	if _, floor := known(young); floor != young {
		t.Errorf("the floor is %v, want %v", floor, young)
	}

	must(t, l.Update(func(tx *ledger.Tx) error {
		if tx.Running() != 50*24*time.Hour+1 {
			t.Errorf("it has run for %v", tx.Running())
		}
		return nil
	}))
	// The floor never comes down.
	early := put(0, transfer.Failed, transfer.Done)
	must(t, errors.Join(l.AddRunning(40*24*time.Hour), l.Forget(keep)))
	if yes, floor := known(early); yes != ([3]bool{}) || floor != young {
		t.Errorf("an older one: %v, floor %v", yes, floor)
	}
}

// tombstonesAreBounded checks that the oldest tombstones of the principal with most of them are dropped, and that its
// floor rises.
func tombstonesAreBounded(t *testing.T, p *Place) {
	l := p.open(t)
	const more = 333 // added in transactions that do not end at the limit
	total := ledger.MaxTombstones + more
	for n := range 5 {
		must(t, l.Update(func(tx *ledger.Tx) error {
			return errors.Join(tx.PutTombstone(id(n), transfer.Cancelled, "bob"), tx.PutTombstone(id(n), transfer.Cancelled, ""), tx.PutSourceTombstone(id(n), "ALPHA"))
		}))
	}
	const others = 15
	for n := 0; n < total; n += 700 {
		if n == 2100 {
			must(t, l.Close())
			l = p.open(t)
		}
		must(t, l.Update(func(tx *ledger.Tx) error {
			for k := n; k < min(n+700, total); k++ {
				if err := errors.Join(tx.PutTombstone(id(k), transfer.Withdrawn, "ann"), tx.PutTombstone(id(k), transfer.Cancelled, "ann")); err != nil {
					return err
				}
			}
			return nil
		}))
		// A refused tombstone is not counted.
		no := errors.New("no")
		if err := l.Update(func(tx *ledger.Tx) error {
			return errors.Join(tx.PutTombstone(id(1<<20), transfer.Cancelled, "ann"), no)
		}); !errors.Is(err, no) {
			t.Error(err)
		}
	}

	kept := 0
	must(t, l.View(func(tx *ledger.Tx) error {
		for k := range total {
			s, err := tx.Tombstone(id(k), "ann")
			must(t, err)
			if s.As == transfer.Withdrawn {
				kept++
			} else if k >= more+others {
				t.Errorf("tombstone %d is gone, an older one should be", k)
			}
			any, err := ledger.TombstoneByAny(tx, id(k))
			must(t, err)
			if (any.As != "") != (k < 5 || k >= more+others) {
				t.Errorf("tombstone %d of any principal is %+v", k, any)
			}
		}
		for n := range 5 {
			s, err := tx.Tombstone(id(n), "bob")
			must(t, err)
			all, err := tx.Tombstone(id(n), "")
			must(t, err)
			if s.As != transfer.Cancelled || all.As != transfer.Cancelled || !tx.HasSourceTombstone(id(n), "ALPHA") {
				t.Errorf("a tombstone of others gave way to those of ann: %+v, %+v", s, all)
			}
		}
		if tx.Floor("ann") != id(more+others-1) || !tx.Floor("bob").IsZero() || !tx.Floor("").IsZero() {
			t.Errorf("the floors are %v of ann, %v of bob, %v of all", tx.Floor("ann"), tx.Floor("bob"), tx.Floor(""))
		}
		return nil
	}))
	if kept != ledger.MaxTombstones-others {
		t.Errorf("%d tombstones, at most %d", kept, ledger.MaxTombstones-others)
	}
	must(t, l.Update(func(tx *ledger.Tx) error { return tx.PutSourceTombstone(id(1<<21), "ALPHA") }))
	must(t, l.View(func(tx *ledger.Tx) error {
		own, err := tx.Tombstone(id(1<<21), "ann")
		must(t, err)
		if of := id(1 << 21); !tx.HasSourceTombstone(of, "ALPHA") || tx.HasSourceTombstone(of, "BETA") || own.As != "" || tx.HasSourceTombstone(id(total-1), "ALPHA") {
			t.Error("a tombstone holds for other sources than its own")
		}
		return nil
	}))

	// Tombstones of all principals raise the floor of all.
	for n := 0; n < ledger.MaxTombstones; n += 1000 {
		must(t, l.Update(func(tx *ledger.Tx) (err error) {
			for k := range 1000 {
				err = errors.Join(err, tx.PutTombstone(id(n+k), transfer.Cancelled, ""))
			}
			return err
		}))
	}
	must(t, l.View(func(tx *ledger.Tx) error {
		if floor := tx.Floor(""); floor.IsZero() || tx.Floor("bob") != floor {
			t.Errorf("the floor of all is %v, that of bob %v", floor, tx.Floor("bob"))
		}
		return nil
	}))
}
