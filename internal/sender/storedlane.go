package sender

import (
	"context"
	"time"

	"ferry/internal/transfer"
)

// A StoredLane stores the messages of an epoch.
type StoredLane interface {
	Lane
	// Flush waits until all sent messages are stored.
	Flush(ctx context.Context) error
	// Waits returns why no message can be stored at present, and since when; nil if messages can.
	Waits() (why *transfer.Error, since time.Time)
	Close()
}

// A StoreName names a store.
type StoreName struct {
	Mark string // names its making: a client that sees another mark is at another queue manager
	At   string // the queue manager that has it; empty: the agent's own
	// Ledger is the mark of the ledger that has the destination's name there; empty: none has it.
	Ledger string
}

// A Store keeps messages at queue managers for destinations that are away.
type Store interface {
	// Store returns the name of the store for a destination, at the destination's present or last queue manager. It
	// makes the store if there is none.
	Store(ctx context.Context, to transfer.AgentName) (StoreName, error)
	// Reaches returns an error of KindNotBuilt if the destination is known to read at present from the store of another queue
	// manager, where nothing of this agent's can be stored.
	Reaches(ctx context.Context, to transfer.AgentName) error
	// Lane returns the lane of an epoch. It calls acked with the number of stored messages.
	Lane(ctx context.Context, at string, to transfer.AgentName, id transfer.ID, epoch uint32, acked func(n uint64)) StoredLane
	// Purge removes the epochs of a transfer before one.
	Purge(ctx context.Context, at string, to transfer.AgentName, id transfer.ID, before uint32) error
	// Release reports that the epochs of a transfer before one are of no use any more. The store removes them when it
	// can. It does not block.
	Release(at string, to transfer.AgentName, id transfer.ID, before uint32)
	// BeginWait lets a transfer keep messages that wait for room without a slot; false: too many transfers do. EndWait
	// ends that.
	BeginWait() bool
	EndWait()
}

// laneStored is the reason why messages take the queue lane.
const laneStored = "stored delivery"

// openStored opens the lane of an epoch in the store: its first message is OPEN.
func openStored(s *stream) error {
	s.live.setLane(transfer.LaneQueue, laneStored)
	s.controller = s.cfg.Controllers.Controller(string(s.to), "store")
	s.flight = s.controller.Join(s.feeder.wake)
	s.durable = s.cfg.Store.Lane(s.ctx, s.rec.read().Store(), s.to, s.ID, s.epoch, func(n uint64) {
		if n == 1 {
			s.opened.Store(true)
			s.driver.wake()
		}
		s.flight.Acked(n-1, time.Time{}, s.cfg.Clock.Now()) // the first one is OPEN, which has no number
		s.feeder.wake()
	})
	s.lane = s.durable
	s.flying.Store(s.flight)
	if err := s.lane.Send(s.head); err != nil {
		return &laneError{err}
	}
	return nil
}

// waitsForRoom returns why a pump's messages are not stored at present.
func waitsForRoom(s *stream) (why *transfer.Error, since time.Time) {
	if s.flying.Load() == nil {
		return nil, since
	}
	return s.durable.Waits()
}
