package qmgr

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// degradedFor is how long a queue manager is called degraded after
	// something was noticed. By then it is in the log and on no screen.
	degradedFor = time.Hour

	maxFindings = 4 // shown at once; the newest
)

// findings are what was noticed of a store that has not kept what it had taken.
type findings struct {
	mu  sync.Mutex
	all []finding
}

type finding struct {
	text string
	at   time.Time
}

// add takes a finding and reports whether it is news.
func (f *findings) add(text string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.all {
		if f.all[i].text == text && now.Sub(f.all[i].at) < degradedFor {
			f.all[i].at = now
			return false
		}
	}
	f.all = append(f.all, finding{text, now})
	f.all = f.all[max(0, len(f.all)-maxFindings):]
	return true
}

// text is what is to be shown now; "" for nothing.
func (f *findings) text(now time.Time) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, x := range f.all {
		if now.Sub(x.at) < degradedFor {
			all = append(all, x.text)
		}
	}
	return strings.Join(all, "; ")
}

// A mark is how far a stream has come.
type mark struct {
	Created time.Time `json:"created"`
	Last    uint64    `json:"last"` // sequence of the newest message that it ever had
	Copies  int       `json:"copies,omitempty"`
}

func (m mark) equal(o mark) bool { return m.Last == o.Last && m.Created.Equal(o.Created) }

// lost says what is wrong with a stream that was at was and is at now; "" for
// nothing.
func (was mark) lost(stream string, now mark) string {
	switch {
	case was.Last == 0: // it had nothing
	case !was.Created.IsZero() && !was.Created.Equal(now.Created):
		return fmt.Sprintf("stream %s was made anew: what was stored in it may be lost", stream)
	case now.Last < was.Last:
		return fmt.Sprintf("stream %s went back from message %d to message %d: what was stored in between is lost", stream, was.Last, now.Last)
	}
	return ""
}

const (
	// What a queue manager that was killed may do on its own account: an
	// acknowledgement or two that were on their way are lost, and so is a
	// delivery or two. More of it means that a reader's position was changed.
	mayComeAgain = 2
	mayBeSkipped = 16

	// Of a queue that is kept several times the one that leads may be killed with what it has not
	// passed on yet: acknowledgements that were taken, of all that was handled within some seconds.
	mayComeAgainCopied = 64

	rememberAcked = 512
)

// A witness is what a Conn itself knows of the streams: it has stored messages
// and read others, and no later state of the store can undo that.
type witness struct {
	mu      sync.Mutex
	streams map[string]mark
	doubts  map[string]time.Time // since when a stream that has copies seems to have gone back
	readers map[string]*reader   // by stream and durable
}

// A reader is what is known of a durable consumer that this Conn reads.
type reader struct {
	seq   uint64 // consumer sequence of the newest delivery
	acked map[uint64]bool
	order []uint64 // of acked, oldest first
	again int      // deliveries of what was acknowledged, since the last attach
}

func newWitness() *witness {
	return &witness{streams: map[string]mark{}, doubts: map[string]time.Time{}, readers: map[string]*reader{}}
}

// saw notes that a stream has, or had, a message of that sequence.
func (w *witness) saw(stream string, seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.streams[stream]
	m.Last = max(m.Last, seq)
	w.streams[stream] = m
}

// before is what is known of a stream. It is asked before the stream is, so
// that what is stored meanwhile is not taken for lost.
func (w *witness) before(stream string) mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.streams[stream]
}

// look holds a stream as it is against what was known before, and remembers
// it. It gives what is wrong.
func (w *witness) look(stream string, before, now mark) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	wrong := before.lost(stream, now)
	m := w.streams[stream]
	if wrong == "" || now.Copies < 2 {
		delete(w.doubts, stream)
	} else if since, ok := w.doubts[stream]; !ok || time.Since(since) < settled {
		if !ok {
			w.doubts[stream] = time.Now()
		}
		return "" // it is looked at again (doubt)
	}
	delete(w.doubts, stream)
	if wrong != "" {
		m.Last = 0
		for name := range w.readers { // what they have read and acknowledged is gone, too
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

// attach notes where a durable consumer stands when reading begins, and says
// what is wrong with that.
func (w *witness) attach(stream, durable string, delivered uint64) (wrong string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.reader(stream, durable)
	if r.seq > 0 && delivered > r.seq+mayBeSkipped {
		wrong = fmt.Sprintf("the reader %s of stream %s stands %d messages ahead of what was read: what lies between may be skipped",
			durable, stream, delivered-r.seq)
	}
	r.seq, r.again = delivered, 0
	return wrong
}

// delivered notes a delivery, and says what is wrong with it.
func (w *witness) delivered(stream, durable string, seq, consumerSeq uint64) (wrong string) {
	w.saw(stream, seq)
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.reader(stream, durable)
	r.seq = max(r.seq, consumerSeq)
	if !r.acked[seq] || !slices.Contains(commandStreams, Stream(stream)) {
		return "" // only a work queue removes what was acknowledged
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
