package transfer

import "math"

// A modification time is in nanoseconds since 1970, so it lies between 1677-09-21 and 2262-04-11. A file system may
// have times outside that range. These two constants stand for them: they sort correctly, and no file gets them.
const (
	TimeBefore = math.MinInt64 // earlier than any other
	TimeAfter  = math.MaxInt64 // later than any other
)

// UnixNano returns a time in seconds and nanoseconds since 1970 as a modification time.
func UnixNano(sec int64, nsec int64) int64 {
	const most = math.MaxInt64/1_000_000_000 - 1
	switch {
	case sec > most:
		return TimeAfter
	case sec < -most:
		return TimeBefore
	}
	return sec*1_000_000_000 + nsec
}

// KnownTime reports whether a file can get this modification time.
func KnownTime(mtime int64) bool { return mtime != TimeBefore && mtime != TimeAfter }
