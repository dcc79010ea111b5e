package intent

import (
	"reflect"
	"testing"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// sampleIntents returns intents with every field set, and one with none.
func sampleIntents() []Intent {
	id := disk.Identity{Dev: 1, Ino: 2, Size: 3, Mtime: 4, Ctime: 5}
	all := []Intent{{}, {Name: "d/x", Final: "x (2)", Temp: ".ferry-x", Ino: 1 << 63, Dev: 7, DirIno: 8, DirDev: 1<<64 - 1, Size: 1 << 60, Sum: "xxh3:00",
		Boot: "b", Durable: true, Replaces: &id, Mode: 0o644, Mtime: -9, Arrived: 11}}
	for _, b := range []Sidecar{{}, {Data: []byte("x")}, {Data: []byte{}, Above: true, Before: []byte("y")}, {Before: []byte{}}} {
		all = append(all, Intent{Temp: "t", Sidecar: &b})
	}
	return all
}

func TestIntentRoundTrip(t *testing.T) {
	for _, in := range sampleIntents() {
		in.Outcome = transfer.Outcome{Item: 4, Path: "p"}
		rec := in.Record()
		again, err := Parse(rec)
		if err != nil || !reflect.DeepEqual(*again, in) {
			t.Errorf("%+v became %+v, %v", in, again, err)
		}
		for n := range rec.Place {
			if _, err := Parse(transfer.Intent{Place: rec.Place[:n]}); transfer.KindOf(err) != transfer.KindVersion {
				t.Fatalf("cut at %d: %v", n, err)
			}
		}
	}
}

// FuzzKept checks that stored versions, points and intents are parsed or refused.
func FuzzKept(f *testing.F) {
	for _, in := range sampleIntents() {
		f.Add(in.Record().Place)
	}
	f.Add([]byte(disk.Identity{Dev: 1, Ino: 2, Size: 3, Mtime: 4, Ctime: 5}.Version()))
	f.Add(PointAt(1 << 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		if in, err := Parse(transfer.Intent{Place: b}); err == nil {
			if again, err := Parse(in.Record()); err != nil || !reflect.DeepEqual(again, in) {
				t.Fatalf("%+v became %+v, %v", in, again, err)
			}
		}
		if id, err := disk.ParseVersion(transfer.Version(b)); err == nil {
			if again, err := disk.ParseVersion(id.Version()); err != nil || again != id {
				t.Fatalf("%+v became %+v, %v", id, again, err)
			}
		}
		if at, err := ParsePoint(b); err == nil {
			if again, err := ParsePoint(PointAt(at)); err != nil || again != at {
				t.Fatalf("%d became %d, %v", at, again, err)
			}
		}
	})
}
