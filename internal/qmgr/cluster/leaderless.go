package cluster

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"ferry/internal/qmgr/streams"
)

// leaderlessFor is the longest time without a leader for a queue while every member is there. Electing one takes
// seconds.
const leaderlessFor = time.Minute

// orphans are the queues that have no leader although every member of the cluster is there. One goroutine uses it.
//
// When all members lose their power at once, each may lose messages that all had acknowledged: the library syncs its
// log of a replicated queue and, of the queue itself, less. Then each member waits for the messages from a leader, and
// no member can lead. That never ends by itself. The stored messages cannot be recovered, and the queue is made anew,
// as a lost queue is. Agents store their messages again, as they must after every loss.
type orphans struct {
	limit time.Duration
	since map[string]time.Time
}

// over lists the queues that have been without a leader for the limit.
func (o *orphans) over(p *present, now time.Time) (gone []string) {
	if !p.Quorum || len(p.away) > 0 || p.unseen > 0 {
		clear(o.since)
		return nil
	}
	for name := range o.since {
		if !slices.Contains(p.leaderless, name) {
			delete(o.since, name)
		}
	}
	for _, name := range p.leaderless {
		if at, ok := o.since[name]; !ok {
			o.since[name] = now
		} else if now.Sub(at) >= o.limit {
			gone = append(gone, name)
			delete(o.since, name)
		}
	}
	return gone
}

// removeOrphans removes the queues that can have no leader any more, so that they are made again. Only the leader of
// the cluster does so.
func (m *Member) removeOrphans(ctx context.Context, o *orphans) {
	p := m.Now.Load()
	for _, name := range o.over(p, time.Now()) {
		if p.leader != m.Store.Cfg.Name || !strings.HasPrefix(name, "FERRY_") {
			continue
		}
		m.Store.Cfg.Log.Error("a queue has had no leader for long though every member of the cluster is there; it is made anew, and its messages are lost",
			"stream", name, "after", o.limit.String())
		ctx, cancel := context.WithTimeout(ctx, streams.APITimeout)
		if err := m.own.JS().DeleteStream(ctx, name); err != nil {
			// The leader of the queue would have answered. The next look shows whether the queue has gone.
			m.Store.Cfg.Log.Debug("no member confirms that a queue was removed", "stream", name, slog.Any("error", err))
		}
		cancel()
	}
}
