package ledgertest

import (
	"fmt"
	"reflect"
	"testing"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// walkItems returns the items of a walk: files, directories and missing files.
func walkItems(n int) (items []transfer.Item) {
	for k := range n {
		it := transfer.Item{Type: transfer.ItemFile, Arg: k, Source: transfer.Path(fmt.Sprintf("/in/%05d\xff", k)),
			Name: transfer.Path(fmt.Sprintf("%05d\xff", k)), Size: int64(k)}
		switch k % 10 {
		case 3:
			it.Type, it.Size = transfer.ItemDir, 0
		case 7:
			it.Err = &transfer.Error{Kind: transfer.KindMissing, Text: "it is gone"}
			it.Type = transfer.ItemBad
		}
		items = append(items, it)
	}
	return items
}

// journal opens an item journal, with repeats on a flaky place.
func (p *Place) journal(t testing.TB, l *ledger.Ledger, id transfer.ID) *ledger.Journal {
	t.Helper()
	var j *ledger.Journal
	p.patiently(t, func() (err error) {
		j, err = l.Journal(id)
		return err
	})
	t.Cleanup(func() { j.Close() })
	return j
}

// patiently repeats a call that may fail on a flaky place; elsewhere the call must not fail.
func (p *Place) patiently(t testing.TB, call func() error) {
	t.Helper()
	err := call()
	for n := 0; err != nil && p.Flaky && n < 100; n++ {
		err = call()
	}
	must(t, err)
}

// walk resumes from the last item of the journal, as a sender does: argument n is the first item that is due. It syncs
// now and then, and ends the list.
func (p *Place) walk(t testing.TB, j *ledger.Journal, items []transfer.Item, end bool) {
	t.Helper()
	p.patiently(t, func() error {
		from := 0
		if last := j.Last(); last != nil {
			from = last.Arg + 1
		}
		for n := from; n < len(items); n++ {
			if err := j.Append(items[n]); err != nil {
				return err
			}
			if n%7 == 6 {
				if err := j.Sync(); err != nil {
					return err
				}
			}
		}
		if end {
			return j.End(ledger.Tally{Links: 3})
		}
		return j.Sync()
	})
}

// offered reads all items that a journal offers now.
func (p *Place) offered(t testing.TB, j *ledger.Journal) (items []transfer.Item, over bool) {
	t.Helper()
	p.patiently(t, func() error {
		items = nil
		c := j.Cursor(0)
		for {
			n, it, more, wait, err := c.Next()
			if err != nil {
				return err
			}
			if !more {
				over = wait == nil
				return nil
			}
			if n != uint64(len(items)) || c.Count() != n+1 {
				t.Fatalf("item %d is numbered %d, and %d are counted", len(items), n, c.Count())
			}
			items = append(items, it)
		}
	})
	return items, over
}

func journalRoundTrip(t *testing.T, p *Place) {
	for k, end := range []bool{false, true} {
		l := p.open(t)
		want := walkItems(40)
		j := p.journal(t, l, id(k))
		if last := j.Last(); last != nil || j.Totals() != (ledger.Totals{}) {
			t.Errorf("a new journal: %v, %+v", last, j.Totals())
		}
		p.walk(t, j, want, end)
		for range 3 {
			items, over := p.offered(t, j)
			if !reflect.DeepEqual(items, want) || over != end {
				t.Errorf("items %+v, over %v", items, over)
			}
			tot := ledger.Totals{Items: 40, Files: 36, Ended: end}
			for _, it := range want {
				tot.Bytes += it.Size
			}
			if end {
				tot.Links = 3
			}
			if got := j.Totals(); got != tot {
				t.Errorf("totals %+v, want %+v", got, tot)
			}
			p.patiently(t, func() error {
				got, err := l.JournalTotals(id(k))
				if err == nil && got != tot {
					t.Errorf("totals on disk %+v, want %+v", got, tot)
				}
				return err
			})
			if last := j.Last(); last == nil || !reflect.DeepEqual(*last, want[39]) {
				t.Errorf("the last is %v", last)
			}
			if j.CheckDamage(40) != nil || j.CheckDamage(41) == nil {
				t.Error("40 items, and it is not damaged where 40 are decided, but where 41 are")
			}
			j.Close()
			must(t, l.Close())
			l = p.open(t)
			j = p.journal(t, l, id(k))
		}
		must(t, l.Close())
	}
}

func journalOffersOnlyWhatIsSynced(t *testing.T, p *Place) {
	j := p.journal(t, p.open(t), id(1))
	c := j.Cursor(0)
	_, _, more, wait, err := c.Next()
	if more || wait == nil || err != nil {
		t.Fatalf("an empty journal: %v %v", more, err)
	}

	it := transfer.Item{Type: transfer.ItemFile, Source: "s", Name: "n"}
	p.patiently(t, func() error {
		for range 20_000 { // several buffers are written, not synced
			if err := j.Append(it); err != nil {
				return err
			}
		}
		return nil
	})
	if _, _, more, _, _ := c.Next(); more || j.Totals().Items != 0 {
		t.Error("unsynced items are offered")
	}

	select {
	case <-wait:
		t.Error("the reader is woken for nothing")
	default:
	}
	if err := j.Sync(); err != nil {
		if !p.Flaky {
			t.Fatal(err)
		}
		if last := j.Last(); last != nil {
			t.Error("a sync has failed, and its items are not taken back")
		}
		return
	}

	<-wait
	if items, _ := p.offered(t, j); len(items) != 20_000 {
		t.Errorf("%d items after the sync", len(items))
	}
}

// journalGoesOn checks that no offered item is lost or renumbered after a crash, and that the walk goes on to its end.
func journalGoesOn(t *testing.T, p *Place) {
	want := walkItems(60)
	for k, synced := range []int{0, 1, 7, 30, 59} {
		l := p.open(t)
		j := p.journal(t, l, id(k))
		p.walk(t, j, want[:synced], false)
		for n := synced; n < synced+(60-synced)/2; n++ {
			if err := j.Append(want[n]); err != nil { // not synced: it may be there, or not
				break
			}
		}
		p.Crash(t)
		l = p.open(t)
		j = p.journal(t, l, id(k))
		if items, over := p.offered(t, j); len(items) < synced || over || len(items) > 0 && !reflect.DeepEqual(items, want[:len(items)]) {
			t.Errorf("%d items were synced; after the crash there are %d, over %v", synced, len(items), over)
		}
		p.walk(t, j, want, true)
		p.Crash(t)
		l = p.open(t)
		j = p.journal(t, l, id(k))
		if items, over := p.offered(t, j); !reflect.DeepEqual(items, want) || !over {
			t.Errorf("the walk has ended with %d items, over %v", len(items), over)
		}
		must(t, l.Close())
	}
}

// orphans checks that only the journals of known and unfinished transfers stay.
func orphans(t *testing.T, p *Place) {
	l := p.open(t)
	for n, state := range []transfer.State{transfer.Running, transfer.Successful, transfer.Parked} {
		must(t, l.Update(func(tx *ledger.Tx) error { return tx.PutSource(source(id(n), state)) }))
	}

	for n := range 4 {
		p.walk(t, p.journal(t, l, id(n)), walkItems(5), false)
	}

	left := func(want ...int64) {
		t.Helper()
		for n := range 4 {
			p.patiently(t, func() error {
				tot, err := l.JournalTotals(id(n))
				if err == nil && tot.Items != want[n] {
					t.Errorf("journal %d has %d items, want %d", n, tot.Items, want[n])
				}
				return err
			})
		}
	}
	p.patiently(t, l.DropOrphans)
	left(5, 0, 5, 0)
	for range 2 {
		p.patiently(t, func() error { return l.DropJournal(id(0)) })
	}

	left(0, 0, 5, 0)
}
