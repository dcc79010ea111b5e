package cluster

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/storage"
	"ferry/internal/qmgr/streams"
)

// Remember records, for a member, the state of the cluster and compares it with the last one, as its
// leaders report it. The state of this member's store may be behind that.
func (m *Member) Remember() {
	s := m.Store
	accepted, since := s.LoadMarks().Streams, map[string]time.Time{}
	if accepted == nil {
		accepted = map[string]streams.Mark{}
	}
	t := time.NewTicker(storage.MarksEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.Ending:
			return
		}
		if s.Taken() {
			return
		}
		if m.Quorum() != nil {
			continue
		}
		now := maps.Clone(accepted)
		for _, cfg := range streams.All {
			at, err := m.leaderMark(cfg.Name)
			if err != nil {
				continue
			}
			was := accepted[cfg.Name]
			wrong := was.Lost(cfg.Name, at)
			if (at == streams.Mark{}) && was.Last > 0 {
				wrong = "stream " + cfg.Name + " has gone: all its messages are lost"
			}
			if wrong == "" {
				delete(since, cfg.Name)
				now[cfg.Name] = at
				continue
			}
			if since[cfg.Name].IsZero() {
				since[cfg.Name] = time.Now()
			}
			if time.Since(since[cfg.Name]) > streams.Settled {
				s.Noticed("%s", wrong)
				delete(since, cfg.Name)
				now[cfg.Name] = at
			}
		}
		if accepted = now; s.Known != nil && maps.EqualFunc(s.Known, now, streams.Mark.Equal) {
			continue
		}
		if err := s.SaveMarks(storage.Marks{V: 1, Ended: false, Streams: now}); err != nil {
			s.Cfg.Log.Warn("the record of the queue manager's store cannot be written", slog.Any("error", err))
			continue
		}
		s.Known = now
	}
}

// leaderMark asks the leader of a queue for its mark; a zero mark stands for a missing queue.
func (m *Member) leaderMark(name string) (streams.Mark, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	st, err := m.own.JS().Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return streams.Mark{}, nil
	}
	if err != nil {
		return streams.Mark{}, err
	}
	return streams.MarkOf(st), nil
}
