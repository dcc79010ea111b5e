package xml

import (
	"strconv"
	"time"
)

func seconds(d time.Duration) int {
	if d < 0 {
		return -1
	}
	return int(d / time.Second)
}

// size returns a number of bytes in the largest unit that divides it.
func size(n int64) string {
	unit := ""
	for _, larger := range []string{"K", "M", "G"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, larger
	}
	return strconv.FormatInt(n, 10) + unit
}
