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
	maxRedelivered = 2
	maxSkipped     = 16

	// The leader of a replicated queue may be killed before it has passed on acknowledgements that it had taken: those
	// of all messages that were handled within some seconds.
	maxRedeliveredReplicated = 64

	rememberAcked = 512
)

// A streamHistory holds a Conn's own knowledge of the streams. The Conn has stored messages and read others, and no later
// state of the store can undo that.
type streamHistory struct {
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

func newStreamHistory() *streamHistory {
	return &streamHistory{streams: map[string]streams.Mark{}, doubts: map[string]time.Time{}, readers: map[string]*reader{}}
}

// saw records that a stream has, or had, a message of that sequence.
func (h *streamHistory) saw(stream string, seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.streams[stream]
	m.Last = max(m.Last, seq)
	h.streams[stream] = m
}

// before returns the known mark of a stream. Call it before asking for the stream's state: otherwise messages stored
// meanwhile would look lost.
func (h *streamHistory) before(stream string) streams.Mark {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams[stream]
}

// compare compares the present state of a stream with its earlier mark, remembers the state, and returns the fault.
func (h *streamHistory) compare(stream string, before, now streams.Mark) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	wrong := before.Lost(stream, now)
	m := h.streams[stream]
	if wrong == "" || now.Copies < 2 {
		delete(h.doubts, stream)
	} else if since, ok := h.doubts[stream]; !ok || time.Since(since) < streams.Settled {
		if !ok {
			h.doubts[stream] = time.Now()
		}
		return "" // it is looked at again (recheckStreams)
	}
	delete(h.doubts, stream)
	if wrong != "" {
		m.Last = 0
		for name := range h.readers { // their reads and acknowledgements are gone, too
			if strings.HasPrefix(name, stream+" ") {
				delete(h.readers, name)
			}
		}
	}

	m.Created, m.Last, m.Copies = now.Created, max(m.Last, now.Last), now.Copies
	h.streams[stream] = m
	return wrong
}

func (h *streamHistory) reader(stream, durable string) *reader {
	name := stream + " " + durable
	r := h.readers[name]
	if r == nil {
		r = &reader{acked: map[uint64]bool{}}
		h.readers[name] = r
	}
	return r
}

// attach records the position of a durable consumer when reading begins. It returns a text if that position is wrong.
func (h *streamHistory) attach(stream, durable string, delivered uint64) (wrong string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.reader(stream, durable)
	if r.seq > 0 && delivered > r.seq+maxSkipped {
		wrong = fmt.Sprintf("the reader %s of stream %s stands %d messages ahead of the last message read: the messages in between may be skipped",
			durable, stream, delivered-r.seq)
	}
	r.seq, r.again = delivered, 0
	return wrong
}

// delivered records a delivery. It returns a text if the delivery is wrong.
func (h *streamHistory) delivered(stream, durable string, seq, consumerSeq uint64) (wrong string) {
	h.saw(stream, seq)
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.reader(stream, durable)
	r.seq = max(r.seq, consumerSeq)
	if !r.acked[seq] || !slices.Contains(streams.CommandStreams, streams.Stream(stream)) {
		return "" // only a work queue removes acknowledged messages
	}
	most := maxRedelivered
	if h.streams[stream].Copies > 1 {
		most = maxRedeliveredReplicated
	}
	if r.again++; r.again != most+1 {
		return ""
	}
	return fmt.Sprintf("the reader %s of stream %s was put back: messages that were acknowledged come again", durable, stream)
}

// acked notes an acknowledgement.
func (h *streamHistory) acked(stream, durable string, seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.reader(stream, durable)
	if r.acked[seq] {
		return
	}
	r.acked[seq] = true
	if r.order = append(r.order, seq); len(r.order) > rememberAcked {
		delete(r.acked, r.order[0])
		r.order = r.order[1:]
	}
}
