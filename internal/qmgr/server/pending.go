package server

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The library bounds the bytes that wait for each connection (streams.MaxPending). It does not bound their sum, and a
// client may request everything and read nothing. So the queue manager looks at the sum. Where it is too large, it cuts
// the connections that have read nothing for the longest time. An agent connects again by itself.
const (
	pendingBudget = 256 << 20              // bytes that wait, over all connections
	pendingAfter  = 3 * pendingBudget / 4  // bytes that remain after a cut
	pendingFree   = 1 << 20                // a connection with fewer bytes is never cut
	pendingIdle   = 100 * time.Millisecond // between two looks
	pendingBusy   = 25 * time.Millisecond  // when a quarter of the budget waits
	pendingShare  = 4                      // the next look waits as many times as long as a look takes
	pendingEach   = 100 * time.Microsecond // but no longer than that for each connection, and pendingIdle
	notReading    = 2 * time.Second        // without a byte taken
	// pendingKept is the time for which the library may hold the bytes of a cut connection: until the present write
	// gives up, and one more.
	pendingKept = 2 * writeDeadline
	pendingSays = 10 * time.Second // between two lines about it
)

// A waiting holds the bytes that wait for one connection.
type waiting struct {
	id      uint64
	where   string // its address
	pending int64
	taken   int64 // bytes that have gone out; it only grows while the other side reads
}

// A readerState is the state of a connection between two looks.
type readerState struct {
	taken int64
	since time.Time // it took something for the last time
}

// A slowReaders judges the connections of a queue manager.
type slowReaders struct {
	takers map[uint64]readerState
	kept   []cutBytes
}

// A cutBytes holds the bytes that the library may still hold for connections that were cut.
type cutBytes struct {
	until time.Time
	bytes int64
}

// judge returns the connections to cut, and the bytes that wait for all connections. It chooses connections that have
// stopped reading. If they are not enough, it adds those with the most waiting bytes.
func (c *slowReaders) judge(now time.Time, all []waiting) (cut []waiting, sum int64) {
	takers := make(map[uint64]readerState, len(all))
	for _, w := range all {
		t, known := c.takers[w.id]
		if !known || w.taken > t.taken || w.pending == 0 {
			t = readerState{w.taken, now}
		}
		takers[w.id] = t
		sum += w.pending
	}

	c.takers = takers
	c.kept = slices.DeleteFunc(c.kept, func(k cutBytes) bool { return now.After(k.until) })
	held := sum
	for _, k := range c.kept {
		held += k.bytes
	}

	if held <= pendingBudget {
		return nil, sum
	}

	worst := slices.Clone(all)
	slices.SortFunc(worst, func(a, b waiting) int {
		return cmp.Or(takers[a.id].since.Compare(takers[b.id].since), cmp.Compare(b.pending, a.pending))
	})
	left, gone := sum, int64(0)
	longest := time.Duration(0)
	for _, w := range worst {
		if longest == 0 && w.pending >= pendingFree {
			longest = now.Sub(takers[w.id].since)
		}
		// Connections that came together with the worst one are no better than it.
		still := now.Sub(takers[w.id].since)
		stuck := still >= notReading || sum > pendingBudget && still > longest/2 && longest > 0
		if w.pending >= pendingFree && (stuck || sum > pendingBudget && left > pendingAfter) {
			cut = append(cut, w)
			left -= w.pending
			gone += w.pending
		}
	}

	if gone > 0 {
		c.kept = append(c.kept, cutBytes{now.Add(pendingKept), gone})
	}
	return cut, sum
}

// boundPending looks at the connections until the server ends.
func (s *Server) boundPending() {
	var c slowReaders
	var said time.Time
	unsaid := 0
	timer := time.NewTimer(pendingIdle)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.Ending:
			return
		}
		start := time.Now()
		cut, sum := c.judge(start, s.waiting())
		for _, w := range cut {
			s.NS.DisconnectClientByID(w.id) // one that has gone meanwhile is no error
		}
		if unsaid += len(cut); unsaid > 0 && start.Sub(said) >= pendingSays {
			w := cmp.Or(first(cut), waiting{where: "others"})
			s.cfg.Log.Warn("connections are cut because too much waits for them to read",
				"connections", unsaid, "bytes", sum, "one", w.where, "waiting", w.pending)
			said, unsaid = start, 0
		}
		pause := pendingIdle
		if sum > pendingBudget/4 {
			pause = pendingBusy
		}
		took := min(pendingShare*time.Since(start), pendingIdle+time.Duration(len(c.takers))*pendingEach)
		timer.Reset(max(pause, took))
	}
}

func first(all []waiting) (w waiting) {
	if len(all) > 0 {
		w = all[0]
	}
	return w
}

// waiting returns the bytes that wait for each connection.
func (s *Server) waiting() []waiting {
	z, err := s.NS.Connz(&server.ConnzOptions{Limit: mostListed})
	if err != nil {
		return nil // its options are right, or it is shutting down
	}
	all := make([]waiting, len(z.Conns))
	for n, c := range z.Conns {
		where := c.Name // of one that came through a gate, or is in this process
		if c.IP != "" {
			where = net.JoinHostPort(c.IP, strconv.Itoa(c.Port))
		}
		all[n] = waiting{id: c.Cid, where: where, pending: int64(c.Pending), taken: c.OutBytes - int64(c.Pending)}
	}
	return all
}

// mostListed is more than the library takes connections.
const mostListed = 1 << 20
