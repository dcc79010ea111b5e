package faulty

import (
	"sync"
	"time"
	"unsafe"

	"ferry/internal/sys/clock"
)

// A Clock is a host's clock with a time of day that jumps on command, while its timers follow monotonic time. An
// administrator, NTP or the resume of a virtual machine have that effect on a process. Its readings have both times,
// like a host's. So the difference of two readings of one process is the elapsed time. The difference to a time from a
// disk or a message includes the jumps.
//
// In a synctest bubble the Clock uses the bubble's time, which has no monotonic reading. The Clock adds one.
type Clock struct {
	start time.Time

	mu   sync.Mutex
	jump time.Duration
}

// NewClock returns a clock with the right time.
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

// Jump moves the time of day. The process is not informed, as on a host.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jump += d
}

// Off returns the difference of the time of day from the right time.
func (c *Clock) Off() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jump
}

// A reading is package time's representation of a time with a monotonic part.
type reading struct {
	wall uint64 // a flag of the monotonic part, seconds since 1885 in 33 bits, nanoseconds in 30
	ext  int64  // the monotonic part
	loc  *time.Location
}

const (
	hasMonotonic = 1 << 63
	nanoBits     = 30
)

// year1885 is the origin of the seconds of a reading.
var year1885 = time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// Now returns the time of day with its jumps, and the monotonic reading without them.
func (c *Clock) Now() time.Time {
	now := time.Now()
	mono := now.Sub(c.start) + 1 // while the layout of both is known
	day := now.Round(0).Add(c.Off())
	r := (*reading)(unsafe.Pointer(&now))
	if r.wall&hasMonotonic == 0 {
		r.ext, r.loc = int64(mono), time.Local
	}
	r.wall = hasMonotonic | uint64(day.Unix()-year1885)<<nanoBits | uint64(day.Nanosecond())
	return now
}

// NewTimer returns a timer that fires after d, independent of the time of day.
func (c *Clock) NewTimer(d time.Duration) clock.Timer { return clock.System.NewTimer(d) }
