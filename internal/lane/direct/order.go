package direct

import (
	"sync"

	"ferry/internal/wire"
)

// An order puts the messages of one transfer that came over several connections
// back into their sequence (R13). It holds no more than the credit lets a
// sender have on its way; beyond maxHeld it lets go of everything, which the
// receiver sees as the gap that it is.
type order struct {
	mu    sync.Mutex
	epoch uint32
	next  uint64
	held  map[uint64][]byte
	bytes int
}

// take passes on a message, and those that it was holding up, in sequence.
func (o *order) take(h wire.Header, m []byte, deliver func([]byte)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h.Epoch > o.epoch || o.held == nil {
		o.epoch, o.next, o.held, o.bytes = h.Epoch, 1, map[uint64][]byte{}, 0
	}

	if h.Epoch < o.epoch || h.Seq < o.next {
		deliver(m) // the receiver knows what to do with it
		return
	}

	if _, twice := o.held[h.Seq]; twice {
		return
	}

	o.held[h.Seq] = m
	o.bytes += len(m)
	o.drain(deliver)
	if o.bytes > maxHeld {
		o.letGo(deliver)
	}
}

func (o *order) drain(deliver func([]byte)) {
	for m, ok := o.held[o.next]; ok; m, ok = o.held[o.next] {
		delete(o.held, o.next)
		o.bytes -= len(m)
		o.next++
		deliver(m)
	}
}

// letGo passes on the least that is held, out of sequence, and goes on there.
func (o *order) letGo(deliver func([]byte)) {
	least := o.next
	for s := range o.held {
		if least == o.next || s < least {
			least = s
		}
	}
	o.next = least
	o.drain(deliver)
}
