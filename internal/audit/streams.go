package audit

import (
	"fmt"
	"slices"

	"ferry/internal/failpoint"
	"ferry/internal/transfer"
)

// MaxNumber is the greatest number of a record: more than an agent could write
// in a life. A greater one is no number.
const MaxNumber = 1 << 48

// maxGaps is how many open gaps of a numbering are told apart; of more, the two
// that are nearest count as one.
const maxGaps = 64

// A stream is one numbering: that of one ledger of one agent.
type stream struct {
	agent       transfer.AgentName
	incarnation uint64
}

func (s stream) String() string { return string(s.agent) + "/" + FormatIncarnation(s.incarnation) }

// A position is how far the log has a stream: every number up to have, but for
// the open gaps.
type position struct {
	have  uint64
	index int64  // of the record that brought it there, or of the last that came late
	open  []span // ascending, none of them next to another; replaced, never changed
}

// A span is numbers that are on record as missing and may still come. It is
// open too where the log has the numbers with another content than came later.
type span struct {
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	Index int64  `json:"index"` // of the record that says so
}

// lacks reports whether a number up to have is in an open gap.
func (p position) lacks(n uint64) bool {
	return slices.ContainsFunc(p.open, func(g span) bool { return g.From <= n && n <= g.To })
}

// through is the greatest number, last at most, up to which every record from
// floor on is there; floor-1 if there is none.
func (p position) through(floor, last uint64) uint64 {
	n := min(p.have, last)
	for _, g := range p.open {
		if g.To >= floor && g.From <= n {
			return max(g.From, floor) - 1
		}
	}
	return n
}

// opened is a list of gaps with one more.
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

// filled is a list of gaps without a number.
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

// bounded sorts a list that is its caller's own, and joins the two nearest of
// too many. What is between them then counts as missing although it is there:
// Verify errs on that side, and a record that comes again is stored again.
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

// streams are the positions of all numberings in a log.
type streams map[stream]position

// observe takes the record at an index into account. late says that it fills an
// open gap. The error says what is wrong with its number; the positions then
// stay as they are, or go on from the number where records are missing.
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

// skip lets a record of coordination's stand for those that it names: as
// missing, or as there with another content. An agent cannot excuse a gap.
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

	if !failpoint.Planted("floor-believed") {
		p.open = opened(p.open, span{g.From, g.To, index})
	}

	s[key] = position{max(p.have, g.To), index, p.open}
	return nil
}
