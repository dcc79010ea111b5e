package transfer

import (
	"testing"
	"time"
)

func TestFilterTakes(t *testing.T) {
	asked := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	hour := Duration(time.Hour)
	ago := func(d time.Duration) int64 { return asked.Add(-d).UnixNano() }
	for _, c := range []struct {
		name        string
		f           Filter
		size, mtime int64
		want        bool
	}{
		{"no bound", Filter{}, 0, 0, true},
		{"the smallest", Filter{MinSize: 10}, 10, 0, true},
		{"too small", Filter{MinSize: 10}, 9, 0, false},
		{"the largest", Filter{MaxSize: 10}, 10, 0, true},
		{"too large", Filter{MaxSize: 10}, 11, 0, false},
		{"the youngest", Filter{MinAge: hour}, 0, ago(time.Hour), true},
		{"too young", Filter{MinAge: hour}, 0, ago(time.Hour - 1), false},
		{"the oldest", Filter{MaxAge: hour}, 0, ago(time.Hour), true},
		{"too old", Filter{MaxAge: hour}, 0, ago(time.Hour + 1), false},
		{"modified later, any age but the greatest", Filter{MaxAge: hour}, 0, ago(-time.Hour), true},
		{"modified later, and too young", Filter{MinAge: 1}, 0, ago(-time.Hour), false},
		{"modified at the ends of time", Filter{MaxAge: hour}, 0, -1 << 63, false},
		{"all of them", Filter{MinSize: 1, MaxSize: 2, MinAge: hour, MaxAge: 2 * hour}, 1, ago(90 * time.Minute), true},
		{"as of another time", Filter{MaxAge: hour, AsOf: asked.Add(-24 * time.Hour)}, 0, ago(25 * time.Hour), true},
	} {
		if got := c.f.Takes(c.size, c.mtime, asked); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A filter applies to files that could be sent, and to directories only through their files.
func TestRequestTakes(t *testing.T) {
	q := Request{Submitted: time.Unix(1000, 0)}
	dir := &Item{Type: ItemDir}
	missing := &Item{Type: ItemBad, Err: &Error{Kind: KindMissing}}
	second := &Item{Type: ItemBad, Size: 1, Mtime: 1, Err: &Error{Kind: KindExists}}
	for _, it := range []*Item{dir, missing, second} {
		if !q.Takes(it) {
			t.Errorf("without a filter %v is left out", it.Type)
		}
	}
	q.Filter.MinSize = 2
	for it, want := range map[*Item]bool{dir: false, missing: true, second: false, {Type: ItemFile, Size: 2}: true, {Type: ItemFile, Size: 1}: false} {
		if got := q.Takes(it); got != want {
			t.Errorf("%+v: %v", it, got)
		}
	}
}

func TestFilterCheck(t *testing.T) {
	for _, f := range []Filter{{MinSize: -1}, {MaxSize: -1}, {MinAge: -1}, {MaxAge: -1}, {MinSize: 2, MaxSize: 1}, {MinAge: 2, MaxAge: 1}} {
		if err := f.check(); KindOf(err) != KindUsage {
			t.Errorf("%+v: %v", f, err)
		}
	}
	for _, f := range []Filter{{}, {MinSize: 2, MaxSize: 2}, {MinAge: 2}, {MaxAge: 1}} {
		if err := f.check(); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestParseAge(t *testing.T) {
	for s, want := range map[string]time.Duration{"90s": 90 * time.Second, "30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0, "720h0m0s": 720 * time.Hour} {
		if got, err := ParseAge(s); err != nil || time.Duration(got) != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "d", "1", "-1", "-1d", "1d-1h", "1w", "1.5d", "1d1d", "99999d", "65535d2562047h", "1D"} {
		if got, err := ParseAge(s); KindOf(err) != KindUsage {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

func FuzzParseAge(f *testing.F) {
	for _, s := range []string{"90s", "30d", "1d12h", "d", "99999d", "1d-1h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseAge(s)
		if err != nil {
			return
		}
		if again, err := ParseAge(d.String()); d < 0 || err != nil || again != d {
			t.Fatalf("%q is %v, which is read as %v, %v", s, d, again, err)
		}
	})
}
