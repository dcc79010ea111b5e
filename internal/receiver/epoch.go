package receiver

import (
	"time"

	"ferry/internal/content/conversion"
	"ferry/internal/flow"
	"ferry/internal/receiver/writing"
	"ferry/internal/wire"
)

// An epoch is the state of the messages between one ACCEPT or RESYNC and the next. Each new epoch replaces the whole
// value. The zero value is no open epoch.
type epoch struct {
	writing.Epoch
	account *flow.Account // credit; a RESYNC passes it to the next epoch
	direct  bool          // ACCEPT named the direct lane
	begun   bool          // the first message is here
	next    uint64        // the sequence that is due

	// The messages that opened the epoch, repeated until it has begun.
	accept  *wire.Message // nil after a RESYNC
	resyncs *wire.Message
	openDue time.Time // zero: not

	// The acknowledgements that the source is owed.
	unacked int64         // credit used since the last ACK
	ask     bool          // it waits for an ACK
	ackDue  time.Time     // zero: not
	granted []granted     // the announced limits that are not used up, oldest first
	trip    time.Duration // the shortest round trip
	trips   int           // number of measured round trips

	silentAt time.Time // when the source counts as silent
}

// following returns the epoch after this one, on the same lane and with the same credit.
func (e *epoch) following(silentAt time.Time) epoch {
	return epoch{Epoch: writing.Epoch{Live: true}, account: e.account, direct: e.direct, next: 1, silentAt: silentAt}
}

// take writes the frames of the message that is due, and uses their credit. Only a message that was taken in is
// acknowledged. It reports false if the epoch ends there: the source sends the message again.
func (e *epoch) take(w *writing.Writer, frames []wire.Frame, absent *conversion.Pair) bool {
	for n := range frames {
		if !w.Write(&frames[n], absent) {
			return false
		}
		cost := frames[n].Cost(flow.BeginCost)
		e.account.Use(cost)
		e.unacked += cost
	}
	e.next++
	return true
}

// empty reports whether the epoch has brought at most its first message, without data. A source with an absent root
// or a broken lane opens one such epoch after another. It keeps its slot only while no other source waits for one.
func (e *epoch) empty() bool { return e.next <= 2 && e.Taken == 0 }

// grant returns the limit to which the source may send now, and records the time of a higher limit.
func (e *epoch) grant(now time.Time) (limit int64) {
	limit = e.account.Grant()
	if n := len(e.granted); (n == 0 || limit > e.granted[n-1].limit) && n < maxGranted {
		e.granted = append(e.granted, granted{limit, now})
	}
	return limit
}

// A path is long if new credit takes longPath and more to bring new data, each
// of longSigns times. A busy host alone seldom looks like that; if it does, a crash
// costs more bytes, and nothing else.
const (
	longPath  = 20 * time.Millisecond
	longSigns = 8
)

// A granted is an announced limit with its time.
type granted struct {
	limit int64
	at    time.Time
}

// maxGranted is how many limits are kept: an epoch has an ACK for each part of its credit in flight.
const maxGranted = 256

// starved records that the sender had to wait for credit before the next message. chunk is the size of its chunks in
// bytes. If this side was idle then, the sender waited for the first limit beyond its use. The time since the
// announcement of that limit is a round trip. It reports whether even the shortest round trip is long, so that the
// run-ahead should grow. On a short path a longer run-ahead would only make a crash cost more.
func (e *epoch) starved(now time.Time, chunk int, idle bool) (long bool) {
	used := e.account.Used() + int64(chunk)/4 // it waits for a quarter of a chunk
	for len(e.granted) > 0 && e.granted[0].limit < used {
		e.granted = e.granted[1:]
	}
	if !idle || len(e.granted) == 0 {
		return false
	}
	trip := now.Sub(e.granted[0].at)
	if e.trips++; e.trips == 1 || trip < e.trip {
		e.trip = trip
	}
	return e.trips >= longSigns && e.trip >= longPath
}

// repeat returns the message that opened the epoch, for a source that has not begun it; nil: none. RESYNC is repeated
// every second, and ACCEPT once a second at most while messages of an earlier epoch come.
func (e *epoch) repeat(now time.Time) *wire.Message {
	e.openDue = time.Time{}
	if e.resyncs != nil {
		e.openDue = now.Add(resyncRepeat)
		return e.resyncs
	}
	return e.accept
}
