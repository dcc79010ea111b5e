package qmgr

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// settled is the time for which a replicated queue must appear to have gone back before it counts as damaged. A new
// leader may for a moment not have read all agreed entries. A real loss stays visible.
const settled = 10 * time.Second

// remember does for a member the work of Server.remember and compare. It remembers the state of the cluster, as its
// leaders report it. The state of this member's store may be behind that.
func (m *member) remember() {
	s := m.s
	accepted, since := s.loadMarks().Streams, map[string]time.Time{}
	if accepted == nil {
		accepted = map[string]mark{}
	}
	t := time.NewTicker(marksEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.ending:
			return
		}
		if s.taken() {
			return
		}
		if m.quorum() != nil {
			continue
		}
		now := maps.Clone(accepted)
		for _, cfg := range streams {
			at, err := m.leaderMark(cfg.Name)
			if err != nil {
				continue
			}
			was := accepted[cfg.Name]
			wrong := was.lost(cfg.Name, at)
			if (at == mark{}) && was.Last > 0 {
				wrong = "stream " + cfg.Name + " has gone: what was stored in it is lost"
			}
			if wrong == "" {
				delete(since, cfg.Name)
				now[cfg.Name] = at
				continue
			}
			if since[cfg.Name].IsZero() {
				since[cfg.Name] = time.Now()
			}
			if time.Since(since[cfg.Name]) > settled {
				s.noticed("%s", wrong)
				delete(since, cfg.Name)
				now[cfg.Name] = at
			}
		}
		if accepted = now; s.known != nil && maps.EqualFunc(s.known, now, mark.equal) {
			continue
		}
		if err := s.saveMarks(marks{1, false, now}); err != nil {
			s.cfg.log.Warn("what the queue manager remembers of its store cannot be written", slog.Any("error", err))
			continue
		}
		s.known = now
	}
}

// leaderMark asks the leader of a queue for its mark; a zero mark stands for a missing queue.
func (m *member) leaderMark(name string) (mark, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	st, err := m.own.js().Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, err
	}
	return markOf(st), nil
}
