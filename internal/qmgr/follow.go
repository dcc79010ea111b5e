package qmgr

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/sleep"
)

const (
	followEvery = 3 * time.Second // between two questions how the cluster stands
	// After that time without most of the others, a member is left for another one.
	leaveAfter = 2 * time.Second
	leaveMost  = time.Minute // if no other one is better: between two attempts to leave it

	recheckEvery = streams.Settled / 4
)

// codeLeaderless is the error code of servers that cannot do an operation for want of a leader.
const codeLeaderless = 10008

// follow keeps track of the state of the cluster that the Conn is connected to. It leaves a member that has lost most
// of the others: such a member can neither accept nor deliver a command.
func follow(c *Conn) {
	pause, left, mute := leaveAfter, time.Time{}, 0
	for !sleep.For(c.base.Ctx, followEvery, nil) {
		s := c.control.Now.Load()
		if s == nil || !c.control.Up.Load() || addresses(c) < 2 && c.Facts().Cluster == "" && *c.passing.Load() == "" {
			continue // a single queue manager without faults has no cluster to follow
		}
		var a errands.About
		alone := time.Duration(0)
		if server := c.cfg.Server; server != nil {
			a = server.About()
		} else if !askManager(c.base.Ctx, c, s.NC, &a) {
			if c.cfg.Identity != nil || addresses(c) < 2 {
				continue // it may be busy, or has no service that answers
			}
			// A server that is not Ferry's shows it: it does not answer for its queues.
			if mute++; answersForQueues(c, s.JS) {
				mute = 0
			}
			if mute > 2 {
				alone = leaveAfter
			}
		}
		before := c.passing.Swap(a.Present())
		if was := before != nil && *before != ""; was && *a.Present() == "" && !c.cfg.Early {
			ctx, cancel := context.WithTimeout(c.base.Ctx, streams.APITimeout)
			c.Ensure(ctx) // or the client that stores the next message does
			cancel()
		}
		alone = max(alone, a.Alone)
		if alone == 0 {
			pause = leaveAfter
		}
		if c.cfg.Server != nil || addresses(c) < 2 || alone < leaveAfter || time.Since(left) < pause {
			continue
		}
		c.cfg.Log.Warn("the queue manager is without the others of its cluster; connecting to another one", slog.String("at", managerAddress(c)))
		left, mute = time.Now(), 0
		pause = min(2*pause, leaveMost)
		for _, l := range append(linksOf(c), c.bulk.link) {
			if sock := l.Socket.Load(); sock != nil {
				sock.Close()
			}
		}
	}
}

// answersForQueues reports whether the streams of commands have a leader.
func answersForQueues(c *Conn, js jetstream.JetStream) bool {
	ctx, cancel := context.WithTimeout(c.base.Ctx, link.ProbeTimeout)
	defer cancel()
	_, err := js.Stream(ctx, string(streams.StreamCommand))
	api := (*jetstream.APIError)(nil)
	return err == nil || errors.As(err, &api) && api.ErrorCode != codeLeaderless
}

// addresses returns the number of queue managers that the Conn may connect to.
func addresses(c *Conn) int { return strings.Count(c.cfg.URL, ",") + 1 }

// managerAddress returns the name and address of the queue manager at the other end of the control connection.
func managerAddress(c *Conn) string {
	if s := c.control.Now.Load(); s != nil && c.cfg.Server == nil {
		if name := s.NC.ConnectedServerName(); name != "" {
			return name + " at " + s.NC.ConnectedUrlRedacted()
		}
	}
	return c.base.Where
}

// recheckStreams looks at the streams again if one seems to have gone back, until that is certain.
func recheckStreams(c *Conn) {
	if !c.history.doubtful() || c.rechecking.Swap(true) {
		return
	}
	c.base.Background(func() {
		defer c.rechecking.Store(false)
		for c.history.doubtful() && !sleep.For(c.base.Ctx, recheckEvery, nil) {
			ctx, cancel := context.WithTimeout(c.base.Ctx, streams.APITimeout)
			c.Ensure(ctx)
			cancel()
		}
	})
}

func (h *streamHistory) doubtful() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.doubts) > 0
}

// ClusterState asks for the state of the cluster that the Conn is connected to. Missing lists its faults; "" for
// none, or without a cluster. Stores reports whether messages are stored all the same.
func ClusterState(ctx context.Context, c *Conn) (missing string, stores bool) {
	if server := c.cfg.Server; server != nil {
		a := server.About()
		return a.Passing, !a.NoQuorum
	}
	var a errands.About
	if s := c.control.Now.Load(); s == nil || !c.control.Up.Load() || !askManager(ctx, c, s.NC, &a) {
		return "", true // which shows elsewhere
	}
	c.passing.Store(a.Present())
	return a.Passing, !a.NoQuorum
}
