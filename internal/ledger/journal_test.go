package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"ferry/internal/transfer"
)

var journalID = transfer.ID{0: 1, 6: 0x70, 8: 0x80, 15: 9}

func newLedger(t testing.TB) *Ledger {
	t.Helper()
	l, err := Open(t.TempDir(), Options{Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func openJournal(t testing.TB, l *Ledger) *Journal {
	t.Helper()
	j, err := l.Journal(journalID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// journalItems returns items with every field that an item can have.
func journalItems() []transfer.Item {
	all := []transfer.Item{
		{Type: transfer.ItemFile, Source: "/in/a", Name: "a", Size: 1 << 40},
		{Type: transfer.ItemFile, Source: "/in/\xff\n%", Name: "\xff\n%", Size: 0},
		{Type: transfer.ItemDir, Source: "/in", Name: "in"},
		{Type: transfer.ItemBad, Source: "/gone", Name: "gone", Err: &transfer.Error{Kind: transfer.KindMissing, Text: "it is gone"}},
		{Type: transfer.ItemFile, Source: transfer.Path(strings.Repeat("s", transfer.MaxPath)), Name: transfer.Path(strings.Repeat("n", transfer.MaxPath)), Size: 5},
	}
	for n := range all {
		all[n].Arg = n
	}
	return all
}

func fill(t testing.TB, j *Journal, end bool) {
	t.Helper()
	for _, it := range journalItems() {
		if err := j.Append(it); err != nil {
			t.Fatal(err)
		}
	}
	err := j.Sync()
	if end {
		err = j.End(Tally{Links: 3, LeftOut: 4})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readAll reads all items that a journal offers now.
func readAll(t testing.TB, j *Journal) (items []transfer.Item, over bool) {
	t.Helper()
	c := j.Cursor(0)
	for {
		n, it, more, wait, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			if c.Count() != uint64(len(items)) {
				t.Fatalf("the cursor counts %d of %d", c.Count(), len(items))
			}
			return items, wait == nil
		}
		if n != uint64(len(items)) {
			t.Fatalf("item %d is numbered %d", len(items), n)
		}
		items = append(items, it)
	}
}

func TestJournalRoundTrip(t *testing.T) {
	for _, end := range []bool{false, true} {
		l := newLedger(t)
		j := openJournal(t, l)
		if last := j.Last(); last != nil || j.Totals() != (Totals{}) {
			t.Errorf("a new journal: %v, %+v", last, j.Totals())
		}
		fill(t, j, end)
		for range 2 {
			items, over := readAll(t, j)
			if !reflect.DeepEqual(items, journalItems()) || over != end {
				t.Errorf("items %+v, over %v", items, over)
			}
			want := Totals{Items: 5, Files: 4, Bytes: 1<<40 + 5, Ended: end}
			if end {
				want.Tally = Tally{Links: 3, LeftOut: 4}
			}
			if got := j.Totals(); got != want {
				t.Errorf("totals %+v, want %+v", got, want)
			}
			if last := j.Last(); last == nil || !reflect.DeepEqual(*last, journalItems()[4]) {
				t.Errorf("the last is %v", last)
			}
			if err := j.CheckDamage(5); err != nil {
				t.Error(err)
			}
			if err := j.CheckDamage(6); err == nil || !strings.Contains(err.Error(), "5 items, and 6") {
				t.Errorf("more decided than there are: %v", err)
			}
			j.Close()
			j = openJournal(t, l)
		}
	}
}

func TestJournalOffersOnlyWhatIsSynced(t *testing.T) {
	j := openJournal(t, newLedger(t))
	c := j.Cursor(0)
	_, _, more, wait, err := c.Next()
	if more || wait == nil || err != nil {
		t.Fatalf("an empty journal: %v %v", more, err)
	}
	it := transfer.Item{Type: transfer.ItemFile, Source: "s", Name: "n"}
	for range 20_000 { // several buffers are written, not synced
		if err := j.Append(it); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, more, _, _ := c.Next(); more || j.Totals().Items != 0 {
		t.Error("unsynced items are offered")
	}
	select {
	case <-wait:
		t.Error("the reader is woken for nothing")
	default:
	}
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	<-wait
	if items, _ := readAll(t, j); len(items) != 20_000 {
		t.Errorf("%d items after the sync", len(items))
	}
	if err := j.Sync(); err != nil { // no new items
		t.Fatal(err)
	}
}

// A journal that is begun anew has none of its earlier items, durable or not.
func TestJournalRestart(t *testing.T) {
	l := newLedger(t)
	it := func(n int) transfer.Item {
		return transfer.Item{Type: transfer.ItemFile, Source: transfer.Path(fmt.Sprint("/", n)), Name: transfer.Path(fmt.Sprint(n)), Size: 1}
	}
	j := openJournal(t, l)
	for n := range 3 * indexEvery {
		if err := j.Append(it(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(j.Sync(), j.Append(it(7)), j.Restart(), j.Append(it(8)), j.Restart()); err != nil || j.Totals() != (Totals{}) || j.Last() != nil {
		t.Fatal(j.Totals(), j.Last(), err)
	}
	if err := errors.Join(j.Append(it(5)), j.Append(it(4)), j.Sync()); err != nil {
		t.Fatal(err)
	}
	j.Close()
	j = openJournal(t, l)
	defer j.Close()
	if items, over := readAll(t, j); !reflect.DeepEqual(items, []transfer.Item{it(5), it(4)}) || over {
		t.Fatal(items, over)
	}
	if err := errors.Join(j.Restart(), j.Append(it(1)), j.End(Tally{})); err != nil {
		t.Fatal(err)
	}
	if items, over := readAll(t, j); !reflect.DeepEqual(items, []transfer.Item{it(1)}) || !over {
		t.Fatal(items, over)
	}
}

// TestJournalReadWhileWritten checks that cursors follow the walk to its end.
func TestJournalReadWhileWritten(t *testing.T) {
	j := openJournal(t, newLedger(t))
	const total = 5000
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			c := j.Cursor(0)
			for n := 0; ; {
				_, it, more, wait, err := c.Next()
				switch {
				case err != nil:
					t.Error(err)
					return
				case more && it.Name != transfer.Path(fmt.Sprint(n)):
					t.Errorf("item %d is %s", n, it.Name)
					return
				case more:
					n++
				case wait == nil:
					if n != total {
						t.Errorf("it ended after %d", n)
					}
					return
				default:
					<-wait
				}
			}
		})
	}
	for n := range total {
		if err := j.Append(transfer.Item{Type: transfer.ItemFile, Source: "s", Name: transfer.Path(fmt.Sprint(n))}); err != nil {
			t.Fatal(err)
		}
		if n%97 == 0 {
			if err := j.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := j.End(Tally{}); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}

// TestJournalTornAnywhere tears a journal at every byte. The items before the tear are there, no item behind it is, and
// the walk can go on.
func TestJournalTornAnywhere(t *testing.T) {
	l := newLedger(t)
	j := openJournal(t, l)
	for n := range 3 {
		if err := j.Append(journalItems()[n]); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.End(Tally{0x0102030405060708, 0x1112131415161718}); err != nil {
		t.Fatal(err)
	}
	j.Close()
	whole, err := os.ReadFile(l.journalPath(journalID))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) + 1 {
		for _, tail := range [][]byte{nil, make([]byte, 50), bytes.Repeat([]byte{0xff}, 50)} {
			if n == len(whole) && tail != nil {
				continue
			}
			if err := os.WriteFile(l.journalPath(journalID), append(bytes.Clone(whole[:n]), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			j, err := l.Journal(journalID)
			if n < 12 && len(tail) > 0 {
				if err == nil {
					j.Close() // zeros in place of the header, or an error: both are allowed
				}
				continue
			}
			if err != nil {
				t.Fatalf("cut at %d of %d: %v", n, len(whole), err)
			}
			before, over := readAll(t, j)
			if !reflect.DeepEqual(before, journalItems()[:len(before)]) && len(before) > 0 {
				t.Fatalf("cut at %d: %+v", n, before)
			}
			if over != (n == len(whole)) {
				t.Fatalf("cut at %d: over %v", n, over)
			}
			if !over {
				if err := errors.Join(j.Append(journalItems()[3]), j.End(Tally{Links: 1})); err != nil {
					t.Fatal(err)
				}
				after, over := readAll(t, j)
				if want := append(before, journalItems()[3]); !reflect.DeepEqual(after, want) || !over {
					t.Fatalf("cut at %d, gone on with: %+v, over %v", n, after, over)
				}
			}
			j.Close()
		}
	}
}

// TestJournalDamaged damages a record. A damaged record hides the records behind it, and the count of decided items
// reveals that.
func TestJournalDamaged(t *testing.T) {
	l := newLedger(t)
	j := openJournal(t, l)
	fill(t, j, true)
	j.Close()
	whole, err := os.ReadFile(l.journalPath(journalID))
	if err != nil {
		t.Fatal(err)
	}
	for at := 12; at < 100; at++ {
		b := bytes.Clone(whole)
		b[at] ^= 0x40
		if err := os.WriteFile(l.journalPath(journalID), b, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := l.Journal(journalID)
		if err != nil {
			continue // the open may also find it
		}
		if err := j.CheckDamage(5); err == nil {
			t.Errorf("damage at byte %d is not found", at)
		}
		j.Close()
	}
}

func TestJournalOfAnotherFormat(t *testing.T) {
	l := newLedger(t)
	for _, head := range []string{"NOFERRY!\x00\x00\x00\x01", "FERRYITM\x00\x00\x00\x09"} {
		if err := os.WriteFile(l.journalPath(journalID), []byte(head+"more"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Journal(journalID); transfer.KindOf(err) != transfer.KindVersion {
			t.Errorf("%q: %v", head, err)
		}
	}
}

func TestDropJournal(t *testing.T) {
	l := newLedger(t)
	j := openJournal(t, l)
	fill(t, j, false)
	j.Close()
	for range 2 {
		if err := l.DropJournal(journalID); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(l.Dir(), "items")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestFormatIsChecked checks that a ledger of another format is refused, with both format numbers in the error.
func TestFormatIsChecked(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Update(func(tx *Tx) error { return putU64(tx.tx.Bucket(bMeta), "version", 9) }); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := Open(dir, Options{Reserve: -1}); transfer.KindOf(err) != transfer.KindVersion || !strings.Contains(err.Error(), "format 9") {
		t.Errorf("%v", err)
	}
}

// TestDamagedRecordIsNamed checks that a damaged record is an error that names it, and is never skipped.
func TestDamagedRecordIsNamed(t *testing.T) {
	l := newLedger(t)
	if err := l.Update(func(tx *Tx) error { return tx.tx.Bucket(bSource).Put(journalID[:], []byte("{")) }); err != nil {
		t.Fatal(err)
	}
	err := l.View(func(tx *Tx) error { return tx.Sources(func(*Source) error { return nil }) })
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%x", journalID[:])) {
		t.Errorf("%v", err)
	}
}

// TestGroupOutlivesItsCulprits drives commit itself, so that the group is certain: one transaction, several callers,
// and some of them fail.
func TestGroupOutlivesItsCulprits(t *testing.T) {
	l := newLedger(t)
	no := errors.New("no")
	var group []*op
	for n := range 50 {
		group = append(group, &op{done: make(chan error, 1), fn: func(tx *Tx) error {
			if err := putU64(tx.tx.Bucket(bMeta), fmt.Sprint("n", n), uint64(n+1)); err != nil {
				return err
			}
			if err := tx.Audit(func(uint64) []byte { return []byte{1} }); err != nil {
				return err
			}
			if n%7 == 0 {
				return no
			}
			return nil
		}})
	}
	l.writer.commit(group)
	for n, o := range group {
		if err := <-o.done; (n%7 == 0) != errors.Is(err, no) {
			t.Errorf("caller %d hears %v", n, err)
		}
	}
	if err := l.View(func(tx *Tx) error {
		for n := range group {
			if there := getU64(tx.tx.Bucket(bMeta), fmt.Sprint("n", n)) != 0; there == (n%7 == 0) {
				t.Errorf("the write of caller %d is there: %v", n, there)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if l.Outbox() != 42 {
		t.Errorf("%d records are counted, want 42", l.Outbox())
	}
}

// FuzzDecodeItem decodes any bytes. An accepted item encodes to the same bytes, and no input panics.
func FuzzDecodeItem(f *testing.F) {
	for _, it := range journalItems() {
		f.Add(encodeItem(nil, journalID, 0, it)[8:])
	}
	f.Add(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{journalEnd}, 4), 5))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		it, end, tally, err := decodeItem(body, false)
		if err != nil {
			return
		}
		if end {
			if want := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{journalEnd}, uint64(tally.Links)), uint64(tally.LeftOut)); !bytes.Equal(want, body) {
				t.Fatalf("END %x", body)
			}
			return
		}
		if it.Err != nil && len(it.Err.Text) > 1000 {
			return // it is cut when written
		}
		again, _, _, err := decodeItem(encodeItem(nil, journalID, 0, it)[8:], false)
		if err != nil || !reflect.DeepEqual(again, it) {
			t.Fatalf("%+v became %+v, %v", it, again, err)
		}
	})
}

// FuzzReadRecord reads any bytes. No length or checksum makes it return bytes that are not in the input.
func FuzzReadRecord(f *testing.F) {
	f.Add(appendRecord(nil, journalID, 0, []byte("body")))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		body, err := (&records{id: journalID, r: bytes.NewReader(b)}).next()
		if err == nil && !bytes.HasPrefix(b, appendRecord(nil, journalID, 0, body)) {
			t.Fatalf("%x read as %x", b, body)
		}
	})
}

// A reading can begin with any item, also after a reopening and after a walk that was taken back.
func TestJournalReadFromTheMiddle(t *testing.T) {
	l := newLedger(t)
	j := openJournal(t, l)
	name := func(n int) transfer.Path { return transfer.Path(fmt.Sprintf("%d", n)) }
	count := 0
	grow := func(to int) {
		t.Helper()
		for ; count < to; count++ {
			if err := j.Append(transfer.Item{Type: transfer.ItemFile, Source: "/" + name(count), Name: name(count), Size: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	look := func() {
		t.Helper()
		for _, from := range []int{0, 1, indexEvery - 1, indexEvery, indexEvery + 1, count - 1, count, count + 1, count + 5*indexEvery} {
			items, err := j.Items(uint64(from), 3)
			if err != nil || len(items) != max(0, min(3, count-from)) {
				t.Fatalf("from %d of %d: %d items, %v", from, count, len(items), err)
			}
			for k, it := range items {
				if it.Name != name(from+k) || it.Source != "/"+name(from+k) {
					t.Errorf("item %d is %+v", from+k, it)
				}
			}
			again, err := l.JournalItems(journalID, uint64(from), 3)
			if err != nil || !reflect.DeepEqual(again, items) {
				t.Errorf("from %d beside the journal: %+v, %v; want %+v", from, again, err, items)
			}
		}
		if last := j.Last(); last == nil || last.Name != name(count-1) {
			t.Errorf("the last one is %+v, want %d", last, count-1)
		}
	}
	grow(10)
	look()
	grow(3 * indexEvery)
	look()
	if err := j.Append(transfer.Item{Type: transfer.ItemFile, Source: "/lost", Name: "lost"}); err != nil {
		t.Fatal(err)
	}
	j.takeBack()
	grow(5*indexEvery + 7)
	look()
	if got := j.Totals(); got.Items != int64(count) || got.Bytes != int64(count) {
		t.Errorf("the totals are %+v", got)
	}
	c := j.Cursor(uint64(count))
	if _, _, more, wait, err := c.Next(); more || wait == nil || err != nil {
		t.Errorf("behind the end: %v %v", more, err)
	}
	grow(count + 1)
	if n, it, more, _, err := c.Next(); n != uint64(count-1) || it.Name != name(count-1) || !more || err != nil {
		t.Errorf("the next item is %d, %+v, %v, %v", n, it, more, err)
	}
	j.Close()
	j = openJournal(t, l)
	look()
}

// A record in the wrong place ends the list: a record with another number, or of another transfer's journal.
func TestJournalRecordsOutOfPlace(t *testing.T) {
	l := newLedger(t)
	records := func(id transfer.ID) (all [][]byte) {
		for n, it := range journalItems()[:3] {
			all = append(all, encodeItem(nil, id, uint64(n), it))
		}
		return all
	}
	own, other := records(journalID), records(transfer.ID{0: 2, 6: 0x70, 8: 0x80})
	for name, c := range map[string]struct {
		records [][]byte
		items   uint64
	}{
		"in place":           {own, 3},
		"two swapped":        {[][]byte{own[0], own[2], own[1]}, 1},
		"one left out":       {[][]byte{own[0], own[2]}, 1},
		"one twice":          {[][]byte{own[0], own[0], own[1]}, 1},
		"another transfer's": {[][]byte{own[0], own[1], other[2]}, 2},
	} {
		if err := os.WriteFile(l.journalPath(journalID), append(journalHead(), bytes.Join(c.records, nil)...), 0o600); err != nil {
			t.Fatal(err)
		}
		items, err := l.JournalItems(journalID, 0, 10)
		if err != nil || uint64(len(items)) != c.items {
			t.Errorf("%s: %d items, %v", name, len(items), err)
		}
		j := openJournal(t, l)
		if err := j.CheckDamage(c.items); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := j.CheckDamage(c.items + 1); transfer.KindOf(err) != transfer.KindLost {
			t.Errorf("%s, with one more item offered: %v", name, err)
		}
		if items, over := readAll(t, j); uint64(len(items)) != c.items || over {
			t.Errorf("%s: opened, it has %d items, over %v", name, len(items), over)
		}
	}
}
