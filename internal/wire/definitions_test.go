package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Coordination takes definitions that it can show, and readers that it can check.
func TestKeepIsChecked(t *testing.T) {
	large := `"` + strings.Repeat("<", wire.MaxDefinition/6) + `"` // each of them takes six bytes in a message
	for what, c := range map[string]struct {
		change func(k *wire.Keep, d *wire.Definition)
		taken  bool
	}{
		"plain":                      {func(*wire.Keep, *wire.Definition) {}, true},
		"all readers":                {func(_ *wire.Keep, d *wire.Definition) { d.Readers = transfer.Authorities() }, true},
		"every member":               {func(_ *wire.Keep, d *wire.Definition) { d.Readers = []transfer.Authority{transfer.AuthNone} }, false},
		"an unknown reader":          {func(_ *wire.Keep, d *wire.Definition) { d.Readers = []transfer.Authority{"oper"} }, false},
		"nothing to show":            {func(_ *wire.Keep, d *wire.Definition) { d.Shown = nil }, false},
		"too large as it is sent":    {func(_ *wire.Keep, d *wire.Definition) { d.Shown = json.RawMessage(large) }, false},
		"a key of two":               {func(_ *wire.Keep, d *wire.Definition) { d.Key = "A\x00B" }, false},
		"a negative number":          {func(k *wire.Keep, _ *wire.Definition) { k.Missing = map[string]int{"monitor": -1} }, false},
		"a number of a noun":         {func(k *wire.Keep, _ *wire.Definition) { k.Missing = map[string]int{"monitor": 1} }, true},
		"a removal of a key of two":  {func(k *wire.Keep, _ *wire.Definition) { k.Gone = []wire.DefinitionName{{Noun: "a", Key: "\x00"}} }, false},
		"an owner that is no member": {func(_ *wire.Keep, d *wire.Definition) { d.Owner = "a b" }, false},
	} {
		k := wire.Keep{Mark: "m", Put: []wire.Definition{{DefinitionName: wire.DefinitionName{Noun: "monitor", Key: "A"}, Owner: "ann", Shown: json.RawMessage("1")}}}
		c.change(&k, &k.Put[0])
		data, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		if k.Put[0].Shown == nil {
			data = []byte(strings.Replace(string(data), `,"shown":null`, "", 1))
		}
		if _, err := wire.ReadBody[wire.Keep](wire.AskKeep, data); (err == nil) != c.taken {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The size of a definition is that in a message.
func TestSizeOfADefinition(t *testing.T) {
	d := wire.Definition{DefinitionName: wire.DefinitionName{Noun: "monitor", Key: "<"}, Shown: json.RawMessage(`"<"`)}
	if got, want := d.Size(), len(wire.Marshal(&d)); got != want {
		t.Errorf("it is %d, and the message has %d bytes", got, want)
	}
}
