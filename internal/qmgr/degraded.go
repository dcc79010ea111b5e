package qmgr

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ferry/internal/qmgr/streams"
)

const (
	// Effects of killing a queue manager: one or two acknowledgements on their way are lost, and one or two deliveries.
	// Larger figures mean that a reader's position was changed.
	mayComeAgain = 2
	mayBeSkipped = 16

	// The leader of a replicated queue may be killed before it has passed on acknowledgements that it had taken: those
	// of all messages that were handled within some seconds.
	mayComeAgainCopied = 64

	rememberAcked = 512
)

// A witness holds a Conn's own knowledge of the streams. The Conn has stored messages and read others, and no later
// state of the store can undo that.
type witness struct {
	mu      sync.Mutex
	streams map[string]streams.Mark
	doubts  map[string]time.Time // since when a replicated stream seems to have gone back
	readers map[string]*reader   // by stream and durable
}

// A reader is the state of a durable consumer that this Conn reads.
type reader struct {
	seq   uint64 // consumer sequence of the newest delivery
	acked map[uint64]bool
	order []uint64 // of acked, oldest first
	again int      // deliveries of acknowledged messages, since the last attach
}

func newWitness() *witness {
	return &witness{streams: map[string]streams.Mark{}, doubts: map[string]time.Time{}, readers: map[string]*reader{}}
}

// saw records that a stream has, or had, a message of that sequence.
func (w *witness) saw(stream string, seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.streams[stream]
	m.Last = max(m.Last, seq)
	w.streams[stream] = m
}

// before returns the known mark of a stream. Call it before asking for the stream's state: otherwise messages stored
// meanwhile would look lost.
func (w *witness) before(stream string) streams.Mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.streams[stream]
}

// look compares the present state of a stream with its earlier mark, remembers the state, and returns the fault.
func (w *witness) look(stream string, before, now streams.Mark) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	wrong := before.Lost(stream, now)
	m := w.streams[stream]
	if wrong == "" || now.Copies < 2 {
		delete(w.doubts, stream)
	} else if since, ok := w.doubts[stream]; !ok || time.Since(since) < streams.Settled {
		if !ok {
			w.doubts[stream] = time.Now()
		}
		return "" // it is looked at again (doubt)
	}
	delete(w.doubts, stream)
	if wrong != "" {
		m.Last = 0
		for name := range w.readers { // their reads and acknowledgements are gone, too
			if strings.HasPrefix(name, stream+" ") {
				delete(w.readers, name)
			}
		}
	}

	m.Created, m.Last, m.Copies = now.Created, max(m.Last, now.Last), now.Copies
	w.streams[stream] = m
	return wrong
}

func (w *witness) reader(stream, durable string) *reader {
	name := stream + " " + durable
	r := w.readers[name]
	if r == nil {
		r = &reader{acked: map[uint64]bool{}}
		w.readers[name] = r
	}
	return r
}

// attach records the position of a durable consumer when reading begins. It returns a text if that position is wrong.
func (w *witness) attach(stream, durable string, delivered uint64) (wrong string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.reader(stream, durable)
	if r.seq > 0 && delivered > r.seq+mayBeSkipped {
		wrong = fmt.Sprintf("the reader %s of stream %s stands %d messages ahead of the last message read: the messages in between may be skipped",
			durable, stream, delivered-r.seq)
	}
	r.seq, r.again = delivered, 0
	return wrong
}

// delivered records a delivery. It returns a text if the delivery is wrong.
func (w *witness) delivered(stream, durable string, seq, consumerSeq uint64) (wrong string) {
	w.saw(stream, seq)
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.reader(stream, durable)
	r.seq = max(r.seq, consumerSeq)
	if !r.acked[seq] || !slices.Contains(streams.CommandStreams, streams.Stream(stream)) {
		return "" // only a work queue removes acknowledged messages
	}
	most := mayComeAgain
	if w.streams[stream].Copies > 1 {
		most = mayComeAgainCopied
	}
	if r.again++; r.again != most+1 {
		return ""
	}
	return fmt.Sprintf("the reader %s of stream %s was put back: messages that were acknowledged come again", durable, stream)
}

// acked notes an acknowledgement.
func (w *witness) acked(stream, durable string, seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.reader(stream, durable)
	if r.acked[seq] {
		return
	}
	r.acked[seq] = true
	if r.order = append(r.order, seq); len(r.order) > rememberAcked {
		delete(r.acked, r.order[0])
		r.order = r.order[1:]
	}
}
