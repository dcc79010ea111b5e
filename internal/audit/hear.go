package audit

import (
	"encoding/hex"
	"time"

	"ferry/internal/identity"
	"ferry/internal/transfer"
	"ferry/internal/witness"
)

// A Heard is what a log is held against beside itself: what witnesses have seen.
type Heard struct {
	Roots      *identity.Roots
	Statements []*witness.Statement
	Silent     []transfer.AgentName // agents that were asked and have not answered
	// Show asks who keeps the log to show it to somebody who has seen a size of the log with an
	// incarnation; nil: the files of the log are at hand.
	Show func(size int64, log string) (*witness.Shown, error)
	Now  time.Time
}

// Hear holds what witnesses say against what the keeper of the log shows, puts what does not go
// together into the report, and gives the checkpoints that the log itself is to be held
// against.
func (h *Heard) Hear(r *Report) (kept []Checkpoint) {
	seen := map[Checkpoint]bool{}
	for _, s := range h.Statements {
		name := s.Binding.Identity.Name
		who, at, ok, err := s.Check(h.Roots)
		if err != nil {
			r.add(-1, "what %s says as a witness is not believed: %v", name, err)
			continue
		}
		for _, f := range s.Forks {
			r.add(-1, "the witness %s says since %s: %s", who.Name.Name, f.Time.Format(time.RFC3339), f.Why)
		}
		if !ok || at.Size == 0 {
			continue // it has seen nothing yet
		}
		r.Witnesses++
		if h.Show != nil {
			shown, err := h.Show(at.Size, at.Log)
			if err == nil {
				err = s.Shows(h.Roots, shown, h.Now)
			}
			if err != nil {
				r.add(-1, "the witness %s has seen %s: %v", who.Name.Name, at, err)
			}
		}
		if c := (Checkpoint{at.Size, hex.EncodeToString(at.Root[:])}); !seen[c] {
			seen[c] = true
			kept = append(kept, c)
		}
	}
	r.Silent = append(r.Silent, h.Silent...)
	return kept
}

// Same reports what of the witnesses' checkpoints is of another log than the one whose files
// are at hand.
func (h *Heard) Same(l *Log, r *Report) {
	for _, s := range h.Statements {
		if who, at, ok, err := s.Check(h.Roots); err == nil && ok && at.Log != FormatIncarnation(l.id) {
			r.add(-1, "the witness %s has seen %s; these files are log %s", who.Name.Name, at, FormatIncarnation(l.id))
		}
	}
}

// Join adds what another report has found.
func (r *Report) Join(other *Report) {
	r.Found += other.Found
	r.Problems = append(r.Problems, other.Problems...)
	r.Problems = r.Problems[:min(len(r.Problems), maxProblems)]
	r.Witnesses += other.Witnesses
	r.Silent = append(r.Silent, other.Silent...)
}
