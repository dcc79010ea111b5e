package qmgr

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// settled is for how long a queue that is kept several times must be seen to have gone back before that is
// believed. One that leads anew may for a moment not have looked at all that was agreed on; what is
// lost stays lost.
const settled = 10 * time.Second

// remember is Server.remember and compare of a member: what is remembered is what the cluster has, as its
// leaders say, and not what lies in this member's store, which may be behind.
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
		if noQuorum(s) != nil {
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
			s.cfg.Log.Warn("what the queue manager remembers of its store cannot be written", slog.Any("error", err))
			continue
		}
		s.known = now
	}
}

// leaderMark asks the leader of a queue how far it has come; a zero mark is of one that is not there.
func (m *member) leaderMark(name string) (mark, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	st, err := m.s.about.js().Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, err
	}
	return markOf(st), nil
}
