//go:build unix

package descriptor

import (
	"math"

	"golang.org/x/sys/unix"
)

// Limit is how many descriptors this process may have, after its soft limit has been
// raised to the hard one. Go's runtime raises it at the start, and what is run from
// here gets the old one back; that it was raised is made sure of here, for a process
// whose limit was changed since.
func Limit() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return Unlimited
	}
	if l.Cur < l.Max {
		up := unix.Rlimit{Cur: l.Max, Max: l.Max}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &up) == nil {
			l = up
		}
	}
	return int(min(uint64(l.Cur), math.MaxInt32))
}
