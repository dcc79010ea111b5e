package transfer_test

import (
	"encoding/json"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/transfer/transfertest"
)

// Each location survives JSON unchanged, and a name never becomes another kind of location.
func TestLocationsInJSON(t *testing.T) {
	check := func(l transfer.Location) {
		t.Helper()
		data, err := json.Marshal(l)
		var back transfer.Location
		if err != nil || json.Unmarshal(data, &back) != nil || back != l {
			t.Errorf("%s through %s became %+v, %v", l, data, back, err)
		}
	}
	for _, name := range transfertest.Hostile() {
		p := transfer.Path(name)
		for _, l := range []transfer.Location{transfer.File(p), transfer.Match(transfer.Path(transfer.Literally(name))), {Place: transfer.Queues, Path: p},
			{Place: transfer.Datasets, Path: p, Records: transfer.Records{RECFM: "FB", LRECL: 80}}} {
			check(l)
		}
		if err := transfer.File(p).Check(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if l := transfer.Match(transfer.Path(transfer.Literally(name))); l.Check() != nil || l.Literal() != p {
			t.Errorf("%q is the pattern %q, and that %q", name, l.Path, l.Literal())
		}
	}
}

func TestBadLocations(t *testing.T) {
	for _, l := range []transfer.Location{{}, {Path: "a\x00"}, {Place: "moon", Path: "a"}, {Place: transfer.Queues, Path: "a", Pattern: true}, {Path: "a", Records: transfer.Records{RECFM: "F"}},
		transfer.Match("a%0"), transfer.Match("a%2F*"), transfer.Match("a%00*")} {
		if l.Check() == nil {
			t.Errorf("%+v passes", l)
		}
	}
	if transfer.Match("*").CheckDest() == nil {
		t.Error("a pattern passes as a destination")
	}
	if err := json.Unmarshal([]byte(`{"path":"a","kind":"b"}`), new(transfer.Location)); err == nil {
		t.Error("an unknown field passes")
	}
}
