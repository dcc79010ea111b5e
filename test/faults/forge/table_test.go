package forge

import (
	"encoding/json"
	"testing"

	"ferry/internal/qmgr/streams"
	"ferry/internal/wire"
)

// TestOddIsNotRead decodes each message on REPLY with each field out of its range. Each must be refused.
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

// TestOddIsSent makes each message with each field out of its range. A queue manager must take each one.
func TestOddIsSent(t *testing.T) {
	for _, f := range append(Replies(), Asks()...) {
		sample := f.tree()
		for _, l := range f.oddities() {
			if o := oddly(sample, sample, l); len(o.Data) > streams.MaxPayload {
				t.Errorf("%s has %d bytes with %s = %.40v", f.Name, len(o.Data), o.Field, o.Value)
			}
		}
	}
}

// TestSamplesAreRead decodes each sample with every field set. So the defect of an oddity is its one field.
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
