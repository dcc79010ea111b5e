package qmgr

import (
	"context"
	"log/slog"
	"time"
)

const probeTimeout = 3 * time.Second

// times are what tests make short.
type times struct {
	probeEvery   time.Duration // between two looks of the watchdog
	probeTimeout time.Duration
	ackWait      time.Duration // see defaultTimes
}

var defaultTimes = times{
	probeEvery:   5 * time.Second,
	probeTimeout: probeTimeout,
	// How long a message that was lost on its way, or whose handler died, is
	// held back before it is delivered again. A handler that runs holds its
	// message for as long as it runs.
	ackWait: 6 * time.Second,
}

// watch cuts a link that no longer carries anything. TCP alone would go on
// sending into a broken path at ever longer intervals, and be minutes late when
// the path is whole again; a link that was cut tries every 2 s.
func (c *Conn) watch(l *link) {
	for !sleep(c.ctx, c.cfg.times.probeEvery, nil) {
		sock := l.socket.Load()
		alive := l.alive(sock, c.cfg.times.probeTimeout)
		if !alive { // once more: one lost probe proves nothing
			alive = l.alive(sock, c.cfg.times.probeTimeout)
		}
		if alive || c.ctx.Err() != nil {
			continue
		}
		c.cfg.Log.Warn("the queue manager connection carries nothing; connecting anew", slog.String("connection", l.role))
		// The library's ForceReconnect would wait for a write that is stuck.
		sock.Close()
	}
}

// alive reports whether there is a reason to leave the link's socket alone: it
// answers, something moves on it, or it is being replaced already.
func (l *link) alive(sock *socket, timeout time.Duration) bool {
	before := sock.pulse()
	ctx, cancel := context.WithTimeout(l.c.ctx, timeout)
	defer cancel()
	if l.roundTrip(ctx) == nil {
		return true
	}
	return !l.up.Load() || l.socket.Load() != sock || sock.pulse() != before
}

// changed tells the notifier that a link came up or was lost.
func (c *Conn) changed(up bool, why error) {
	c.mu.Lock()
	if up {
		c.ups++
	} else {
		c.downs, c.why = c.downs+1, why
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// notify calls OnConnect and OnDisconnect. Before OnConnect it learns the facts
// again and checks the streams: the queue manager may be another one, or the
// same with an empty store.
func (c *Conn) notify() {
	told, seenUps, seenDowns := false, 0, 0
	for first := true; ; first = false {
		c.mu.Lock()
		ups, downs, why := c.ups, c.downs, c.why
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
		c.cfg.Log.Info("connected to the queue manager again", slog.String("at", c.where))
		c.setFacts(c.learn(c.ctx))
		ctx, cancel := context.WithTimeout(c.ctx, apiTimeout)
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

// sleep waits for d, less if wake is closed, and reports whether ctx has ended.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) (ended bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-t.C:
	}
	return ctx.Err() != nil
}
