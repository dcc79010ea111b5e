package transfer

import "math"

// A modification time is in nanoseconds since 1970, so it lies between 1677-09-21 and 2262-04-11.
// A file system may have others. These two stand for them: they sort rightly, and no file gets them.
const (
	TimeBefore = math.MinInt64 // earlier than any other
	TimeAfter  = math.MaxInt64 // later than any other
)

// UnixNano is a time of seconds and nanoseconds since 1970 as a modification time.
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

// KnownTime reports whether a modification time can be given to a file.
func KnownTime(mtime int64) bool { return mtime != TimeBefore && mtime != TimeAfter }
