package schedule

import (
	"time"
	_ "time/tzdata"

	"ferry/internal/transfer"
)

// Limits of a plan.
const (
	MaxCount = 1_000_000_000
	maxYears = 100 // between now and the first occurrence, and from one to the next
	horizon  = 2 * maxYears * 366 * 24 * time.Hour
	maxZone  = 64 // bytes of a zone's name
)

// wallLayout is the layout of Plan.Wall.
const wallLayout = "2006-01-02T15:04:05"

// A Plan gives the times of a schedule's occurrences. They are numbered from 0.
//
// Seconds, minutes and hours of Every are time that passes. Days, weeks, months and years are counted on the calendar
// of Zone. Each occurrence has the date at that distance from Wall's, and Wall's time of day. A time of day may not
// exist on its date, because clocks are put forward over it; the occurrence is then at the moment of the change. A time
// of day may come twice, because clocks are put back; the occurrence is then the first of them. A month that is too
// short has the occurrence on its last day.
type Plan struct {
	Start time.Time `json:"start"`          // occurrence 0
	Wall  string    `json:"wall,omitempty"` // date and time in Zone; days and months are counted from it
	Zone  string    `json:"zone"`           // a name of the IANA time zone database
	Every Interval  `json:"every,omitzero"` // none: there is one occurrence
	Until time.Time `json:"until,omitzero"` // none is later
	Count int64     `json:"count,omitempty"`
}

// Times are the occurrences of a plan that was checked.
type Times struct {
	Plan
	zone *time.Location
	wall time.Time // Wall, as if it were UTC
}

// Times checks a plan.
func (p Plan) Times() (*Times, error) {
	t := &Times{Plan: p}
	var err error
	if t.zone, err = zoneOf(p.Zone); err != nil {
		return nil, err
	}
	if err := p.Every.check(); err != nil {
		return nil, err
	}
	if y := p.Start.UTC().Year(); y < 1970 || y > 2262-maxYears {
		return nil, transfer.Errorf(transfer.KindUsage, "a schedule cannot begin in the year %d", y)
	}
	if y := p.Until.UTC().Year(); y > 9000 {
		return nil, transfer.Errorf(transfer.KindUsage, "a schedule cannot end in the year %d", y).WithHint("leave --until out for one that does not end")
	}
	if t.wall, err = time.Parse(wallLayout, p.Wall); err != nil && p.Every.calendar() {
		return nil, transfer.Errorf(transfer.KindUsage, "the date and time %.40q of the first day is malformed; write it as %s", p.Wall, wallLayout)
	}
	switch {
	case p.Every.IsZero() && (p.Count != 0 || !p.Until.IsZero()):
		return nil, transfer.Errorf(transfer.KindUsage, "an end is for a schedule that repeats").WithHint("give --every, or leave --until and --count out")
	case p.Count < 0 || p.Count > MaxCount:
		return nil, transfer.Errorf(transfer.KindUsage, "a count of %d is out of range; it goes from 1 to %d", p.Count, MaxCount)
	case !p.Until.IsZero() && p.Until.Before(p.Start):
		return nil, transfer.Errorf(transfer.KindUsage, "the schedule ends at %s, before it begins at %s", p.Until.UTC().Format(time.RFC3339), p.Start.UTC().Format(time.RFC3339))
	}
	if second, ok := t.At(1); ok && !second.After(p.Start) {
		return nil, transfer.Errorf(transfer.KindUsage, "days are counted from %s in %s, which is not when the schedule begins", p.Wall, p.Zone)
	}
	return t, nil
}

func zoneOf(name string) (*time.Location, error) {
	if name == "" || name == "Local" || len(name) > maxZone {
		return nil, transfer.Errorf(transfer.KindUsage, "time zone %.40q is no name of a zone", name).WithHint("give one of the IANA database, as --tz Europe/Berlin or --tz UTC")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "time zone %.40q is unknown", name).WithHint("give one of the IANA database, as --tz Europe/Berlin or --tz UTC")
	}
	return zone, nil
}

// At returns the time of occurrence n; ok is false where there is none of that number.
func (t *Times) At(n int64) (at time.Time, ok bool) {
	switch e := t.Every; {
	case n < 0 || n > 0 && e.IsZero() || t.Count > 0 && n >= t.Count:
		return at, false
	case n == 0:
		return t.Start, true
	case n > int64(horizon/e.least()):
		return at, false
	case e.Months > 0:
		at = resolve(addMonths(t.wall, int(n)*e.Months), t.zone)
	case e.Days > 0:
		at = resolve(t.wall.AddDate(0, 0, int(n)*e.Days), t.zone)
	default:
		at = t.Start.Add(time.Duration(n) * e.Elapsed)
	}
	return at, (t.Until.IsZero() || !at.After(t.Until)) && at.Sub(t.Start) < horizon
}

// Due is the number of the first occurrence, from number n on, that is after now or is not at all.
func (t *Times) Due(n int64, now time.Time) int64 {
	if e := t.Every.Elapsed; e > 0 && now.After(t.Start) {
		n = max(n, min(int64(now.Sub(t.Start)/e), int64(horizon/e))) // none of those before it is after now
	}
	for {
		if at, ok := t.At(n); !ok || at.After(now) {
			break
		}
		n++
	}
	return t.last(n)
}

// last is n, or the number after the last occurrence where that is less.
func (t *Times) last(n int64) int64 {
	if t.Count > 0 {
		n = min(n, t.Count)
	}
	if e := t.Every.Elapsed; e > 0 && !t.Until.IsZero() {
		n = min(n, int64(t.Until.Sub(t.Start)/e)+1)
	}
	return n
}

// addMonths returns the date n months later. In a month that is too short that is the last day.
func addMonths(wall time.Time, n int) time.Time {
	y, m, d := wall.Date()
	first := time.Date(y, m, 1, wall.Hour(), wall.Minute(), wall.Second(), 0, time.UTC).AddDate(0, n, 0)
	return first.AddDate(0, 0, min(d, first.AddDate(0, 1, -1).Day())-1)
}

// resolve returns the moment of a date and time in a zone; wall has them as if they were UTC. A time that comes twice
// is the first; a time that does not exist is the end of the gap.
func resolve(wall time.Time, zone *time.Location) time.Time {
	const margin = 48 * time.Hour // more than any zone is away from UTC
	for at := wall.Add(-margin); ; {
		local := at.In(zone)
		_, offset := local.Zone()
		start, end := local.ZoneBounds()
		is := wall.Add(-time.Duration(offset) * time.Second)
		switch {
		case !end.IsZero() && !is.Before(end):
			at = end
		case !start.IsZero() && is.Before(start):
			return start.UTC()
		default:
			return is
		}
	}
}
