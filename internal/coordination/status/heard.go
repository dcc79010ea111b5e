package status

import (
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// heard returns when the agent was heard last, in this run of coordination or in an earlier one.
func (s *seen) heard() time.Time {
	if s.at.IsZero() {
		return s.before
	}
	return s.at
}

// Heard returns when each agent that is away was heard last, where that is known; with all, those that are up, too.
func (p *Picture) Heard(all bool) map[transfer.AgentName]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, times := p.clock.Now(), map[transfer.AgentName]time.Time{}
	for name, s := range p.agents {
		away := s.at.IsZero() || s.beat.Status == wire.AgentStopped || now.Sub(s.at) > wire.UnreachableAfter
		if at := s.heard(); (away || all) && !at.IsZero() {
			times[name] = at.UTC()
		}
	}
	return times
}

// HeardBefore takes when an earlier run of coordination heard an agent last.
func (p *Picture) HeardBefore(name transfer.AgentName, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.agents[name]; s != nil {
		s.before = at
	}
}
