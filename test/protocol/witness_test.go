package protocol_test

import (
	"bytes"
	"fmt"
	"sync"

	"ferry/internal/faulty"
	"ferry/internal/wire"
)

// A header names a chunk message: its transfer, epoch and sequence.
type header = wire.Header

// A witness records the chunk messages that were sent, and those that the destination got undamaged. It checks each
// ACK: no damaged message is ever acknowledged, nor one in the place of another.
type witness struct {
	mu     sync.Mutex
	sound  map[header][]byte // as they were sent
	taken  map[header]bool   // undamaged ones that the destination was given
	held   map[header]uint64 // by epoch, the sequence that was acknowledged last
	broken []string
}

func newWitness() *witness {
	return &witness{sound: map[header][]byte{}, taken: map[header]bool{}, held: map[header]uint64{}}
}

// watchEpochs checks all later messages through the courier.
func watchEpochs(w *world) *witness {
	v := newWitness()
	w.change(func(w *world) {
		fates, before := w.fates, w.before
		w.fates = func(p *faulty.Parcel) (h faulty.Handling) {
			v.mu.Lock()
			v.sent(p)
			v.mu.Unlock()
			if fates != nil {
				h = fates(p)
			}
			return h
		}
		w.before = func(p *faulty.Parcel, n *node) bool {
			v.arrives(p, n)
			return before != nil && before(p, n)
		}
	})
	return v
}

// sent records a message that is handed to the courier, and checks ACKs. It reports whether it is a chunk message. v.mu
// is held.
func (v *witness) sent(p *faulty.Parcel) (h header, chunk bool) {
	if p.Kind == wire.KindAck {
		v.acknowledged(p)
	}
	h, err := name(p.Data)
	if p.Kind != faulty.Chunk || err != nil {
		return h, false
	}
	v.sound[h] = bytes.Clone(p.Data)
	return h, true
}

// name returns the key of a message: its transfer, epoch and sequence.
func name(m []byte) (header, error) {
	h, err := wire.PeekHeader(m)
	h.Starved, h.Ask = false, false
	return h, err
}

// arrives records the undamaged messages that the destination is given.
func (v *witness) arrives(p *faulty.Parcel, _ *node) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h, err := name(p.Data); p.Kind == faulty.Chunk && err == nil && bytes.Equal(v.sound[h], p.Data) {
		v.taken[h] = true
	}
	return false
}

// acknowledged checks an ACK against the messages that the destination was given.
func (v *witness) acknowledged(p *faulty.Parcel) {
	m, err := wire.Decode(p.Data)
	if err != nil || m.Ack == nil {
		return
	}
	at := header{Transfer: m.Transfer, Epoch: m.Ack.Epoch}
	for seq := v.held[at] + 1; seq <= m.Ack.Seq; seq++ {
		if h := (header{Transfer: m.Transfer, Epoch: m.Ack.Epoch, Seq: seq}); !v.taken[h] {
			v.broken = append(v.broken, fmt.Sprintf("message %d of epoch %d of transfer %s is acknowledged, and has not come as it was sent", seq, h.Epoch, h.Transfer))
		}
	}
	v.held[at] = max(v.held[at], m.Ack.Seq)
}

func (v *witness) report(w *world) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, what := range v.broken {
		w.t.Error(what)
	}
}
