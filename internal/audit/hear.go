package audit

import (
	"encoding/hex"
	"time"

	"ferry/internal/audit/witness"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// WitnessStatements has the witnesses' statements about a log.
type WitnessStatements struct {
	Roots      *identity.Roots
	Statements []*witness.Statement
	Silent     []transfer.AgentName // agents that did not answer
	// Show asks coordination to show it to a witness that has seen size records of the log with an
	// incarnation. It is nil if the files of the log are at hand.
	Show func(size int64, log string) (*witness.Shown, error)
	Now  time.Time
}

// Compare compares the witnesses' statements with coordination's answers, and adds each contradiction to the report. It
// returns the checkpoints that the log itself must match.
func (h *WitnessStatements) Compare(r *Report) (kept []Checkpoint) {
	seen := map[Checkpoint]bool{}
	for _, s := range h.Statements {
		name := s.Binding.Identity.Name
		who, at, ok, err := s.Check(h.Roots)
		if err != nil {
			r.add(-1, "the statement of %s as a witness is not accepted: %v", name, err)
			continue
		}
		for _, f := range s.Forks {
			r.add(-1, "the witness %s says since %s: %s", who.Name.Name, f.Time.Format(time.RFC3339), f.Why)
		}
		if !ok || at.Size == 0 {
			continue // no checkpoint seen yet
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

// CheckSameLog reports witnesses' checkpoints that belong to another log than the files at hand.
func (h *WitnessStatements) CheckSameLog(l *Log, r *Report) {
	for _, s := range h.Statements {
		if who, at, ok, err := s.Check(h.Roots); err == nil && ok && at.Log != FormatIncarnation(l.files.id) {
			r.add(-1, "the witness %s has seen %s; these files are log %s", who.Name.Name, at, FormatIncarnation(l.files.id))
		}
	}
}

// Join adds the findings of another report.
func (r *Report) Join(other *Report) {
	r.Found += other.Found
	r.Problems = append(r.Problems, other.Problems...)
	r.Problems = r.Problems[:min(len(r.Problems), maxProblems)]
	r.Witnesses += other.Witnesses
	r.Silent = append(r.Silent, other.Silent...)
}
