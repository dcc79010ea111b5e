package qmgr

import (
	"cmp"
	"sync"
	"time"

	"ferry/internal/qmgr/errands"
)

// Limits of an amount.
const (
	// takenTime is the time that the link needs for one answer at the measured rate. The next answer is on the link
	// with it. Other messages wait behind both. Data that leave stand still until their acknowledgements arrive. The
	// shortest round trip of the link is added.
	takenTime = 150 * time.Millisecond
	// takenLeast is the smallest amount for an answer: a question and the head of its answer have 1 KiB.
	takenLeast = 6 << 10
	// givenTime is the time that the link needs for a batch of messages. One batch is on the link.
	givenTime = 1500 * time.Millisecond
	// heardTime is the time that the link needs for a page of a list, or for a message that is stored.
	heardTime = 2 * time.Second
	// amountFirst is the amount while no rate is known, and amountLeast the least: a second and half a second of the
	// slowest link.
	amountFirst = 8 << 10
	amountLeast = 4 << 10
	amountGrows = 4 // times as much as before, at most
)

// The amounts of a Conn.
type amounts struct {
	taken, given  amount // of application queues
	heard, stored amount // of answers, and of messages that are stored
}

func newAmounts() amounts {
	return amounts{amount{linkTime: takenTime, least: takenLeast}, amount{linkTime: givenTime}, amount{linkTime: heardTime}, amount{linkTime: heardTime}}
}

// Room returns the largest size in bytes for the answer to a Request: as many bytes as the link carries in about two
// seconds, by the measurements of earlier answers.
func Room(c *Conn) int { return c.amounts.heard.bytes(errands.MaxAnswer) }

// Batch returns the largest size in bytes for a message to be stored: as many bytes as the link carries in about two
// seconds, by the measurements of earlier messages.
func Batch(c *Conn, most int) int { return c.amounts.stored.bytes(most) }

// An amount is the number of bytes to request, or to send, at once. It follows the transfer rate of earlier amounts.
// All methods may be called from any goroutine.
type amount struct {
	linkTime time.Duration // at that rate
	least    int           // 0: amountLeast

	mu    sync.Mutex
	now   int           // 0: no rate is known
	asked int           // the last result of bytes
	last  time.Time     // end of the last transfer over the link
	trip  time.Duration // comes on top of worth
}

// bytes returns the present amount, at most most.
func (a *amount) bytes(most int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked = min(a.now, most); a.now == 0 {
		a.asked = min(amountFirst, most)
	}
	return a.asked
}

// took records that the link has now carried so many bytes since began, or since the bytes before them arrived. Few
// bytes do not measure a rate: they can only raise it.
func (a *amount) took(bytes int, began time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, before := time.Now(), a.now
	if before == 0 {
		before = amountFirst
	}
	if a.last.After(began) {
		began = a.last
	}
	a.last = now
	worth := int(float64(bytes) / max(now.Sub(began), time.Microsecond).Seconds() * (a.linkTime + a.trip).Seconds())
	if worth = min(worth, amountGrows*before); worth >= before || 2*bytes >= a.asked {
		a.now = max(worth, cmp.Or(a.least, amountLeast))
	}
}

// answered is took for an answer in parts: the first one, and those behind it. The question was asked at asked. The
// time before the first part does not count for the link. trip is the shortest round trip: the next question takes so
// long.
func (a *amount) answered(bytes, first int, asked, came time.Time, trip time.Duration) {
	a.mu.Lock()
	a.trip = trip
	a.mu.Unlock()
	if 2*first > bytes { // the bytes behind it are too few to measure a rate
		a.took(bytes, asked)
		return
	}
	a.took(bytes-first, came)
}
