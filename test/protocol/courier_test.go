package protocol_test

import (
	"context"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/sender"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A line is a run's connection to the courier: a sender's and receiver's link. It ends with its run, and stops while
// its node is stopped.
type line struct{ r *run }

func (l line) Send(to transfer.AgentName, m *wire.Message) error {
	n := l.r.node
	if l.r.crashable.crashed() {
		return errDead
	}
	if n.later(func() { l.Send(to, m) }) {
		return nil
	}
	return n.w.net.Line(n.name).Send(to, m)
}

// A lane is a run's connection to the courier for chunk messages.
type lane struct {
	r     *run
	to    transfer.AgentName
	id    transfer.ID
	place string // address of the destination; "": no direct lane
}

// metAt returns the address of the destination on the direct lane, or "" if there is none.
func (w *world) metAt() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.place
}

// far reports whether the destination is out of the source's reach.
func (w *world) far(said *wire.Accept) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remote != nil && w.remote(said)
}

// Meet agrees on the direct lane where there is one.
func (l lane) Meet(from transfer.AgentName, _ *wire.Open, id transfer.ID) (name, reason string, mine *wire.Direct, err error) {
	if mine = l.Offer(from, id); mine == nil {
		return transfer.LaneQueue, "", nil, nil
	}
	return transfer.LaneDirect, "", mine, nil
}

// Shared reports that the queue manager is on another host.
func (l lane) Shared() bool { return true }

func (l lane) Offer(transfer.AgentName, transfer.ID) *wire.Direct {
	at := l.r.node.w.metAt()
	if at == "" {
		return nil
	}
	return &wire.Direct{Mode: wire.DirectPlain, Addresses: []string{at}}
}

func (l lane) Open(_ context.Context, to transfer.AgentName, id transfer.ID, _ string, said *wire.Accept, _ time.Duration) (sender.Lane, string, string, error) {
	if w := l.r.node.w; said.Lane == transfer.LaneDirect && w.far(said) {
		return lane{l.r, to, id, w.metAt()}, transfer.LaneQueue, "out of reach", nil
	}
	if said.Lane == transfer.LaneDirect {
		return lane{l.r, to, id, said.Direct.Addresses[0]}, transfer.LaneDirect, "", nil
	}
	return lane{l.r, to, id, ""}, transfer.LaneQueue, "", nil
}

func (l lane) Done() <-chan struct{} { return nil }

// Carried returns the number of bytes that the line has carried.
func (l lane) Carried() (bytes uint64, waiting bool) {
	w := l.r.node.w
	if w.now().blind {
		return 0, false
	}
	return w.net.Carried(l.r.node.name, l.to)
}

func (l lane) Send(message []byte) error {
	n := l.r.node
	if slow := n.w.net.Rules().Slow; slow > 0 {
		t := time.NewTimer(slow)
		defer t.Stop()
		select {
		case <-t.C:
		case <-l.r.ctx.Done():
			return errDead
		}
	}
	if n.wait(l.r.crashable); l.r.crashable.crashed() {
		return errDead
	}
	if l.place != n.w.metAt() {
		return nil // the former address has no listener, and no error shows that
	}
	return n.w.net.Send(faulty.Parcel{From: n.name, To: l.to, Kind: faulty.Chunk, Transfer: l.id, Data: message})
}

// keeping makes the courier keep all messages, for a replay.
func keeping(r *faulty.Rules) { r.Keep = true }
