package wire_test

import (
	"reflect"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The result of a program travels with the last outcomes only.
func TestOutcomesWithTheEndOfAProgram(t *testing.T) {
	m := &wire.Message{Kind: wire.KindOutcomes, From: "ALPHA", Transfer: sampleID, Outcomes: &wire.Outcomes{Batch: 6, Last: true, Program: sampleErr,
		Outcomes: []transfer.Outcome{{Item: 1, Type: transfer.ItemDir, Path: "b"}}}}
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.Decode(data)
	if err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%s became %+v, %v", data, got, err)
	}
	m.Outcomes.Last = false
	if data, err = m.Encode(); err != nil {
		t.Fatal(err)
	}
	if _, err := wire.Decode(data); transfer.KindOf(err) != transfer.KindMalformed {
		t.Errorf("%s is read: %v", data, err)
	}
}

// OPEN does not name the programs that the source's agent runs.
func TestOpenHasTheProgramsOfTheDestination(t *testing.T) {
	for name, change := range map[string]func(*transfer.Request){
		"a trigger":            func(q *transfer.Request) { q.Triggers = sampleRequest().Triggers },
		"a pre-source program": func(q *transfer.Request) { q.Programs.PreSource = sampleProgram("x") },
	} {
		m := samples()["open"]
		change(&m.Open.Request)
		data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.Decode(data); transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("an OPEN with %s is read: %v", name, err)
		}
	}
}
