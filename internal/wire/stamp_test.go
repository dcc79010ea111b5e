package wire

import (
	"testing"
	"time"
)

// A clock outside the years 1970 to 9999 gives an ACK no time, instead of one that the peer rejects.
func TestStamp(t *testing.T) {
	for year, said := range map[int]bool{1960: false, 1971: true, 2026: true, 9999: true, 10000: false} {
		now := time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
		a := Ack{Epoch: 1, At: Stamp(now)}
		if what := a.check(); what != "" || said != a.Time().Equal(now) || said == a.Time().IsZero() {
			t.Errorf("in the year %d an ACK has the time %d: %s", year, a.At, what)
		}
	}
}
