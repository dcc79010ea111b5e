package flow

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// A Timetable has the limits of a sending rate, by the hour and the day of the week. The zero Timetable has no limit.
type Timetable []Slot

// A Slot is a rate and its begin. It holds until the next slot begins.
type Slot struct {
	Daily bool // on every day; otherwise on Day
	Day   time.Weekday
	At    int   // minutes since midnight, local time
	Rate  int64 // bytes a second; 0: no limit
}

// maxSlots bounds the entries of a timetable.
const maxSlots = 64

var days = [...]string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// ParseTimetable reads a rate (10M, 512K, off) in bytes a second, or a timetable in the form of rclone's --bwlimit:
// "08:00,512K 19:00,10M 23:00,off". Entries may have days of the week: "Mon-08:00,1M Sat-00:00,off". Its errors are of
// KindUsage.
func ParseTimetable(s string) (Timetable, error) {
	fields := strings.Fields(s)
	switch {
	case len(fields) > maxSlots:
		return nil, transfer.Errorf(transfer.KindUsage, "a timetable has %d entries; the limit is %d", len(fields), maxSlots)
	case len(fields) == 0:
		return nil, transfer.Errorf(transfer.KindUsage, "a limit is empty; write it as 10M, off, or \"08:00,512K 19:00,off\"")
	case len(fields) == 1 && !strings.Contains(s, ","):
		rate, err := ParseRate(fields[0])
		if err != nil || rate == 0 {
			return nil, err
		}
		return Timetable{{Daily: true, Rate: rate}}, nil
	}

	var t Timetable
	for _, f := range fields {
		slot, err := parseSlot(f)
		if err != nil {
			return nil, err
		}
		t = append(t, slot)
	}
	return t, nil
}

// ParseRate reads a rate in bytes a second, as 512K, of 1K or more. off is 0. Its errors are of KindUsage.
func ParseRate(s string) (int64, error) {
	if strings.EqualFold(s, "off") {
		return 0, nil
	}
	n, err := transfer.ParseSize(s)
	switch {
	case err != nil:
		return 0, transfer.Errorf(transfer.KindUsage, "rate %q is malformed; write it as 512K, 10M or off, in bytes a second", s)
	case n < transfer.MinRate:
		return 0, transfer.Errorf(transfer.KindUsage, "rate %s is too low; it begins at 1K, 1,024 bytes a second", s)
	}
	return int64(n), nil
}

func parseSlot(s string) (slot Slot, err error) {
	bad := transfer.Errorf(transfer.KindUsage, "%q is no entry of a timetable; write it as 08:00,512K or Mon-08:00,512K", s)
	when, rate, ok := strings.Cut(s, ",")
	if !ok {
		return slot, bad
	}

	if day, at, ok := strings.Cut(when, "-"); ok {
		n := -1
		for k, d := range days {
			if strings.EqualFold(d, day) {
				n = k
			}
		}
		if n < 0 {
			return slot, bad
		}
		slot.Day, when = time.Weekday(n), at
	} else {
		slot.Daily = true
	}

	hour, minute, ok := strings.Cut(when, ":")
	h, err1 := strconv.ParseUint(hour, 10, 8)
	m, err2 := strconv.ParseUint(minute, 10, 8)
	if !ok || err1 != nil || err2 != nil || h > 23 || m > 59 || len(minute) != 2 {
		return slot, bad
	}

	slot.At = int(h)*60 + int(m)
	slot.Rate, err = ParseRate(rate)
	return slot, err
}

// String returns the timetable in the form of ParseTimetable.
func (t Timetable) String() string {
	if len(t) == 0 {
		return "off"
	}

	if len(t) == 1 && t[0].Daily && t[0].At == 0 {
		return formatRate(t[0].Rate)
	}

	var all []string
	for _, s := range t {
		text := fmt.Sprintf("%02d:%02d,%s", s.At/60, s.At%60, formatRate(s.Rate))
		if !s.Daily {
			text = days[s.Day] + "-" + text
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func formatRate(n int64) string {
	switch {
	case n == 0:
		return "off"
	case n%(1<<20) == 0:
		return fmt.Sprintf("%dM", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%dK", n>>10)
	}
	return strconv.FormatInt(n, 10)
}

// RateAt returns the rate at a time, in bytes a second, or 0 for no limit. It is the rate of the slot that began last,
// perhaps days before.
func (t Timetable) RateAt(now time.Time) int64 {
	if len(t) == 0 {
		return 0
	}

	minute := now.Hour()*60 + now.Minute()
	for back := range 8 {
		day, best := time.Weekday((int(now.Weekday())-back+7)%7), -1
		for n, s := range t {
			if (s.Daily || s.Day == day) && (back > 0 || s.At <= minute) && (best < 0 || s.At >= t[best].At) {
				best = n
			}
		}
		if best >= 0 {
			return t[best].Rate
		}
	}
	return 0
}

// pacerSlack is the most delay that a Pacer compensates after bytes were sent late.
const pacerSlack = 50 * time.Millisecond

// A Pacer spaces bytes so that a rate is kept. It does not save up idle time. Bytes already sent count at the rate of
// the next request, so that a change of the rate takes effect at once. The zero Pacer is ready.
type Pacer struct {
	at time.Time // when the last bytes were sent
	n  int64     // number of the last bytes
}

// Due returns the time when the next bytes may be sent, at a rate above 0.
func (p *Pacer) Due(rate int64) time.Time {
	return p.at.Add(time.Duration(float64(p.n) / float64(rate) * float64(time.Second)))
}

// Sent records n bytes as sent at their due time, or at most pacerSlack before now.
func (p *Pacer) Sent(now time.Time, n, rate int64) {
	due := p.Due(rate)
	if least := now.Add(-pacerSlack); due.Before(least) {
		due = least
	}
	p.at, p.n = due, n
}

// Portion returns the most bytes of a message at a rate: a twentieth of a second's bytes, and at least the smallest
// chunk.
func Portion(rate int64) int64 { return max(rate/20, transfer.MinChunk) }
