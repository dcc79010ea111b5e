package qmgr

import (
	"context"
	"log/slog"
	"net"
	"time"

	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/sleep"
	"ferry/internal/sys/tcp"
)

const (
	quickly = 5 // looks in the time between two probes
	// otherTrafficMost is the time for which a connection need not answer while another one to the same host carries bytes.
	otherTrafficMost = 30 * time.Second
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
	probeTimeout:  link.ProbeTimeout,
	ackWait:       streams.AckWait,
	pullHeartbeat: 2 * time.Second,
}

// watch cuts a link that no longer carries anything. TCP alone would continue to send into a broken path at ever longer
// intervals, and be minutes late when the path is whole again; a link that was cut tries every 2 s.
//
// watch also measures the round trip: five times as often while the link is used.
func (c *Conn) watch(l *link.Link) {
	before := l.Socket.Load().Traffic()
	var cut *link.Socket // the last one that was cut; the next connection replaces it
	var s unanswered
	for n := 1; !sleep.For(c.base.Ctx, c.cfg.times.probeEvery/quickly, nil); n++ {
		sock := l.Socket.Load()
		if sock == cut {
			continue
		}
		if !tcp.AddressIsLocal(sock.Conn) {
			c.cfg.Log.Warn("the address of this host has changed; connecting anew", slog.String("connection", l.Role))
			cut = sock
			sock.Close()
			continue
		}
		if now := sock.Traffic(); n%quickly != 0 && now == before {
			continue
		} else {
			before = now
		}
		others := otherTraffic(c, sock)
		alive := l.Alive(sock, c.cfg.times.probeTimeout)
		if !alive { // once more: one lost probe proves nothing
			alive = l.Alive(sock, c.cfg.times.probeTimeout)
		}
		if !s.over(alive, otherTraffic(c, sock) != others, time.Now()) || c.base.Ctx.Err() != nil {
			continue
		}
		c.cfg.Log.Warn("the queue manager connection carries nothing; connecting anew", slog.String("connection", l.Role))
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
	if beside && now.Sub(s.since) < otherTrafficMost {
		return false
	}
	s.since = time.Time{}
	return true
}

// otherTraffic changes when another connection to the host of a socket shows a sign of life.
func otherTraffic(c *Conn, of *link.Socket) (sum link.Traffic) {
	host := func(s *link.Socket) string {
		host, _, _ := net.SplitHostPort(s.RemoteAddr().String())
		return host
	}
	for _, l := range []*link.Link{c.control, c.data, c.bulk.link} {
		if s := l.Socket.Load(); s != nil && s != of && host(s) == host(of) {
			p := s.Traffic()
			sum.In, sum.Held = sum.In+p.In, sum.Held+p.Held
		}
	}
	return sum
}

// delayMost is the largest result of Delay. A wait of several Delays must not last long after the link is back.
const delayMost = 1500 * time.Millisecond

// Delay returns the present time of a message to the queue manager and its answer on the control connection, 1.5 s at
// most. It is measured every five seconds, and every second while messages come and go.
func (c *Conn) Delay() time.Duration {
	last, _ := c.control.Trip.Times()
	return min(last, delayMost)
}

// Lag returns the part of Delay that is spent waiting for the link behind other messages.
func (c *Conn) Lag() time.Duration {
	last, least := c.control.Trip.Times()
	return max(0, last-least)
}

// Lost returns how often a connection to the queue manager was lost so far. Messages stored before the last loss may be
// lost with it.
func (c *Conn) Lost() int {
	c.base.Mu.Lock()
	defer c.base.Mu.Unlock()
	return c.base.Links.Downs
}

// notify calls OnConnect and OnDisconnect. Before OnConnect it learns the facts
// again and checks the streams: the queue manager may be another one, or the
// same with an empty store.
func (c *Conn) notify() {
	told, seenUps, seenDowns := false, 0, 0
	for first := true; ; first = false {
		c.base.Mu.Lock()
		ups, downs, why := c.base.Links.Ups, c.base.Links.Downs, c.base.Links.Why
		c.base.Mu.Unlock()
		if downs != seenDowns && told {
			told = false
			c.disconnected(why)
		}
		seenDowns = downs
		if ups != seenUps && c.control.Up.Load() && c.data.Up.Load() {
			seenUps = ups
			c.connected(first)
			told = true
		}
		select {
		case <-c.base.Wake:
		case <-c.base.Ctx.Done():
			return
		}
	}
}

func (c *Conn) connected(first bool) {
	if !first {
		c.cfg.Log.Info("connected to the queue manager again", slog.String("at", managerAddress(c)))
		c.learn(c.base.Ctx)
		ctx, cancel := context.WithTimeout(c.base.Ctx, streams.APITimeout)
		defer cancel()
		if err := c.Ensure(ctx); err != nil {
			c.cfg.Log.Warn("the queue manager's streams cannot be checked", slog.Any("error", err))
		}
	}
	if c.cfg.OnConnect != nil && c.base.Ctx.Err() == nil {
		c.cfg.OnConnect()
	}
}

func (c *Conn) disconnected(why error) {
	if c.base.Ctx.Err() != nil {
		return
	}
	if why == nil {
		why = c.base.Away()
	}
	c.cfg.Log.Warn("the queue manager connection is lost", slog.String("at", c.base.Where), slog.Any("error", why))
	if c.cfg.OnDisconnect != nil {
		c.cfg.OnDisconnect(why)
	}
}
