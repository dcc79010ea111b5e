package flow

import (
	"testing"
	"time"

	"ferry/internal/transfer"
)

func TestTimetable(t *testing.T) {
	at := func(s string) time.Time {
		when, err := time.ParseInLocation("Mon 2006-01-02 15:04", s, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, c := range []struct {
		text, again string
		at          map[string]int64
	}{
		{"10M", "10M", map[string]int64{"Mon 2026-11-23 00:00": 10 << 20, "Sun 2026-11-22 23:59": 10 << 20}},
		{"off", "off", map[string]int64{"Mon 2026-11-23 00:00": 0}},
		{"08:00,512k  19:00,10M 23:00,off", "08:00,512K 19:00,10M 23:00,off", map[string]int64{"Mon 2026-11-23 07:59": 0, "Mon 2026-11-23 08:00": 512 << 10,
			"Mon 2026-11-23 18:59": 512 << 10, "Mon 2026-11-23 19:00": 10 << 20, "Mon 2026-11-23 23:30": 0}},
		{"Mon-08:00,1M fri-18:30,off", "Mon-08:00,1M Fri-18:30,off", map[string]int64{"Mon 2026-11-23 07:59": 0, "Mon 2026-11-23 08:00": 1 << 20,
			"Fri 2026-11-27 18:29": 1 << 20, "Fri 2026-11-27 18:30": 0, "Sun 2026-11-29 12:00": 0}},
		{"12:00,1M Sat-00:00,5000", "12:00,1M Sat-00:00,5000", map[string]int64{"Sat 2026-11-28 01:00": 5000, "Sat 2026-11-28 12:00": 1 << 20, "Fri 2026-11-27 01:00": 1 << 20}},
	} {
		table, err := ParseTimetable(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if again := table.String(); again != c.again {
			t.Errorf("%q is written as %q, want %q", c.text, again, c.again)
		}
		for when, want := range c.at {
			if got := table.RateAt(at(when)); got != want {
				t.Errorf("%q at %s is %d, want %d", c.text, when, got, want)
			}
		}
	}
	for _, s := range []string{"", " ", "fast", "1023", "8:0,1M", "24:00,1M", "12:60,1M", "12:00", "12:00,", "Moon-12:00,1M", "10M 20M", "12:00,1M 5M", "-1", "1T"} {
		if table, err := ParseTimetable(s); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%q was read as %v: %v", s, table, err)
		}
	}
}

// FuzzTimetable: an accepted timetable is written so that it is read as the same.
func FuzzTimetable(f *testing.F) {
	for _, s := range []string{"10M", "off", "08:00,512K 19:00,off", "Mon-08:00,1M", "00:00,1G"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		table, err := ParseTimetable(s)
		if err != nil {
			return
		}
		again, err := ParseTimetable(table.String())
		if err != nil || again.String() != table.String() {
			t.Errorf("%q became %q and then %q: %v", s, table, again, err)
		}
	})
}

// A raised rate also applies to the waiting bytes.
func TestPacerChanged(t *testing.T) {
	var p Pacer
	now := time.Unix(1_800_000_000, 0)
	p.Sent(now, 1<<20, 1<<10)
	if wait := p.Due(1 << 10).Sub(now); wait < 17*time.Minute {
		t.Errorf("a megabyte at 1K is over after %s", wait)
	}
	if wait := p.Due(100 << 20).Sub(now); wait > 10*time.Millisecond {
		t.Errorf("a megabyte at 100M is over after %s", wait)
	}
}

// A pacer keeps its rate over any five seconds, with any sizes, and saves nothing up.
func TestPacer(t *testing.T) {
	const rate = 1_000_000
	var p Pacer
	now := time.Unix(1_800_000_000, 0)
	type sent struct {
		at time.Time
		n  int64
	}
	var all []sent
	for k := range 5000 {
		n := int64(4096 + k*37%45_000)
		if at := p.Due(rate); at.After(now) {
			now = at.Add(time.Duration(k%7) * time.Millisecond) // a timer is late
		}
		p.Sent(now, n, rate)
		all = append(all, sent{now, n})
		if k == 2500 {
			now = now.Add(time.Minute) // nothing to send
		}
	}
	for from := range all {
		sum := int64(0)
		for _, s := range all[from:] {
			if s.at.Sub(all[from].at) >= 5*time.Second {
				if float64(sum) > 1.03*5*rate || float64(sum) < 0.97*5*rate && from != 2500 && all[min(from+300, len(all)-1)].at.Sub(all[from].at) < time.Minute {
					t.Fatalf("from %d on %d bytes went in five seconds", from, sum)
				}
				break
			}
			sum += s.n
		}
	}
}
