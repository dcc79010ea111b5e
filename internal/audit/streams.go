package audit

import (
	"fmt"
	"slices"

	"ferry/internal/transfer"
)

// MaxNumber is the greatest number of a record, more than an agent can ever write. A greater number is invalid.
const MaxNumber = 1 << 48

// maxGaps is the number of open gaps of a numbering that are kept apart. Beyond it, the two nearest gaps are merged.
const maxGaps = 64

// A stream is one numbering: the one of a ledger of an agent.
type stream struct {
	agent       transfer.AgentName
	incarnation uint64
}

func (s stream) String() string { return string(s.agent) + "/" + FormatIncarnation(s.incarnation) }

// A position is the log's progress in a stream: it has every number up to have, except for the open gaps.
type position struct {
	have  uint64
	index int64  // of the record that reached have, or of the last late one
	open  []span // ascending, not adjacent; replaced, never changed
}

// A span is a range of numbers that are recorded as missing and may still come. It is also open if the log has the
// numbers with other content than the records that came later.
type span struct {
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	Index int64  `json:"index"` // index of the record about it
}

// lacks reports whether a number up to have is in an open gap.
func (p position) lacks(n uint64) bool {
	return slices.ContainsFunc(p.open, func(g span) bool { return g.From <= n && n <= g.To })
}

// through returns the greatest number, at most last, up to which every record from floor on is in the log. If there is
// none it returns floor-1.
func (p position) through(floor, last uint64) uint64 {
	n := min(p.have, last)
	for _, g := range p.open {
		if g.To >= floor && g.From <= n {
			return max(g.From, floor) - 1
		}
	}
	return n
}

// opened returns a list of gaps with one more.
func opened(gaps []span, more span) []span {
	list := make([]span, 0, len(gaps)+1)
	for _, g := range gaps {
		if g.To+1 < more.From || more.To+1 < g.From {
			list = append(list, g)
			continue
		}
		more = span{min(g.From, more.From), max(g.To, more.To), min(g.Index, more.Index)}
	}
	return bounded(append(list, more))
}

// filled returns a list of gaps without a number.
func filled(gaps []span, n uint64) []span {
	list := make([]span, 0, len(gaps)+1)
	for _, g := range gaps {
		if n < g.From || g.To < n {
			list = append(list, g)
			continue
		}
		if g.From < n {
			list = append(list, span{g.From, n - 1, g.Index})
		}
		if n < g.To {
			list = append(list, span{n + 1, g.To, g.Index})
		}
	}
	return bounded(list)
}

// bounded sorts gaps, which must belong to the caller, and merges the two nearest if there are too many. Numbers
// between them then count as missing although the log has them. So Verify may report too many missing records, and a
// repeated record may be stored again.
func bounded(gaps []span) []span {
	slices.SortFunc(gaps, func(a, b span) int {
		if a.From < b.From {
			return -1
		}
		return 1
	})
	if len(gaps) <= maxGaps {
		return gaps
	}

	near := 1
	for i := 2; i < len(gaps); i++ {
		if gaps[i].From-gaps[i-1].To < gaps[near].From-gaps[near-1].To {
			near = i
		}
	}

	a, b := gaps[near-1], gaps[near]
	gaps[near-1] = span{a.From, b.To, min(a.Index, b.Index)}
	return slices.Delete(gaps, near, near+1)
}

// streams has the positions of all numberings of a log.
type streams map[stream]position

// observe adds the record at an index to the positions. late reports that the record fills an open gap. If its number
// is wrong, err describes that. The positions then stay unchanged or, if records are missing, continue from the number.
func (s streams) observe(r *Record, index int64) (late bool, err error) {
	key := r.stream()
	p := s[key]
	switch missing := r.N > p.have+1; {
	case r.N <= p.have && !p.lacks(r.N):
		return false, fmt.Errorf("record %s is in the log a second time, or out of order", r.name())
	case r.N <= p.have:
		s[key] = position{p.have, index, filled(p.open, r.N)}
		late = true
	case missing:
		s[key] = position{r.N, index, p.open}
		return false, fmt.Errorf("records %d to %d of %s are missing and no gap is on record", p.have+1, r.N-1, key)
	default:
		s[key] = position{r.N, index, p.open}
	}
	return late, s.skip(r, index)
}

// skip processes a record of coordination's about other records: missing ones, or ones with other content. An agent
// cannot record a gap.
func (s streams) skip(r *Record, index int64) error {
	if r.Gap == nil || r.Agent != Coordination {
		return nil
	}

	v, err := ParseIncarnation(r.Gap.Incarnation)
	if err != nil {
		return err
	}

	key := stream{r.Gap.Agent, v}
	p, g := s[key], r.Gap
	follows := g.From == p.have+1 && g.To > p.have
	if r.Event == Disputed {
		follows = g.From > 0 && g.From <= g.To && g.To <= p.have
	}

	if !follows || g.To > MaxNumber {
		return fmt.Errorf("%s %d to %d of %s does not follow its record %d", r.Event, g.From, g.To, key, p.have)
	}

	p.open = opened(p.open, span{g.From, g.To, index})

	s[key] = position{max(p.have, g.To), index, p.open}
	return nil
}
