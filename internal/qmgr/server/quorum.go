package server

import (
	"context"
	"time"

	"ferry/internal/qmgr/cluster"
	"ferry/internal/qmgr/streams"
)

// Passing describes the present faults of the queue manager's cluster. It returns "" if there are none, and for a queue
// manager without a cluster.
func (s *Server) Passing() string {
	if s.member == nil {
		return ""
	}
	return s.member.Passing()
}

// Quorum returns an error if messages can neither be stored nor delivered at present.
func (s *Server) Quorum() error {
	if s.member == nil {
		return nil
	}
	return s.member.Quorum()
}

// WaitQuorum returns when most members of the cluster are there and have agreed on its leader and on each queue's. It
// returns at once without a cluster. Meanwhile it passes the missing conditions to say, whenever they change.
func (s *Server) WaitQuorum(ctx context.Context, say func(string)) error {
	if s.member == nil {
		return nil
	}
	return s.member.Wait(ctx, say)
}

// ownPatience is the Timeout of a process that connects to its own queue manager.
const ownPatience = 5 * time.Second

// Patience returns the Timeout of connections to the queue manager from its own process. It is unlimited for a member
// of a cluster: its queues may have no leader for a while.
func (s *Server) Patience() time.Duration {
	if s.member != nil {
		return -1
	}
	return ownPatience
}

// Members returns the queue managers of the cluster, or this one alone, and then those at the other end of channels.
func (s *Server) Members(ctx context.Context) ([]streams.Member, error) {
	var linked []streams.Member
	if s.forwarder != nil {
		linked = s.forwarder.Announcer.Linked()
	}
	if s.member == nil {
		return append([]streams.Member{cluster.FiguresOf(s.Store, s.URL(), nil).Member}, linked...), nil
	}
	all, err := s.member.All(ctx)
	if err != nil {
		return nil, err
	}
	return append(all, linked...), nil
}
