package protocol_test

import (
	"fmt"
	"sync"
	"testing"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A safety checks the destination's messages. The destination can resume from an announced safe point after every fault
// except the loss of its ledger or of its disk (INV-6).
type safety struct {
	mu      sync.Mutex
	said    map[itemOf]int64
	epochs  map[transfer.ID]uint32 // the newest
	broken  []string
	excused bool
}

type itemOf struct {
	id   transfer.ID
	item uint64
}

// watchSafety checks all later messages through the courier.
func watchSafety(w *world) *safety {
	s := &safety{said: map[itemOf]int64{}, epochs: map[transfer.ID]uint32{}}
	w.change(func(w *world) {
		next := w.fates
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			var h faulty.Handling
			if next != nil {
				h = next(p)
			}
			if p.From == dstName && !h.Fail {
				s.hear(p)
			}
			return h
		}
	})
	return s
}

func (s *safety) hear(p *faulty.Parcel) {
	if p.Kind != wire.KindAck && p.Kind != wire.KindAccept && p.Kind != wire.KindResync {
		return
	}
	m, err := wire.Decode(p.Data)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Kind {
	case wire.KindAck:
		if safe := m.Ack.Safe; safe != nil {
			at := itemOf{m.Transfer, safe.Item}
			s.said[at] = max(s.said[at], safe.Offset)
		}
	case wire.KindAccept:
		s.compare(m, m.Accept.Epoch, m.Accept.Resume)
	case wire.KindResync:
		s.compare(m, m.Resync.Epoch, m.Resync.Resume)
	}
}

// compare compares the resume of a new epoch with the announced points.
func (s *safety) compare(m *wire.Message, epoch uint32, r transfer.Resume) {
	if epoch <= s.epochs[m.Transfer] {
		return // a repetition of an earlier answer
	}
	s.epochs[m.Transfer] = epoch
	points := map[uint64]int64{}
	for _, p := range r.Points {
		points[p.Item] = p.Source
	}
	for at, offset := range s.said {
		if at.id == m.Transfer && !r.Decided.Has(at.item) && points[at.item] < offset {
			s.broken = append(s.broken, fmt.Sprintf("item %d of transfer %s was said to be safe up to %d, and goes on from %d (%s)",
				at.item, at.id, offset, points[at.item], m.Kind))
		}
	}
}

// excuse permits the loss of safe points: a disk has failed, or the partial file of a waiting transfer was removed in
// favour of others.
func (s *safety) excuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.excused = true
}

func (s *safety) report(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range s.broken {
		if !s.excused {
			t.Error(what)
		}
	}
}
