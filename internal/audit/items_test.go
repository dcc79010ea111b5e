package audit

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// itemRecords returns common and rare records of items.
func itemRecords() (all []Record) {
	usual := transfer.Outcome{Item: 7, Type: transfer.ItemFile, Path: "/in/f", Source: "/out/f", Size: 10, Digest: "xxh3:00", SrcSum: "xxh3:00"}
	failed := transfer.Outcome{Item: 8, Type: transfer.ItemBad, Path: "/in/<x>&\xff%", Err: &transfer.Error{Kind: transfer.KindExists, Text: "it exists", Hint: "remove it"}}
	odd := transfer.Outcome{Item: 9, Path: `/"items":[{"item":0,"type":"","path":""}]`, Note: "taken \u2028", Taken: transfer.TakenProved}
	for _, items := range [][]transfer.Outcome{nil, {{}}, {usual}, {usual, usual}, {usual, failed}, {odd, usual}, slices.Repeat([]transfer.Outcome{usual}, 200)} {
		r := recordOf("A1", 1, 3)
		r.Event, r.Role, r.Items = Items, RoleDestination, items
		all = append(all, r)
		r.Meta = map[string]string{"items": `"items":[{"item":0,"type":"","path":""}]`, "<": ">"}
		r.Job, r.Counts, r.State, r.Seconds, r.Text = "a<b", &transfer.Counts{Items: 1}, transfer.Successful, 1.5, `"items":[]`
		all = append(all, r)
	}
	return all
}

// Records of items are written and read like in encoding/json.
func TestItemsAsJSON(t *testing.T) {
	quick := 0
	for _, r := range itemRecords() {
		r.V = RecordVersion
		want, err := marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := marshalItems(&r)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s, want %s: %v", got, want, err)
		}
		plain, err := decodeAny(want)
		if err != nil {
			t.Fatal(err)
		}
		again, ours, err := decode(want)
		if err != nil || !reflect.DeepEqual(again, plain) {
			t.Fatalf("%s was read as %+v, want %+v: %v", want, again, plain, err)
		}
		if ours {
			quick++
		}
		spaced := bytes.Replace(want, []byte(`,"n":`), []byte(`, "n":`), 1)
		if again, ours, err := decode(spaced); err != nil || ours || !reflect.DeepEqual(again, plain) {
			t.Fatalf("%s was read as %+v, want %+v: %v (as ours: %v)", spaced, again, plain, err, ours)
		}
	}
	if quick < 6 {
		t.Errorf("only %d of the usual records were read the short way", quick)
	}
}

// ofRecords returns a batch of encoded records.
func ofRecords(t testing.TB, recs []Record) Batch {
	t.Helper()
	b := Batch{V: RecordVersion, Agent: "A1", Incarnation: FormatIncarnation(1), Floor: 3}
	for n := range recs {
		recs[n].N = uint64(n + 3)
		text, err := Encode(&recs[n])
		if err != nil {
			t.Fatal(err)
		}
		b.Add(text)
	}
	return b
}

// A batch has the same bytes as from encoding/json, and is read with the same records.
func TestBatchAsJSON(t *testing.T) {
	all := itemRecords()
	for n := range len(all) {
		b := ofRecords(t, all[:n])
		plain := b
		if plain.Records == nil {
			plain.Records = []json.RawMessage{}
		}
		want, err := marshal(&plain)
		if err != nil {
			t.Fatal(err)
		}
		text, err := EncodeBatch(&b)
		if err != nil || !bytes.Equal(text, want) {
			t.Fatalf("%s, want %s: %v", text, want, err)
		}
		got, ok := unmarshalBatch(text)
		if n > 0 && (!ok || !reflect.DeepEqual(got.Records, b.Records) || got.Floor != 3 || got.Agent != "A1") {
			t.Fatalf("%s came back as %+v, %v", text, got, ok)
		}
		if back, err := DecodeBatch(text); err != nil || len(back.Records) != n {
			t.Fatalf("%+v, %v", back, err)
		}
	}
}

// A text that marshalBatch does not write is left to encoding/json, which reports the error.
func TestBatchCutsNothingElse(t *testing.T) {
	b := ofRecords(t, itemRecords()[:3])
	text, err := EncodeBatch(&b)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]string{
		"cut off":    string(text[:len(text)-1]),
		"more":       string(text) + " ",
		"a comma":    strings.TrimSuffix(string(text), "]}") + ",]}",
		"a space":    strings.Replace(string(text), "},{", "}, {", 1),
		"a number":   strings.Replace(string(text), `"records":[`, `"records":[1,`, 1),
		"a spelling": strings.Replace(string(text), `"floor":3`, `"floor":3.0`, 1),
		"a string":   strings.Replace(string(text), `"records":[`, `"records":["`, 1),
	} {
		if _, ok := unmarshalBatch([]byte(s)); ok || s == string(text) {
			t.Errorf("%s: %.80s … is taken", name, s)
		}
	}
}

// FuzzItems: a record that the special parser reads has the same value in encoding/json.
func FuzzItems(f *testing.F) {
	for _, r := range itemRecords() {
		text, err := Encode(&r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, ok := unmarshalItems(text)
		if !ok {
			return
		}
		if plain, err := decodeAny(text); err != nil || !reflect.DeepEqual(r, plain) {
			t.Fatalf("%s was read as %+v, want %+v: %v", text, r, plain, err)
		}
		if line, err := removeSpace(text); err != nil || !bytes.Equal(line, text) {
			t.Fatalf("%s is on one line %s, %v", text, line, err)
		}
	})
}

// FuzzBatch: if the records of a batch can be read, a split batch equals the one that encoding/json reads.
func FuzzBatch(f *testing.F) {
	b := ofRecords(f, itemRecords()[:6])
	text, err := EncodeBatch(&b)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"v":1,"agent":"A1","incarnation":"0000000000000001","floor":1,"records":[{"a":"\\"}]}`))
	f.Add([]byte(`{"v":1,"agent":"A1","incarnation":"0000000000000001","floor":1,"records":[{"a":"\""},{}]}`))
	f.Add([]byte(`{"v":1,"agent":"A1","incarnation":"0000000000000001","floor":1,"records":[{]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, ok := unmarshalBatch(text)
		if !ok {
			return
		}
		for _, r := range b.Records {
			if !json.Valid(r) {
				return // it is refused when it is read
			}
		}
		var plain Batch
		if err := json.Unmarshal(text, &plain); err != nil || !reflect.DeepEqual(b, plain) {
			t.Fatalf("%s was read as %+v, want %+v: %v", text, b, plain, err)
		}
	})
}
