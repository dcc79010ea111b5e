package qmgr

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/sleep"
	"ferry/internal/sys/tcp"
)

const (
	probeTimeout = 3 * time.Second
	quickly      = 5 // looks in the time between two probes
	// besideMost is the time for which a connection need not answer while another one to the same host carries bytes.
	besideMost = 30 * time.Second
)

// times are the durations that tests shorten.
type times struct {
	probeEvery   time.Duration // between two looks of the watchdog
	probeTimeout time.Duration
	ackWait      time.Duration // see the constant
	// pullHeartbeat is the interval of the queue manager's signs of life for a pull, on a link without delay.
	pullHeartbeat time.Duration
}

var defaultTimes = times{
	probeEvery:    5 * time.Second,
	probeTimeout:  probeTimeout,
	ackWait:       streams.AckWait,
	pullHeartbeat: 2 * time.Second,
}

// watch cuts a link that no longer carries anything. TCP alone would continue to send into a broken path at ever longer
// intervals, and be minutes late when the path is whole again; a link that was cut tries every 2 s.
//
// watch also measures the round trip: five times as often while the link is used.
func (c *Conn) watch(l *link) {
	before := l.socket.Load().pulse()
	var cut *socket // the last one that was cut; the next connection replaces it
	var s unanswered
	for n := 1; !sleep.For(c.ctx, c.cfg.times.probeEvery/quickly, nil); n++ {
		sock := l.socket.Load()
		if sock == cut {
			continue
		}
		if !tcp.Stands(sock.Conn) {
			c.cfg.Log.Warn("the address of this host has changed; connecting anew", slog.String("connection", l.role))
			cut = sock
			sock.Close()
			continue
		}
		if now := sock.pulse(); n%quickly != 0 && now == before {
			continue
		} else {
			before = now
		}
		others := beside(c, sock)
		alive := l.alive(sock, c.cfg.times.probeTimeout)
		if !alive { // once more: one lost probe proves nothing
			alive = l.alive(sock, c.cfg.times.probeTimeout)
		}
		if !s.over(alive, beside(c, sock) != others, time.Now()) || c.ctx.Err() != nil {
			continue
		}
		c.cfg.Log.Warn("the queue manager connection carries nothing; connecting anew", slog.String("connection", l.role))
		// The library's ForceReconnect would wait for a write that is stuck.
		cut = sock
		sock.Close()
	}
}

// An unanswered decides whether to cut a connection that does not answer. If others to the same host carry bytes, the
// link is full, and the system sends lost packets of this one again, later each time. A new connection would have to
// wait as well.
type unanswered struct{ since time.Time } // zero: the connection answers

// over takes whether the connection was alive at a look, and whether others carried bytes meanwhile.
func (s *unanswered) over(alive, beside bool, now time.Time) bool {
	switch {
	case alive:
		s.since = time.Time{}
		return false
	case s.since.IsZero():
		s.since = now
	}
	if beside && now.Sub(s.since) < besideMost {
		return false
	}
	s.since = time.Time{}
	return true
}

// beside changes when another connection to the host of a socket shows a sign of life.
func beside(c *Conn, of *socket) (sum pulse) {
	host := func(s *socket) string {
		host, _, _ := net.SplitHostPort(s.RemoteAddr().String())
		return host
	}
	for _, l := range []*link{c.control, c.data, c.bulk.link} {
		if s := l.socket.Load(); s != nil && s != of && host(s) == host(of) {
			p := s.pulse()
			sum.in, sum.held = sum.in+p.in, sum.held+p.held
		}
	}
	return sum
}

// alive reports whether there is a reason to leave the link's socket alone: it
// answers, something moves on it, or it is being replaced already.
func (l *link) alive(sock *socket, timeout time.Duration) bool {
	before := sock.pulse()
	acked, _ := tcp.Acked(sock.Conn)
	ctx, cancel := context.WithTimeout(l.c.ctx, timeout)
	defer cancel()
	if l.roundTrip(ctx) == nil {
		return true
	}

	// On a slow link the question itself may be behind others: the other host takes them in, and there are more.
	if now, more := tcp.Acked(sock.Conn); more && now > acked {
		return true
	}
	return !l.up.Load() || l.socket.Load() != sock || sock.pulse() != before
}

