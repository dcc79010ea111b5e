//go:build unix

package descriptor

import (
	"math"

	"golang.org/x/sys/unix"
)

// Limit returns how many descriptors this process may have, and raises its soft limit to the hard one. Go's runtime
// raises it at the start, and gives the old one to child processes. Limit raises it again for a process with a limit
// that was changed since.
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
