package qmgr

import (
	"sync"
	"time"
)

// Limits of an amount.
const (
	// amountWorth is the time that an amount is worth at the measured rate.
	amountWorth = time.Second
	// amountFirst is the amount while no rate is known, and amountLeast the least: two seconds and half a second of
	// the slowest line.
	amountFirst = 16 << 10
	amountLeast = 4 << 10
	amountGrows = 4 // times as much as before, at most
)

// An amount is how much is asked for, or sent, at once. It follows the rate at which the ones before went over the
// line. All methods may be called from any goroutine. The zero value is ready.
type amount struct {
	mu   sync.Mutex
	now  int       // 0: no rate is known
	last time.Time // when the last ones were over the line
}

// bytes are the present amount, most at most.
func (a *amount) bytes(most int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == 0 {
		return min(amountFirst, most)
	}
	return min(max(a.now, amountLeast), most)
}

// took says that so many bytes went over the line since a time, or since the ones before them were over it, which is
// now. Few bytes say little of a rate: they can raise it alone.
func (a *amount) took(bytes int, began time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.last.After(began) {
		began = a.last
	}
	a.last = now
	worth := int(float64(bytes) / max(now.Sub(began), time.Microsecond).Seconds() * amountWorth.Seconds())
	before := a.now
	if before == 0 {
		before = amountFirst
	}
	if worth = min(worth, amountGrows*before); worth >= before || 2*bytes >= before {
		a.now = max(worth, amountLeast)
	}
}