// A trip measures round trips to the queue manager. The zero value is ready.
type trip struct {
	mu          sync.Mutex
	last, least time.Duration
	began       time.Time // of the newest that is under way; zero: none
	asked, told time.Time // of the newest that was answered, its beginning and its end
}

func (t *trip) begin() (now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = time.Now()
	return t.began
}

// end ends a round trip. A trip without an answer shows only that the time is longer.
func (t *trip) end(began time.Time, answered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = time.Time{}
	t.last = time.Since(began)
	if answered && (t.least == 0 || t.last < t.least) {
		t.least = t.last
	}
	if answered && began.After(t.asked) {
		t.asked, t.told = began, time.Now()
	}
}

// had returns the least time for which the other side has had a message that was sent at a moment: a round trip that
// began later was answered. It is 0 if that is not known.
func (t *trip) had(sent, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asked.After(sent) {
		return 0
	}
	return now.Sub(t.told)
}

// forget drops the last round trip: the connection is new.
func (t *trip) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.began = t.least, time.Time{}
}

// times returns the shortest round trip, and the last one, or the one in progress if that takes longer already.
func (t *trip) times() (last, least time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last = t.last
	if !t.began.IsZero() {
		last = max(last, time.Since(t.began))
	}
	return last, t.least
}

// delayMost is the largest result of Delay. A wait of several Delays must not last long after the link is back.
const delayMost = 1500 * time.Millisecond

// Delay returns the present time of a message to the queue manager and its answer on the control connection, 1.5 s at
// most. It is measured every five seconds, and every second while messages come and go.
func (c *Conn) Delay() time.Duration {
	last, _ := c.control.trip.times()
	return min(last, delayMost)
}

// Lag returns the part of Delay that is spent waiting for the link behind other messages.
func (c *Conn) Lag() time.Duration {
	last, least := c.control.trip.times()
	return max(0, last-least)
}

// Lost returns how often a connection to the queue manager was lost so far. Messages stored before the last loss may be
// lost with it.
func (c *Conn) Lost() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.links.downs
}

// notify calls OnConnect and OnDisconnect. Before OnConnect it learns the facts
// again and checks the streams: the queue manager may be another one, or the
// same with an empty store.
func (c *Conn) notify() {
	told, seenUps, seenDowns := false, 0, 0
	for first := true; ; first = false {
		c.mu.Lock()
		ups, downs, why := c.links.ups, c.links.downs, c.links.why
		c.mu.Unlock()
		if downs != seenDowns && told {
			told = false
			c.disconnected(why)
		}
		seenDowns = downs
		if ups != seenUps && c.control.up.Load() && c.data.up.Load() {
			seenUps = ups
			c.connected(first)
			told = true
		}
		select {
		case <-c.wake:
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *Conn) connected(first bool) {
	if !first {
		c.cfg.Log.Info("connected to the queue manager again", slog.String("at", here(c)))
		c.learn(c.ctx)
		ctx, cancel := context.WithTimeout(c.ctx, streams.APITimeout)
		defer cancel()
		if err := c.Ensure(ctx); err != nil {
			c.cfg.Log.Warn("the queue manager's streams cannot be checked", slog.Any("error", err))
		}
	}
	if c.cfg.OnConnect != nil && c.ctx.Err() == nil {
		c.cfg.OnConnect()
	}
}

func (c *Conn) disconnected(why error) {
	if c.ctx.Err() != nil {
		return
	}
	if why == nil {
		why = c.away()
	}
	c.cfg.Log.Warn("the queue manager connection is lost", slog.String("at", c.where), slog.Any("error", why))
	if c.cfg.OnDisconnect != nil {
		c.cfg.OnDisconnect(why)
	}
}
