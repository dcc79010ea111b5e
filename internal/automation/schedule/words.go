package schedule

import (
	"strconv"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// An Interval is the time between two occurrences: time that passes, or days or months of a calendar. One of its fields
// is set at most.
type Interval struct {
	Elapsed time.Duration // whole seconds
	Days    int
	Months  int
}

// units are those of the calendar, with the days and months that they have.
var units = []struct {
	name         string
	days, months int
}{{"mo", 0, 1}, {"y", 0, 12}, {"w", 7, 0}, {"d", 1, 0}}

// ParseInterval reads an interval: 90s, 15m, 1h30m, or a number of d, w, mo or y.
func ParseInterval(s string) (i Interval, err error) {
	bad := transfer.Errorf(transfer.KindUsage, "interval %.40q is malformed", s).WithHint("write it as 15m, 1h, 1d, 2w, 1mo or 1y; m is minutes and mo months")
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil {
			return i, bad
		}
		i.Days, i.Months = int(n)*u.days, int(n)*u.months
		return i, i.checkSet()
	}
	if i.Elapsed, err = time.ParseDuration(s); err != nil {
		return Interval{}, bad
	}
	return i, i.checkSet()
}

// IsZero reports whether there is no interval.
func (i Interval) IsZero() bool { return i == Interval{} }

// calendar reports whether the interval is in days or months.
func (i Interval) calendar() bool { return i.Days > 0 || i.Months > 0 }

// least is no longer than the interval ever is.
func (i Interval) least() time.Duration {
	return i.Elapsed + time.Duration(i.Days)*23*time.Hour + time.Duration(i.Months)*28*23*time.Hour
}

func (i Interval) checkSet() error {
	if i.IsZero() {
		return transfer.Errorf(transfer.KindUsage, "an interval of 0 is none").WithHint("it begins at 1s")
	}
	return i.check()
}

func (i Interval) check() error {
	if i.Elapsed < 0 || i.Elapsed%time.Second != 0 || i.Elapsed > maxYears*365*24*time.Hour || i.Days > maxYears*366 || i.Months > maxYears*12 {
		return transfer.Errorf(transfer.KindUsage, "interval %s is out of range; it has whole seconds, and goes from 1s to %dy", i, maxYears)
	}
	return nil
}

// String writes an interval in the form of ParseInterval.
func (i Interval) String() string {
	for _, u := range []int{1, 0, 2, 3} { // the larger unit first
		switch of := units[u]; {
		case of.months > 0 && i.Months > 0 && i.Months%of.months == 0:
			return strconv.Itoa(i.Months/of.months) + of.name
		case of.days > 0 && i.Days > 0 && i.Days%of.days == 0:
			return strconv.Itoa(i.Days/of.days) + of.name
		}
	}
	s := i.Elapsed.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes an interval in the form of ParseInterval.
func (i Interval) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads an interval.
func (i *Interval) UnmarshalText(b []byte) error {
	v, err := ParseInterval(string(b))
	*i = v
	return err
}

// A PlanText is a plan in the words of a user.
type PlanText struct {
	At    string `json:"at"`              // +DURATION, hh:mm, a date and time with or without a zone of its own
	Every string `json:"every,omitempty"` // an interval; none: once
	Until string `json:"until,omitempty"` // as At
	Count int64  `json:"count,omitempty"`
	Zone  string `json:"zone,omitempty"` // none: that of the host that makes a plan of them
}

// Plan reads the words at a time. here returns the zone of the host, where one is needed.
func (w PlanText) Plan(now time.Time, here func() (string, error)) (p Plan, err error) {
	if w.Every != "" {
		if p.Every, err = ParseInterval(w.Every); err != nil {
			return p, err
		}
	}

	switch {
	case w.Zone != "":
		p.Zone = w.Zone
	case p.Every.calendar() || local(w.At) || local(w.Until):
		if p.Zone, err = here(); err != nil {
			return p, err
		}
	default:
		p.Zone = "UTC" // no zone is needed
	}
	zone, err := zoneOf(p.Zone)
	if err != nil {
		return p, err
	}

	if p.Start, p.Wall, err = moment("--at", w.At, now, now, zone); err != nil {
		return p, err
	}
	if !p.Start.After(now) {
		return p, transfer.Errorf(transfer.KindUsage, "the time %s, when the schedule begins, is over", w.At).WithHint("give a time that is to come")
	}
	if w.Until != "" {
		if p.Until, _, err = moment("--until", w.Until, now, p.Start, zone); err != nil {
			return p, err
		}
	}
	p.Count = w.Count
	_, err = p.Times()
	return p, err
}

// The forms of a date and time without a zone.
var localLayouts = []string{"2006-01-02T15:04", wallLayout}

// local reports whether a time names no zone.
func local(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return s != "" && s[0] != '+' && err != nil
}

// moment reads a point in time. A time without a date is the first of that time of day after the time after.
func moment(flag, s string, now, after time.Time, zone *time.Location) (at time.Time, wall string, err error) {
	if len(s) > maxZone {
		s = s[:maxZone]
	}
	if d, ok := strings.CutPrefix(s, "+"); ok {
		pause, err := time.ParseDuration(d)
		if err != nil || pause <= 0 || pause > maxYears*365*24*time.Hour {
			return at, "", transfer.Errorf(transfer.KindUsage, "%s %q is malformed", flag, s).WithHint("write a time from now on as +90s, +15m or +24h")
		}
		at = now.Add(pause + time.Second - 1).Truncate(time.Second).UTC()
		return at, at.In(zone).Format(wallLayout), nil
	}
	for _, form := range []string{"15:04", "15:04:05"} {
		clock, err := time.Parse(form, s)
		if err != nil {
			continue
		}
		y, m, d := after.In(zone).Date()
		for days := range 3 { // a day may lack the time that is meant, or have it behind it
			w := time.Date(y, m, d+days, clock.Hour(), clock.Minute(), clock.Second(), 0, time.UTC)
			if at = resolve(w, zone); at.After(after) {
				wall = w.Format(wallLayout)
				break
			}
		}
		return at, wall, nil
	}
	for _, form := range localLayouts {
		if w, err := time.Parse(form, s); err == nil {
			return resolve(w, zone), w.Format(wallLayout), nil
		}
	}
	if at, err = time.Parse(time.RFC3339, s); err != nil {
		return at, "", transfer.Errorf(transfer.KindUsage, "%s %q is malformed", flag, s).
			WithHint("write it as +2h, 17:30, 2026-11-30T17:30 or 2026-11-30T17:30:00+01:00")
	}
	at = at.UTC()
	return at, at.In(zone).Format(wallLayout), nil
}

// IsLocal reports whether a text is a time of day, or a date and time without a zone.
func IsLocal(s string) bool {
	for _, form := range append([]string{"15:04", "15:04:05"}, localLayouts...) {
		if _, err := time.Parse(form, s); err == nil {
			return true
		}
	}
	return false
}
