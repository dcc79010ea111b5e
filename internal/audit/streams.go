package audit

import (
	"fmt"

	"ferry/internal/transfer"
)

// A stream is one numbering: that of one ledger of one agent.
type stream struct {
	agent       transfer.AgentName
	incarnation uint64
}

func (s stream) String() string { return string(s.agent) + "/" + FormatIncarnation(s.incarnation) }

// A position is how far the log has a stream.
type position struct {
	have  uint64
	index int64 // of the record that brought it there
}

// streams are the positions of all numberings in a log.
type streams map[stream]position

// observe takes the record at an index into account. The error says what is
// wrong with its number; the positions then stay as they are, or go on from the
// number where records are missing.
func (s streams) observe(r *Record, index int64) error {
	key := r.stream()
	p := s[key]
	if r.N <= p.have {
		return fmt.Errorf("record %s is in the log a second time, or out of order", r.name())
	}
	s[key] = position{r.N, index}
	if r.N > p.have+1 {
		return fmt.Errorf("records %d to %d of %s are missing and no gap is on record", p.have+1, r.N-1, key)
	}
	return s.skip(r, index)
}

// skip lets a gap record of coordination's stand for the records it names. An
// agent cannot excuse a gap.
func (s streams) skip(r *Record, index int64) error {
	if r.Gap == nil || r.Agent != Coordination {
		return nil
	}
	v, err := ParseIncarnation(r.Gap.Incarnation)
	if err != nil {
		return err
	}
	key := stream{r.Gap.Agent, v}
	if have := s[key].have; r.Gap.From != have+1 || r.Gap.To <= have {
		return fmt.Errorf("gap %d to %d of %s does not follow its record %d", r.Gap.From, r.Gap.To, key, have)
	}
	s[key] = position{r.Gap.To, index}
	return nil
}
