package witness

import (
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// Bounds of a memory and of the messages between coordination and witnesses.
const (
	MaxShown  = 512 << 10 // bytes of the JSON of a Shown or a Statement
	maxForks  = 4
	maxRuns   = 64
	MaxMemory = (maxForks + 1) * 4 * (MaxNote + MaxBinding)
)

// A Signed is a note with the binding of its signer.
type Signed struct {
	Note    []byte   `json:"note"`
	Binding *Binding `json:"binding"`
}

// open checks the note and reads its checkpoint.
func (s *Signed) open(roots *identity.Roots) (Checkpoint, error) {
	if s.Binding == nil {
		return Checkpoint{}, transfer.Errorf(transfer.KindMalformed, "a checkpoint comes without the binding of the key that has signed it")
	}
	p, err := s.Binding.As(identity.Coordination, roots)
	if err != nil {
		return Checkpoint{}, err
	}
	return OpenNote(s.Note, p)
}

// A Shown is coordination's answer to a witness.
type Shown struct {
	V int `json:"v"`
	Signed
	Proof    []tlog.Hash `json:"proof,omitempty"`    // that the log continues the size in the question
	Cosigned bool        `json:"cosigned,omitempty"` // the note has the asker's cosignature
	Runs     []Run       `json:"runs,omitempty"`     // places of the records asked for, as far as the note covers them
	Missing  bool        `json:"missing,omitempty"`  // the log does not have the first of them
}

// DecodeShown reads a Shown. The error is of KindMalformed.
func DecodeShown(data []byte) (*Shown, error) {
	s := new(Shown)
	if err := decode(data, MaxShown, "coordination's proof of its log", s); err != nil {
		return nil, err
	}
	bad := s.V != version || len(s.Note) > MaxNote || len(s.Proof) > maxHashes || len(s.Runs) > maxRuns || s.Binding == nil || s.Binding.fits() != nil
	for _, r := range s.Runs {
		bad = bad || len(r.Proof) > maxHashes || r.Count < 1 || r.Count > MaxRun || r.Index < 0 || r.Index > maxRecords || r.First == 0 || r.First > maxRecords
	}
	if bad {
		return nil, transfer.Errorf(transfer.KindMalformed, "coordination's proof of its log is of another version, or out of its ranges")
	}
	return s, nil
}

func decode(data []byte, most int, what string, v any) error {
	if len(data) > most {
		return transfer.Errorf(transfer.KindMalformed, "%s has %d bytes; the limit is %d", what, len(data), most)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return transfer.Errorf(transfer.KindMalformed, "%s cannot be read: %w", what, err)
	}
	return nil
}

// A Fork is a pair of notes of coordination that cannot belong to one growing log.
type Fork struct {
	Time  time.Time `json:"time"` // time when the witness saw it
	Why   string    `json:"why"`
	Anew  bool      `json:"anew,omitempty"` // coordination itself declares another log
	Held  Signed    `json:"held"`
	Shown Signed    `json:"shown"`
}

// A Memory has a witness's knowledge of a network's log: the last note that continued the one before, and notes that
// did not. It is not safe for concurrent use.
type Memory struct {
	V     int     `json:"v"`
	Last  *Signed `json:"last,omitempty"`
	Forks []Fork  `json:"forks,omitempty"` // the first ones
	More  int     `json:"more,omitempty"`  // number of further ones since

	roots *identity.Roots
	held  Checkpoint
}

// NewMemory returns a Memory with the content kept, or an empty one if kept is nil. The error is of KindMalformed.
func NewMemory(roots *identity.Roots, kept []byte) (*Memory, error) {
	m := &Memory{V: version, roots: roots}
	if kept == nil {
		return m, nil
	}
	if err := decode(kept, MaxMemory, "the record of the audit log's checkpoints", m); err != nil {
		return nil, err
	}
	if m.V != version || len(m.Forks) > maxForks {
		return nil, transfer.Errorf(transfer.KindMalformed, "the record of the audit log's checkpoints is of another version, or out of its ranges")
	}
	if m.Last == nil {
		return m, nil
	}
	var err error
	m.held, err = m.Last.reopen()
	return m, err
}

// Under replaces the roots for future checks. A network may replace its root.
func (m *Memory) Under(roots *identity.Roots) { m.roots = roots }

// reopen reads a note that was checked before it was stored. The certificate of its key may have expired since, and so
// may its root.
func (s *Signed) reopen() (Checkpoint, error) {
	if s.Binding == nil || s.Binding.fits() != nil {
		return Checkpoint{}, transfer.Errorf(transfer.KindMalformed, "a checkpoint was kept without the binding of the key that has signed it")
	}
	return OpenNote(s.Note, &Party{Name: s.Binding.Identity, ID: s.Binding.ID(), key: s.Binding.Key})
}

// Encode encodes the memory for NewMemory.
func (m *Memory) Encode() []byte {
	data, err := json.Marshal(m)
	if err != nil {
		panic("internal error: a memory that cannot be written: " + err.Error())
	}
	return data
}

// Held returns the checkpoint in the last good note. ok is false if there is none.
func (m *Memory) Held() (Checkpoint, bool) { return m.held, m.Last != nil }

// clone returns an independent copy of the memory.
func (m *Memory) clone() *Memory {
	c := *m
	c.Forks = append([]Fork(nil), m.Forks...)
	return &c
}

// Take compares coordination's answer with the memory, and returns the memory to store in its place:
//
//   - If the log continues from the last note, it has the new note.
//   - If not, it has both notes as a Fork, and the error, of KindConflict, has the reason.
//   - If coordination has not signed the answer, the error is of KindMalformed, and the memory is unchanged.
//   - If there is nothing new, the memory is unchanged.
func (m *Memory) Take(s *Shown, now time.Time) (*Memory, error) {
	c, err := s.open(m.roots)
	if err != nil {
		return m, err
	}
	if m.Last != nil && c == m.held {
		return m, nil
	}
	why, anew := m.differs(c, s.Proof)
	if why == "" {
		next := m.clone()
		next.Last, next.held = &s.Signed, c
		return next, nil
	}

	err = transfer.Errorf(transfer.KindConflict, "%s", why)
	if m.knows(c) {
		return m, err
	}
	next := m.clone()
	if len(next.Forks) == maxForks {
		next.More++
		if m.More > 0 { // the existence of more forks is recorded; their number is not worth a write
			return m, err
		}
		return next, err
	}
	next.Forks = append(next.Forks, Fork{Time: now.UTC(), Why: why, Anew: anew, Held: *m.Last, Shown: s.Signed})
	return next, err
}

// differs returns the reason why a log with checkpoint c does not continue the remembered one, or "" if it does. anew
// reports that coordination itself declares another log.
func (m *Memory) differs(c Checkpoint, proof []tlog.Hash) (why string, anew bool) {
	h := m.held
	switch {
	case m.Last == nil, h.Size == 0: // it has seen no record
		return "", false
	case c.Log != h.Log:
		return fmt.Sprintf("coordination has begun another audit log: this agent has seen %s, and coordination now shows %s. Records that only the old log had are gone; it was lost or removed", h, c), true
	case c.Size < h.Size:
		return fmt.Sprintf("the audit log was put back or cut: this agent has seen %s, and coordination now shows %s", h, c), false
	case c.Size == h.Size && c.Root != h.Root:
		return fmt.Sprintf("the audit log is forked: this agent has seen %s, and coordination now shows the root %x for that size", h, c.Root[:]), false
	case c.Size == h.Size:
		return "", false
	case tlog.CheckTree(proof, c.Size, c.Root, h.Size, h.Root) != nil:
		return fmt.Sprintf("the audit log is forked: this agent has seen %s, and coordination cannot prove that %s go on from them", h, c), false
	}
	return "", false
}

// knows reports whether a fork with a checkpoint is stored.
func (m *Memory) knows(c Checkpoint) bool {
	for i := range m.Forks {
		if known, err := m.Forks[i].Shown.open(m.roots); err == nil && known == c {
			return true
		}
	}
	return false
}

// Trouble describes the known problem of the log in a sentence, or returns "".
func (m *Memory) Trouble() string {
	if len(m.Forks) == 0 {
		return ""
	}
	return m.Forks[len(m.Forks)-1].Why
}

// Accept returns a memory that continues from a note, accepted by an operator with that right. It forgets the earlier
// notes and forks, so the caller must record those that matter. The error is of KindMalformed.
func (m *Memory) Accept(s *Signed) (*Memory, Checkpoint, error) {
	c, err := s.open(m.roots)
	if err != nil {
		return m, c, err
	}
	return &Memory{V: version, Last: s, roots: m.roots, held: c}, c, nil
}

// A Statement is a witness's answer to a question.
type Statement struct {
	V         int      `json:"v"`
	Binding   *Binding `json:"binding"`             // the witness's
	Last      *Signed  `json:"last,omitempty"`      // the last good note
	Cosigned  []byte   `json:"cosigned,omitempty"`  // its cosignature of Last, a line
	Forks     []Fork   `json:"forks,omitempty"`     // seen by the witness
	Unproved  int      `json:"unproved,omitempty"`  // records in its outbox, by its own count
	Unsettled string   `json:"unsettled,omitempty"` // the present problem, in its words
}

// State returns the witness's present statement.
func (k *Key) State(m *Memory, now time.Time) (*Statement, error) {
	s := &Statement{V: version, Binding: k.binding, Last: m.Last, Forks: m.Forks, Unsettled: m.Trouble()}
	if m.Last == nil {
		return s, nil
	}
	var err error
	s.Cosigned, err = k.Cosign(m.Last.Note, now)
	return s, err
}

// DecodeStatement reads a Statement. The error is of KindMalformed.
func DecodeStatement(data []byte) (*Statement, error) {
	s := new(Statement)
	if err := decode(data, MaxShown, "the statement of a witness", s); err != nil {
		return nil, err
	}
	if s.V != version || s.Binding == nil || s.Binding.fits() != nil || len(s.Forks) > maxForks {
		return nil, transfer.Errorf(transfer.KindMalformed, "the statement of a witness is of another version, or out of its ranges")
	}
	return s, nil
}

// Check returns the witness and the checkpoint that it has signed as seen. Coordination has signed the checkpoint as
// well. ok is false if the witness has seen none. The error is of KindMalformed.
func (s *Statement) Check(roots *identity.Roots) (p *Party, c Checkpoint, ok bool, err error) {
	if p, err = s.Binding.As(identity.Agent, roots); err != nil || s.Last == nil {
		return p, c, false, err
	}
	if c, err = s.Last.open(roots); err != nil {
		return p, c, false, err
	}
	with, err := AddCosignature(s.Last.Note, s.Cosigned, p)
	if err != nil {
		return p, c, false, err
	}
	if _, ok = Cosigned(with, p); !ok {
		return p, c, false, transfer.Errorf(transfer.KindMalformed, "%s has not cosigned the checkpoint that it shows", p.Name)
	}
	return p, c, true, nil
}

// Shows checks that coordination's log continues the witness's checkpoint. shown is coordination's answer to a question
// with the size of that checkpoint. The error is of KindConflict or KindMalformed.
func (s *Statement) Shows(roots *identity.Roots, shown *Shown, now time.Time) error {
	m := &Memory{V: version, roots: roots, Last: s.Last}
	if s.Last != nil {
		var err error
		if m.held, err = s.Last.open(roots); err != nil {
			return err
		}
	}
	_, err := m.Take(shown, now)
	return err
}
