package receiver

import (
	"sync"

	"ferry/internal/content/conversion"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A mailbox holds the messages that have arrived for one transfer. Its senders never block. Control messages are few
// and repeated. The mailbox keeps only as many chunk messages as the credit allows. It drops messages beyond the
// credit, which look like a gap.
type mailbox struct {
	mu         sync.Mutex
	controls   []*wire.Message
	chunks     []arrivedChunk
	bytes      int64
	limit      int64
	closed     bool          // no epoch is open: chunk messages are dropped
	unexpected bool          // an unexpectedChunk is in controls
	busy       bool          // a chunk message that was taken out is being handled
	stored     *storedParcel // nil: none waits
	notify     chan struct{}

	epoch uint32 // the newest of the chunk messages that were kept
	here  uint64 // the greatest sequence in that epoch
}

// An arrivedChunk is a chunk message with the findings about it at its arrival.
type arrivedChunk struct {
	m      []byte
	head   wire.Header
	direct bool             // it came over the direct lane
	intact bool             // its hash is right
	first  bool             // no other message waited
	absent *conversion.Pair // byte pair known to be absent from it; nil: unknown
}

// size returns the approximate bytes that an arrivedChunk takes: a small message is not free.
func (p *arrivedChunk) size() int64 { return int64(len(p.m)) + 128 }

func newMailbox() *mailbox { return &mailbox{closed: true, notify: make(chan struct{}, 1)} }

func (b *mailbox) poke() {
	select {
	case b.notify <- struct{}{}:
	default:
	}
}

func (b *mailbox) control(m *wire.Message) {
	b.mu.Lock()
	if len(b.controls) < 64 {
		b.controls = append(b.controls, m)
	}
	b.mu.Unlock()
	b.poke()
}

// chunk keeps a chunk message unless the waiting messages exceed the grant. The limit allows for the overhead of small
// messages: an empty message costs no credit. If no epoch is open, the message is dropped, and the first one leaves a
// unexpectedChunk.
func (b *mailbox) chunk(p arrivedChunk, maxChunk int) {
	b.mu.Lock()
	switch {
	case b.closed && !b.unexpected:
		b.unexpected = true
		b.controls = append(b.controls, newUnexpectedChunk(p.head))
	case b.closed:
	case b.bytes <= b.limit+2*int64(maxChunk+wire.Overhead):
		p.first = len(b.chunks) == 0
		b.chunks = append(b.chunks, p)
		b.bytes += p.size()
		switch {
		case p.head.Epoch > b.epoch:
			b.epoch, b.here = p.head.Epoch, p.head.Seq
		case p.head.Epoch == b.epoch:
			b.here = max(b.here, p.head.Seq)
		}
	}
	b.mu.Unlock()
	b.poke()
}

// allow raises the limit of waiting bytes.
func (b *mailbox) allow(granted int64) {
	b.mu.Lock()
	b.limit = max(b.limit, granted)
	b.mu.Unlock()
}

// putStored puts a stored message into the mailbox, unless one waits.
func (b *mailbox) putStored(p *storedParcel) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stored != nil {
		return false
	}
	b.stored = p
	b.poke()
	return true
}

// takeStored takes the waiting stored message; nil if there is none.
func (b *mailbox) takeStored() (p *storedParcel) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, b.stored = b.stored, nil
	return p
}

func (b *mailbox) takeControl() *wire.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.controls) == 0 {
		return nil
	}
	m := b.controls[0]
	b.controls = b.controls[1:]
	b.unexpected = b.unexpected && m.Kind != unexpectedChunk
	return m
}

// takeChunk takes the next chunk message, if there is one.
func (b *mailbox) takeChunk() (p arrivedChunk, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy = len(b.chunks) > 0; !b.busy {
		return p, false
	}
	p = b.chunks[0]
	b.chunks[0] = arrivedChunk{}
	b.chunks = b.chunks[1:]
	b.bytes -= p.size()
	return p, true
}

// behind reports whether chunk messages have come that are not handled yet.
func (b *mailbox) behind() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.busy || len(b.chunks) > 0
}

// arrived returns the greatest sequence of an epoch that has arrived.
func (b *mailbox) arrived(epoch uint32) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.epoch != epoch {
		return 0
	}
	return b.here
}

// open drops the messages of an epoch that is over, and accepts those of the next one.
func (b *mailbox) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chunks, b.bytes, b.limit, b.closed = nil, 0, 0, false
}

// shut drops the waiting messages, and all messages that come before open.
func (b *mailbox) shut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chunks, b.bytes, b.closed = nil, 0, true
}

// unexpectedChunk is a message from the Receiver to one of its actors: a chunk message came while no epoch is open. It
// is no message of the wire.
const unexpectedChunk wire.Kind = "stray-chunk"

// newUnexpectedChunk returns the unexpectedChunk for a message with that header.
func newUnexpectedChunk(h wire.Header) *wire.Message {
	return &wire.Message{Kind: unexpectedChunk, Transfer: h.Transfer, Busy: &wire.Busy{Epoch: h.Epoch}}
}

// A storedParcel is a stored message on its way to its actor.
type storedParcel struct {
	StoredMessage
	head   wire.Header
	open   *wire.Open // instead of a chunk message
	absent bool       // nothing is stored; open came by REPLY
	said   chan Taking
}

func (p *storedParcel) answer(v Verdict, why error) {
	p.said <- Taking{v, transfer.AsError(why)}
}
