package ledger

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"ferry/internal/transfer"
)

// FuzzJournalFile opens a journal with any file contents. The result is a list or an error. A second opening gives the
// same list, and a walk that goes on from it is read as it was written.
func FuzzJournalFile(f *testing.F) {
	var whole []byte
	for n, it := range journalItems()[:4] {
		whole = encodeItem(whole, journalID, uint64(n), it)
	}
	end := appendRecord(nil, journalID, 4, append([]byte{journalEnd}, make([]byte, 16)...))
	head := journalHead()
	for _, b := range [][]byte{nil, head, head[:7], make([]byte, 12), append(bytes.Clone(head), whole...), append(append(bytes.Clone(head), whole...), end...),
		append(append(bytes.Clone(head), whole[:30]...), make([]byte, 600)...), []byte("FERRYITM\x00\x00\x00\x09")} {
		f.Add(b)
	}
	dir := f.TempDir()
	l, err := Open(dir, Options{Reserve: -1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { l.Close() })
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(l.journalPath(journalID), b, 0o600); err != nil {
			t.Fatal(err)
		}
		shown, terr := l.JournalTotals(journalID)
		j, err := l.Journal(journalID)
		if err != nil {
			if terr == nil {
				t.Fatalf("it has totals, and cannot be opened: %v", err)
			}
			return
		}
		items, over := readAll(t, j)
		if tot := j.Totals(); tot != shown || tot.Items != int64(len(items)) || tot.Ended != over {
			t.Fatalf("totals %+v, before %+v, of %d items, over %v", tot, shown, len(items), over)
		}
		if !over {
			more := journalItems()[3]
			if err := j.Append(more); err != nil {
				t.Fatal(err)
			}
			if err := j.End(Tally{Links: 1}); err != nil {
				t.Fatal(err)
			}
			items = append(items, more)
		}
		j.Close()
		if j, err = l.Journal(journalID); err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if again, over := readAll(t, j); !over || !reflect.DeepEqual(again, items) {
			t.Fatalf("%+v became %+v, over %v", items, again, over)
		}
	})
}

// FuzzRecords reads an entry with any contents. The result is an entry that can be written and read as the same, or an
// error that names the entry.
func FuzzRecords(f *testing.F) {
	id := journalID
	for n, v := range []any{
		&Source{Request: transfer.Request{ID: id, Items: transfer.ItemsOf("a\xff")}, State: transfer.Running, Hash: "h", Resolution: &transfer.Resolution{Base: "/"}},
		&Incoming{Request: transfer.Request{ID: id}, State: transfer.Receiving, Epoch: 3},
		Item{Point: &Checkpoint{Point: transfer.Point{Item: 1, Prefix: []transfer.Segment{{End: 3, Sum: "x"}}}}},
		Item{Outcome: &transfer.Outcome{Err: &transfer.Error{Kind: transfer.KindMissing, Text: "t"}}},
		Delete{Source: "/x", Aside: "y"},
		command{V: 1, Hash: "h", Answer: json.RawMessage(`{}`)},
	} {
		b, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(n, b)
	}
	f.Add(0, []byte("null"))
	f.Add(1, []byte(`{"decided":{"below":18446744073709551615}}`))
	f.Add(2, []byte(`{"v":`))
	kinds := []func() any{func() any { return new(Source) }, func() any { return new(Incoming) }, func() any { return new(Item) },
		func() any { return new(Delete) }, func() any { return new(command) }}
	f.Fuzz(func(t *testing.T, kind int, b []byte) {
		fresh := kinds[uint(kind)%uint(len(kinds))]
		v := fresh()
		if found, err := getJSON(oneValue(b), "record", id[:], v); !found || err != nil {
			if err == nil && b != nil {
				t.Fatalf("%q is neither there nor an error", b)
			}
			return
		}
		out, err := json.Marshal(v)
		if err != nil {
			return // a message within a message may be anything
		}
		again := fresh()
		if err := json.Unmarshal(out, again); err != nil {
			t.Fatalf("%s cannot be read again: %v", out, err)
		}
		if third, err := json.Marshal(again); err != nil || !bytes.Equal(out, third) {
			t.Fatalf("%s became %s, %v", out, third, err)
		}
		if in, ok := v.(*Incoming); ok {
			in.Deadline()
		}
	})
}

// oneValue is a bucket that has one value under every key.
type oneValue []byte

func (v oneValue) Get([]byte) []byte                 { return v }
func (oneValue) Put(_, _ []byte) error               { return nil }
func (oneValue) Delete([]byte) error                 { return nil }
func (oneValue) Cursor() Iterator                    { return nil }
func (oneValue) Count() int                          { return 1 }
func (oneValue) Sequence() uint64                    { return 0 }
func (oneValue) NextSequence() (n uint64, err error) { return 0, nil }
func (oneValue) SetSequence(uint64) error            { return nil }
