package audit

import (
	"encoding/json"
	"errors"
	"fmt"

	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

// A settlement is an agent's record that it accepts the gaps before.
type settlement struct {
	index int64
	rec   Record
	err   error // why the record does not prove that a person has accepted them
}

// Settlements are those of all agents in a log. An agent alone cannot settle its gaps in a network with identities: a
// member that has signed the agent's question must be proved.
type settlements struct {
	last   map[transfer.AgentName]settlement // of each agent
	proved map[transfer.AgentName]settlement // of each agent, with a proved author
	used   map[transfer.ID]bool              // questions that have a record
}

// take takes a Settled record. Without roots the author's certificate is not verified.
func (s *settlements) take(i int64, rec *Record, roots *identity.Roots) {
	if s.last == nil {
		s.last, s.proved, s.used = map[transfer.AgentName]settlement{}, map[transfer.AgentName]settlement{}, map[transfer.ID]bool{}
	}
	err := rec.provesSettlement(roots)
	if err == nil && s.used[rec.Author.ID] {
		err = fmt.Errorf("an earlier record has the question %s", rec.Author.ID)
	}
	at := settlement{i, *rec, err}
	if s.last[rec.Agent] = at; err == nil {
		s.proved[rec.Agent], s.used[rec.Author.ID] = at, true
	}
}

// of returns the settlement of an agent that counts, or the zero value. signed says that the network has identities.
func (s *settlements) of(agent transfer.AgentName, signed bool) settlement {
	if signed {
		return s.proved[agent]
	}
	at := s.last[agent]
	at.err = nil
	return at
}

// provesSettlement returns nil if a person of the network has asked the record's agent to accept the gaps, for the
// record's reason.
func (r *Record) provesSettlement(roots *identity.Roots) error {
	a := r.Author
	if a == nil {
		return errors.New("it has no author")
	}
	to := identity.Name{Network: a.By.Network, Role: identity.Agent, Name: string(r.Agent)}
	switch {
	case a.Kind != word.Ask || a.To != to:
		return fmt.Errorf("its author has signed the %s to %s", a.Kind, a.To)
	case a.By.Role != identity.User || a.Delegated():
		return fmt.Errorf("its author %s is not a person that speaks for itself", a.By)
	case a.Principal() != r.Principal:
		return fmt.Errorf("its author is %s", a.By)
	}
	if err := a.Check(r.Evidence, roots); err != nil {
		return err
	}
	var ask struct {
		Kind string `json:"kind"`
		Body struct {
			Reason string `json:"reason"`
		} `json:"body"`
	}
	if err := json.Unmarshal(r.Evidence.Body, &ask); err != nil || ask.Kind != "accept" || ask.Body.Reason != r.Reason {
		return fmt.Errorf("%s has signed another question", a.By)
	}
	return nil
}
