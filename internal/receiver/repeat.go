package receiver

import (
	"bytes"
	"slices"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An ackRepeater finds out which ACKs are due again.
type ackRepeater struct {
	came   func(from transfer.AgentName) int64 // see Config
	before map[transfer.AgentName]int64        // came, at the last look
	said   map[transfer.ID]*wire.Message       // the last ACK of each transfer, at the last look
}

// An repeatedAck is an ACK that is due again.
type repeatedAck struct {
	to  transfer.AgentName
	ack *wire.Message
}

// due returns the ACKs that must be repeated.
func (l *ackRepeater) due(actors []*incoming) (all []repeatedAck) {
	slices.SortFunc(actors, func(a, b *incoming) int { return bytes.Compare(a.id[:], b.id[:]) })
	quiet := map[transfer.AgentName]*wire.Message{} // by source without news: an ACK to repeat
	heard := map[transfer.AgentName]bool{}          // sources that got or will get news
	said := map[transfer.ID]*wire.Message{}
	for _, a := range actors {
		m := a.lastAck.Load()
		if m == nil {
			continue
		}
		said[a.id] = m
		if a.box.behind() {
			m = withArrived(m, a.box.arrived(m.Ack.Epoch))
			all = append(all, repeatedAck{a.from, m})
			heard[a.from] = true
		}
		heard[a.from] = heard[a.from] || said[a.id] != l.said[a.id]
		quiet[a.from] = m
	}

	before := map[transfer.AgentName]int64{}
	for from, m := range quiet {
		if l.came == nil {
			break
		}
		before[from] = l.came(from)
		if was, ok := l.before[from]; ok && was != before[from] && !heard[from] {
			all = append(all, repeatedAck{from, m})
		}
	}
	l.said, l.before = said, before
	return all
}

// withArrived returns an ACK with the greatest sequence that has arrived.
func withArrived(m *wire.Message, here uint64) *wire.Message {
	if here <= m.Ack.Seq {
		return m
	}
	c, a := *m, *m.Ack
	a.Here = here
	c.Ack = &a
	return &c
}
