package schedule

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// here is the zone of the host in a test.
func here() (string, error) { return "Europe/Berlin", nil }

func plan(t testing.TB, now string, w PlanText) *Times {
	t.Helper()
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Plan(at, here)
	if err != nil {
		t.Fatal(err)
	}
	times, err := p.Times()
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// Occurrences are where calendars and clocks have them.
func TestOccurrences(t *testing.T) {
	for _, c := range []struct {
		name, now string
		words     PlanText
		from      int64
		want      []string // in UTC
	}{
		{"a gap", "2026-03-27T12:00:00Z", PlanText{At: "02:30", Every: "1d"}, 0, []string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"made in a gap", "2026-03-28T12:00:00Z", PlanText{At: "02:30", Every: "1d"}, 0, []string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"an overlap", "2026-10-23T12:00:00Z", PlanText{At: "02:30", Every: "1d"}, 0, []string{"2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"the second hour of an overlap", "2026-10-23T12:00:00Z", PlanText{At: "2026-10-25T02:30:00+01:00", Every: "1d"}, 0, []string{"2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
		{"hours that pass", "2026-10-24T22:00:00Z", PlanText{At: "2026-10-25T01:30:00+02:00", Every: "1h"}, 0, []string{"2026-10-24T23:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"}},
		{"24 hours are no day", "2026-03-27T12:00:00Z", PlanText{At: "12:00", Every: "24h", Zone: "Europe/Berlin"}, 0, []string{"2026-03-28T11:00:00Z", "2026-03-29T11:00:00Z"}},
		{"a day is", "2026-03-27T12:00:00Z", PlanText{At: "12:00", Every: "1d"}, 0, []string{"2026-03-28T11:00:00Z", "2026-03-29T10:00:00Z"}},
		{"another zone", "2026-03-07T00:00:00Z", PlanText{At: "02:30", Every: "1d", Zone: "America/New_York"}, 0, []string{"2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"}},
		{"half an hour's gap", "2026-10-02T00:00:00Z", PlanText{At: "02:15", Every: "1d", Zone: "Australia/Lord_Howe"}, 0, []string{"2026-10-02T15:45:00Z", "2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		{"half an hour's overlap", "2026-04-03T00:00:00Z", PlanText{At: "01:45", Every: "1d", Zone: "Australia/Lord_Howe"}, 0, []string{"2026-04-03T14:45:00Z", "2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"}},
		{"a day that was left out", "2011-12-28T12:00:00Z", PlanText{At: "03:00", Every: "1d", Zone: "Pacific/Apia"}, 0, []string{"2011-12-28T13:00:00Z", "2011-12-29T13:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T13:00:00Z"}},
		{"the 31st", "2027-12-01T00:00:00Z", PlanText{At: "2027-12-31T08:00", Every: "1mo", Zone: "UTC"}, 0, []string{"2027-12-31T08:00:00Z", "2028-01-31T08:00:00Z", "2028-02-29T08:00:00Z", "2028-03-31T08:00:00Z", "2028-04-30T08:00:00Z"}},
		{"29 February", "2028-01-01T00:00:00Z", PlanText{At: "2028-02-29T08:00", Every: "1y", Zone: "UTC"}, 0, []string{"2028-02-29T08:00:00Z", "2029-02-28T08:00:00Z", "2030-02-28T08:00:00Z", "2031-02-28T08:00:00Z", "2032-02-29T08:00:00Z"}},
		{"every second month", "2026-01-01T00:00:00Z", PlanText{At: "2026-01-30T08:00", Every: "2mo", Zone: "UTC"}, 0, []string{"2026-01-30T08:00:00Z", "2026-03-30T08:00:00Z"}},
		{"weeks", "2026-01-01T00:00:00Z", PlanText{At: "2026-01-30T08:00", Every: "2w", Zone: "UTC"}, 25, []string{"2027-01-15T08:00:00Z"}},
		{"once", "2026-01-01T00:00:00.25Z", PlanText{At: "+2s"}, 0, []string{"2026-01-01T00:00:03Z", ""}},
		{"a count", "2026-01-01T00:00:00Z", PlanText{At: "+1m", Every: "1m", Count: 2}, 0, []string{"2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z", ""}},
		{"an end", "2026-01-01T00:00:00Z", PlanText{At: "+1m", Every: "1m", Until: "2026-01-01T00:03:00Z"}, 1, []string{"2026-01-01T00:02:00Z", "2026-01-01T00:03:00Z", ""}},
		{"an end by the clock", "2026-01-01T12:00:00Z", PlanText{At: "13:30", Every: "4h", Until: "18:00"}, 0, []string{"2026-01-01T12:30:00Z", "2026-01-01T16:30:00Z", ""}},
		{"far away", "2026-01-01T00:00:00Z", PlanText{At: "+1m", Every: "100y", Zone: "UTC"}, 0, []string{"2026-01-01T00:01:00Z", "2126-01-01T00:01:00Z"}},
	} {
		times := plan(t, c.now, c.words)
		for n, want := range c.want {
			got := ""
			if at, ok := times.At(c.from + int64(n)); ok {
				got = at.UTC().Format(time.RFC3339Nano)
			}
			if got != want {
				t.Errorf("%s: occurrence %d is at %s, not %s", c.name, c.from+int64(n), got, want)
			}
		}
	}
}

// In a year, in zones with changes of the clock, a daily occurrence is once on each date: when the clock first shows
// its time or, where it does not, the first time after it. The test checks all minutes of the year.
func TestOnceADay(t *testing.T) {
	clocks := []string{"00:00", "01:45", "02:00", "02:15", "02:30", "03:00"}
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana"} {
		var all []*Times
		var days []map[time.Time]time.Time // by the clock and the date: when its time is
		var minutes []int                  // of the day, by the clock
		for _, clock := range clocks {
			all, days = append(all, plan(t, "2026-01-01T12:00:00Z", PlanText{At: clock, Every: "1d", Zone: zone, Count: 365})), append(days, map[time.Time]time.Time{})
			at, err := time.Parse("15:04", clock)
			if err != nil {
				t.Fatal(err)
			}
			minutes = append(minutes, at.Hour()*60+at.Minute())
		}
		begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		end, last := begin.AddDate(1, 0, 4), make([]time.Time, len(clocks)) // the date that each clock has found last
		for at := begin; at.Before(end); at = at.Add(time.Minute) {
			local := at.In(all[0].zone)
			minute := local.Hour()*60 + local.Minute()
			date := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
			for n := range days {
				if minute >= minutes[n] && !last[n].Equal(date) {
					last[n] = date
					if _, seen := days[n][date]; !seen {
						days[n][date] = at
					}
				}
			}
		}
		for n, times := range all {
			year, month, first := times.wall.Date()
			for k := range int64(365) {
				at, ok := times.At(k)
				date := time.Date(year, month, first+int(k), 0, 0, 0, 0, time.UTC)
				if want := days[n][date]; !ok || !at.Equal(want) {
					t.Errorf("%s, %s: occurrence %d is at %s, not %s", zone, clocks[n], k, at, want)
				}
			}
		}
	}
}

// Due finds the same occurrence as counting does.
func TestDue(t *testing.T) {
	for _, w := range []PlanText{
		{At: "+1m", Every: "1m"}, {At: "+1m", Every: "7s", Count: 1000}, {At: "+1m", Every: "90m", Until: "2026-01-03T00:00:00Z"}, {At: "02:30", Every: "1d"},
		{At: "+1h", Every: "1mo", Count: 3}, {At: "+1h"},
	} {
		times := plan(t, "2026-01-01T00:00:00Z", w)
		for _, after := range []time.Duration{-time.Hour, 0, time.Second, time.Minute, time.Hour + time.Second, 24 * time.Hour, 100 * 24 * time.Hour} {
			now := times.Start.Add(after)
			for _, from := range []int64{0, 1, 5} {
				want := from
				for at, ok := times.At(want); ok && !at.After(now); at, ok = times.At(want) {
					want++
				}
				if _, ok := times.At(from - 1); from > 0 && !ok {
					continue // there are not so many
				}
				if got := times.Due(from, now); got != want {
					t.Errorf("%+v, %s after its start: due from %d to %d, not %d", w, after, from, got, want)
				}
			}
		}
	}
}

// Malformed words are refused with an error that names them.
func TestWordsAreRefused(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for _, w := range []PlanText{
		{}, {At: "tomorrow"}, {At: "25:00"}, {At: "+0s"}, {At: "+2"}, {At: "+-2s"}, {At: "+999999h"}, {At: "2026-11-25T11:00:00Z"}, {At: "2026-02-30T08:00"},
		{At: "+2s", Every: "0"}, {At: "+2s", Every: "1M"}, {At: "+2s", Every: "0d"}, {At: "+2s", Every: "-1h"}, {At: "+2s", Every: "100ms"}, {At: "+2s", Every: "101y"}, {At: "+2s", Every: "d"},
		{At: "+2s", Count: 3}, {At: "+2s", Until: "+1h"}, {At: "+2h", Every: "1h", Until: "+1h"}, {At: "+2h", Every: "1h", Count: -1}, {At: "+2h", Every: "1h", Count: MaxCount + 1},
		{At: "17:00", Zone: "Mars/Olympus"}, {At: "17:00", Zone: "Local"}, {At: "17:00", Zone: "../../etc/passwd"}, {At: "9999-01-01T00:00:00Z"}, {At: "+2h", Every: "1h", Until: "9999-12-31T23:59:59-12:00"}, {At: "1969-01-01T00:00:00Z"},
	} {
		if p, err := w.Plan(now, here); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("%+v: %+v, %v", w, p, err)
		}
	}
	if _, err := (PlanText{At: "17:00"}).Plan(now, func() (string, error) { return "", transfer.Errorf(transfer.KindUsage, "no zone") }); err == nil {
		t.Error("a time of day without a zone is taken")
	}
	p := Plan{Start: now, Wall: "2020-01-01T00:00:00", Zone: "UTC", Every: Interval{Days: 1}}
	if _, err := p.Times(); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("days that are counted from long ago: %v", err)
	}
}

func TestIntervals(t *testing.T) {
	for text, want := range map[string]string{"60s": "1m", "90s": "1m30s", "60m": "1h", "1h30m": "1h30m", "48h": "48h", "7d": "1w", "10d": "10d", "12mo": "1y", "18mo": "18mo", "2y": "2y"} {
		i, err := ParseInterval(text)
		if err != nil || i.String() != want {
			t.Errorf("%s is read as %s, %v", text, i, err)
		}
		again, err := ParseInterval(i.String())
		if err != nil || again != i {
			t.Errorf("%s is written as %s and read as %s, %v", text, i, again, err)
		}
	}
}

// The times of a plan are in ascending order, for all words.
func FuzzWords(f *testing.F) {
	f.Add("+2s", "1h", "", "UTC", int64(0), int64(5))
	f.Add("02:30", "1d", "2027-01-01T00:00:00Z", "Europe/Berlin", int64(3), int64(400))
	f.Add("2026-12-31T23:59", "1mo", "", "Pacific/Apia", int64(0), int64(1<<40))
	f.Add("+1h", "1h", "9999-12-31T23:59:59-12:00", "UTC", int64(0), int64(5))
	f.Add("2026-11-30T17:30:00+01:00", "100y", "18:00", "America/New_York", int64(7), int64(2))
	f.Fuzz(func(t *testing.T, at, every, until, zone string, count, n int64) {
		now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
		p, err := PlanText{At: at, Every: every, Until: until, Count: count, Zone: zone}.Plan(now, here)
		if err != nil {
			return
		}
		b, err := json.Marshal(p)
		var read Plan
		if err != nil || json.Unmarshal(b, &read) != nil || fmt.Sprint(read) != fmt.Sprint(p) {
			t.Fatalf("%+v is read as %+v: %v", p, read, err)
		}
		times, err := read.Times()
		if err != nil {
			t.Fatal(err)
		}
		one, ok := times.At(n)
		two, more := times.At(n + 1)
		if ok && more && two.Before(one) || n >= 0 && !ok && more {
			t.Errorf("%+v: occurrence %d is at %s (%v), the next one at %s (%v)", p, n, one, ok, two, more)
		}
		if ok && n < 1000 {
			if due := times.Due(0, one); due < n+1 {
				t.Errorf("%+v: at %s %d are due, not %d", p, one, due, n+1)
			}
		}
	})
}

// A text that is no Put is refused, and never with an internal error.
func FuzzParsePut(f *testing.F) {
	q := sample()
	put, _ := json.Marshal(Put{Name: "nightly", Plan: plan(f, "2026-11-25T12:00:00Z", PlanText{At: "02:30", Every: "1d"}).Plan, Missed: MissedOnce, Request: q})
	f.Add(put)
	f.Add([]byte(`{"name":"a","plan":{"start":"2026-01-01T00:00:00Z","zone":"UTC","every":"1m"},"missed":"skip","request":{"v":2}}`))
	f.Add([]byte(`{"plan":{"every":""}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePut(data)
		if (p == nil) == (err == nil) && err == nil {
			t.Error("neither a schedule nor an error")
		}
		if k := transfer.KindOf(err); k == transfer.KindInternal {
			t.Errorf("%q: %v", data, err)
		}
	})
}
