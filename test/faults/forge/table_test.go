package forge

import (
	"encoding/json"
	"testing"

	"ferry/internal/wire"
)

// Every field of every message on REPLY is read only within its range.
func TestOddIsNotRead(t *testing.T) {
	total := 0
	for _, f := range Replies() {
		sample, all := f.tree(), f.oddities()
		for _, l := range all {
			o := oddly(sample, sample, l)
			if m, err := wire.Decode(o.Data); err == nil {
				t.Errorf("%s is read with %s = %.40v: %+v", f.Name, o.Field, o.Value, m)
			}
		}
		total += len(all)
	}
	if total < 500 {
		t.Errorf("only %d values were tried", total)
	}
	t.Logf("%d values", total)
}

// A sample has every field, and is read: what is wrong with an oddity is its field.
func TestSamplesAreRead(t *testing.T) {
	for _, f := range Replies() {
		data, err := json.Marshal(f.Sample)
		if err != nil {
			t.Fatal(err)
		}
		m, err := wire.Decode(data)
		if err != nil {
			t.Errorf("%s: %s: %v", f.Name, data, err)
		} else if again, err := m.Encode(); err != nil || len(again) != len(data) {
			t.Errorf("%s\nwas read as\n%s: %v", data, again, err)
		}
	}
}
