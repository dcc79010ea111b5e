package sender

import (
	"sync"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// figures are the live figures of a transfer, beyond its ledger entry. They are safe for concurrent use.
type figures struct {
	mu                       sync.Mutex
	sent, resent, held, wire int64 // bytes: of files, of files sent again, held by the destination, of chunk messages
	ahead                    int64 // bytes that this side may run ahead
	high                     map[uint64]int64
	ordered                  bool      // items end in their order: high keeps only the last one
	top                      wire.Safe // if ordered: the last item, and the end of its sent bytes
	current                  transfer.Path
	place                    int
	nextTry                  time.Time
	safe                     wire.Safe
	heard                    time.Time // last outcomes
	lane, why                string    // of the epoch, and the reason if it is not the direct one
	breaks                   int       // of the lane, with no safe point or outcome between them
	shown                    time.Time
	ended                    bool // the end was shown
}

// A snapshot is the figures that each change of the ledger entry writes.
type snapshot struct {
	sent, resent, wire, ahead int64
	lane, why                 string
	current                   transfer.Path
	found                     ledger.Totals
}

func (f *figures) snapshot(found ledger.Totals) snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return snapshot{sent: f.sent, resent: f.resent, wire: f.wire, ahead: f.ahead, lane: f.lane, why: f.why, current: f.current, found: found}
}

// put writes the figures into a transfer's progress.
func (g *snapshot) put(p *transfer.Progress) {
	p.BytesSent, p.BytesResent, p.BytesWire = g.sent, g.resent, g.wire
	p.RunAhead = max(p.RunAhead, g.ahead)
	if g.lane != "" {
		p.Lane, p.LaneReason = g.lane, g.why
	}
	if t := g.found; t != (ledger.Totals{}) {
		p.FilesTotal, p.BytesTotal, p.Walked, p.LinksSkipped, p.FilesLeftOut = t.Files, t.Bytes, t.Ended, t.Links, t.LeftOut
	}
}

// put copies the figures that no ledger entry has into a transfer's progress.
func (f *figures) put(p *transfer.Progress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.BytesHeld, p.Current, p.Place, p.NextTry = f.held, f.current, f.place, f.nextTry
}

// due reports whether the status is to be shown now: once a second, or if forced. Then it counts as shown.
func (f *figures) due(now time.Time, forced bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !forced && now.Sub(f.shown) < progressEvery {
		return false
	}
	f.shown = now
	return true
}

// showEnd reports whether the end has yet to be shown; then it counts as shown.
func (f *figures) showEnd() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.ended
	f.ended = true
	return !before
}

// count counts bytes of an item that are sent, and those among them that had been sent
// before.
func (f *figures) count(item uint64, offset, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent += n
	if f.ordered {
		switch {
		case item < f.top.Item:
			f.resent += n
		case item > f.top.Item:
			f.top = wire.Safe{Item: item, Offset: offset + n}
		default:
			f.resent += max(0, min(f.top.Offset, offset+n)-offset)
			f.top.Offset = max(f.top.Offset, offset+n)
		}
		return
	}
	high := f.high[item]
	if again := min(high, offset+n) - offset; again > 0 {
		f.resent += again
	}
	f.high[item] = max(high, offset+n)
}

// countMessage counts the bytes of a chunk message that goes to the lane.
func (f *figures) countMessage(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wire += int64(n)
}

// setCurrent records the file that is being read.
func (f *figures) setCurrent(path transfer.Path) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current = path
}

// setWaiting records the place in the destination's queue, 0 being none, and the next attempt.
func (f *figures) setWaiting(place int, next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.place, f.nextTry = place, next
}

// accepted records that an epoch will open now.
func (f *figures) accepted() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.place, f.nextTry, f.lane, f.why = 0, time.Time{}, "", ""
}

// setLane records the lane of the epoch, and returns the lane of the epoch before since ACCEPT.
func (f *figures) setLane(lane, why string) (before string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before = f.lane
	f.lane, f.why = lane, why
	return before
}

// granted records an epoch's first credit: the bytes that this side may run ahead until an acknowledgement gives them.
// A short transfer may end without one.
func (f *figures) granted(credit int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ahead == 0 {
		f.ahead = credit
	}
}

// acked takes in an ACK, and reports whether it has a new safe point.
func (f *figures) acked(a *wire.Ack) (safe bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held, f.ahead = a.Bytes, a.Ahead
	if safe = a.Safe != nil && *a.Safe != f.safe; safe {
		f.safe, f.breaks = *a.Safe, 0
	}
	return safe
}

// recorded records the time of outcomes.
func (f *figures) recorded(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard, f.breaks = now, 0
}

// recordedSince reports whether outcomes have come since a time.
func (f *figures) recordedSince(t time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heard.After(t)
}

// broke counts how often the lane has broken with no progress in between.
func (f *figures) broke() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.breaks++
	return f.breaks
}

// checkAck checks an ACK against the sent bytes: bytes reports that it counts more bytes than were sent, past that its
// safe point lies beyond them.
func (f *figures) checkAck(a *wire.Ack) (bytes, past bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ordered {
		return a.Bytes > f.sent, a.Safe != nil && (a.Safe.Item > f.top.Item || a.Safe.Item == f.top.Item && a.Safe.Offset > f.top.Offset)
	}
	return a.Bytes > f.sent, a.Safe != nil && a.Safe.Offset > f.high[a.Safe.Item]
}

// forget drops the sent offset of a decided item.
func (f *figures) forget(item uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.high, item)
}
