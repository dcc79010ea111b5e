package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// outcomeMessages returns common and rare forms of OUTCOMES.
func outcomeMessages() []*Message {
	id := transfer.NewID(time.UnixMilli(1_800_000_000_000))
	usual := transfer.Outcome{Item: 7, Type: transfer.ItemFile, Path: "/in/f", Source: "/out/f", Size: 10, Digest: "xxh3:00", SrcSum: "xxh3:00"}
	failed := transfer.Outcome{Item: 8, Type: transfer.ItemBad, Path: "/in/<x>&\xff%", Err: &transfer.Error{Kind: transfer.KindExists, Text: "it exists", Hint: "remove it"}}
	odd := transfer.Outcome{Item: 9, Type: transfer.ItemDir, Path: `/,"outcomes":[/"last":true}`, Note: "taken", Taken: transfer.TakenProved}
	var all []*Message
	for _, outs := range [][]transfer.Outcome{nil, {}, {usual}, {usual, usual}, {usual, failed}, {odd, usual}} {
		for _, last := range []bool{false, true} {
			all = append(all, &Message{Kind: KindOutcomes, From: "ALPHA", Transfer: id, Outcomes: &Outcomes{Batch: 1 << 40, Outcomes: outs, Last: last}})
		}
	}
	return all
}

// Text that looks like outcomes, in a place where none belong, is not read as outcomes.
func TestOutcomesInTheWrongPlace(t *testing.T) {
	m := Message{Kind: KindOutcomes, From: `A,"outcomes":[`, Transfer: transfer.NewID(time.UnixMilli(1_800_000_000_000)), Outcomes: &Outcomes{Outcomes: []transfer.Outcome{}}}
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(data); err == nil {
		t.Fatalf("%s was read as %+v", data, got)
	}
}

// An OUTCOMES message has the same bytes as from encoding/json, and decodes to the same value.
func TestOutcomesMessage(t *testing.T) {
	quick := 0
	for _, m := range outcomeMessages() {
		body, err := json.Marshal(m.Outcomes)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(envelope{V: Version, Kind: m.Kind, From: m.From, Transfer: m.Transfer, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		data, err := m.Encode()
		if err != nil || !bytes.Equal(data, want) {
			t.Fatalf("%s, want %s: %v", data, want, err)
		}
		plain, err := decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(data); err != nil || !reflect.DeepEqual(got, plain) {
			t.Fatalf("%s was read as %+v, want %+v: %v", data, got, plain, err)
		}
		if decodeOutcomes(data) != nil {
			quick++
		}
	}
	if quick < 4 {
		t.Errorf("only %d of the usual messages were read the short way", quick)
	}
	large := &Message{Kind: KindOutcomes, From: "ALPHA", Transfer: transfer.ID{1}, Outcomes: &Outcomes{Outcomes: []transfer.Outcome{{Path: transfer.Path(strings.Repeat("x", MaxControl))}}}}
	if data, err := large.Encode(); data != nil || transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// FuzzDecodeOutcomes: a message that the special decoder reads has the same value in the general decoder.
func FuzzDecodeOutcomes(f *testing.F) {
	for _, m := range outcomeMessages() {
		data, err := m.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"v":1,"kind":"outcomes","from":"A","transfer":"x","body":{"batch":1,"outcomes":[{"item":1,"type":"file","path":"a"}],"outcomes":[]}}`))
	f.Add([]byte(`,"outcomes":[{"item":1,"type":"file","path":"a"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := decodeOutcomes(data)
		if m == nil {
			return
		}
		if plain, err := decode(data); err != nil || !reflect.DeepEqual(m, plain) {
			t.Fatalf("%s was read as %+v, want %+v: %v", data, m, plain, err)
		}
	})
}
