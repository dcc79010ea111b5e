package faulty

import (
	"sync"
	"time"
	"unsafe"

	"ferry/internal/clock"
)

// A Clock is a host's clock whose time of day jumps when it is told to, while
// its timers go on by monotonic time: what the administrator, NTP or a virtual
// machine's resume does to a process. Its readings are those of a host: time of
// day and monotonic, so that the difference of two readings of one process is
// what has passed, and the difference to a time that was read from disk or from
// a message is what the jumps have made of it.
//
// In a synctest bubble it runs on the bubble's time, which has no monotonic
// reading of its own; the Clock adds one.
type Clock struct {
	start time.Time

	mu   sync.Mutex
	jump time.Duration
}

// NewClock makes a clock that is right.
func NewClock() *Clock {
	c := &Clock{start: time.Now()}
	before := c.Now()
	c.Jump(-time.Hour)
	after := c.Now()
	c.Jump(time.Hour)
	if d := after.Sub(before); d < 0 || d > time.Minute || after.Round(0).After(before.Round(0)) {
		panic("faulty: package time no longer keeps its readings as they are made here")
	}
	return c
}

// Jump moves the time of day. The process is not told, as it never is.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jump += d
}

// Off is how far the time of day is from the right one.
func (c *Clock) Off() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jump
}

// reading is how package time keeps a reading that has a monotonic part.
type reading struct {
	wall uint64 // a bit that says so, seconds since 1885 in 33, nanoseconds in 30
	ext  int64  // the monotonic part
	loc  *time.Location
}

const (
	hasMonotonic = 1 << 63
	nanoBits     = 30
)

// year1885 is where the seconds of a reading begin.
var year1885 = time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// Now is the time of day with its jumps, and the monotonic reading without.
func (c *Clock) Now() time.Time {
	now := time.Now()
	mono := now.Sub(c.start) + 1 // while both have what now has
	day := now.Round(0).Add(c.Off())
	r := (*reading)(unsafe.Pointer(&now))
	if r.wall&hasMonotonic == 0 {
		r.ext, r.loc = int64(mono), time.Local
	}
	r.wall = hasMonotonic | uint64(day.Unix()-year1885)<<nanoBits | uint64(day.Nanosecond())
	return now
}

// NewTimer fires d from now, whatever the time of day does.
func (c *Clock) NewTimer(d time.Duration) clock.Timer { return clock.System.NewTimer(d) }
