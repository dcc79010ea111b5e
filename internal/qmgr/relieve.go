package qmgr

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Relieve removes from the queue of commands what is for agents that keep does
// not know by their tokens, where more than half of the queue's room is used:
// nobody will ever read it, and it takes the room of those who are there. It
// gives the number of messages that are gone.
func (c *Conn) Relieve(ctx context.Context, keep func(token string) bool) (gone uint64, err error) {
	if !c.control.up.Load() {
		return 0, c.away()
	}

	s, err := c.control.js().Stream(ctx, string(StreamCommand))
	if err != nil {
		return 0, c.explain(err, string(StreamCommand), 0)
	}

	if info := s.CachedInfo(); !crowded(info) {
		return 0, nil
	}

	info, err := s.Info(ctx, jetstream.WithSubjectFilter("ferry.command.>"))
	if err != nil {
		return 0, c.explain(err, string(StreamCommand), 0)
	}

	strangers := map[string]uint64{}
	for subject, n := range info.State.Subjects {
		if parts := strings.SplitN(subject, ".", 4); len(parts) == 4 && !strings.ContainsAny(parts[2], "*>") && !keep(parts[2]) {
			strangers[parts[2]] += n
		}
	}

	for token, n := range strangers {
		if err := s.Purge(ctx, jetstream.WithPurgeSubject("ferry.command."+token+".>")); err != nil {
			return gone, c.explain(err, string(StreamCommand), 0)
		}
		gone += n
	}
	return gone, nil
}

func crowded(info *jetstream.StreamInfo) bool {
	limit, have := info.Config, info.State
	return limit.MaxBytes > 0 && have.Bytes > uint64(limit.MaxBytes)/2 || limit.MaxMsgs > 0 && have.Msgs > uint64(limit.MaxMsgs)/2
}
