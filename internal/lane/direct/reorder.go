package direct

import (
	"sync"

	"ferry/internal/wire"
)

// An reorderBuffer puts the messages of one transfer that came over several connections back into their sequence (R13).
// It holds at most the bytes that the sender's credit allows. Above maxHeld it passes everything on, and the receiver
// sees the gap.
type reorderBuffer struct {
	mu    sync.Mutex
	epoch uint32
	next  uint64
	held  map[uint64][]byte
	bytes int
}

// take passes on a message, and the messages that waited for it, in sequence.
func (o *reorderBuffer) take(h wire.Header, m []byte, deliver func([]byte)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h.Epoch > o.epoch || o.held == nil {
		o.epoch, o.next, o.held, o.bytes = h.Epoch, 1, map[uint64][]byte{}, 0
	}

	if h.Epoch < o.epoch || h.Seq < o.next {
		deliver(m) // the receiver handles it
		return
	}

	if _, twice := o.held[h.Seq]; twice {
		return
	}

	o.held[h.Seq] = m
	o.bytes += len(m)
	o.drain(deliver)
	if o.bytes > maxHeld {
		o.skipGap(deliver)
	}
}

func (o *reorderBuffer) drain(deliver func([]byte)) {
	for m, ok := o.held[o.next]; ok; m, ok = o.held[o.next] {
		delete(o.held, o.next)
		o.bytes -= len(m)
		o.next++
		deliver(m)
	}
}

// skipGap passes on the held message with the least number, out of sequence, and continues there.
func (o *reorderBuffer) skipGap(deliver func([]byte)) {
	least := o.next
	for s := range o.held {
		if least == o.next || s < least {
			least = s
		}
	}
	o.next = least
	o.drain(deliver)
}
