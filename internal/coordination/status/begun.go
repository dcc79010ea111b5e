package status

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Begun is a transfer that its source has accepted, and that the present run of the source has
// not spoken of.
type Begun struct {
	ID                  transfer.ID
	Source, Destination transfer.AgentName
	Principal           string
	instance            string
	entry               *entry
}

// Unconfirmed lists transfers that are not over and that the present run of their source has not
// spoken of, most at most: first those that were listed least often, the oldest first, so that transfers without an
// answer delay no others. A transfer that its destination has accepted is listed once the run is as old as grace.
func (p *Picture) Unconfirmed(grace time.Duration, most int) (all []Begun) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for _, e := range p.transfers {
		s := p.agents[e.Source]
		if e.State.Final() || e.said || e.State == transfer.Queued || e.Destination == "" || s == nil || s.at.IsZero() ||
			now.Sub(s.at) > wire.UnreachableAfter || s.beat.Instance == "" || e.confirmed == s.beat.Instance {
			continue
		}
		if s.beat.Status == wire.AgentStopped || s.beat.Status == wire.AgentStopping || !e.Started.IsZero() && now.Sub(s.since) < grace {
			continue
		}
		all = append(all, Begun{ID: e.ID, Source: e.Source, Destination: e.Destination, Principal: e.Principal, instance: s.beat.Instance, entry: e})
	}
	slices.SortFunc(all, func(a, b Begun) int {
		return cmp.Or(cmp.Compare(a.entry.listed, b.entry.listed), bytes.Compare(a.ID[:], b.ID[:]))
	})
	all = all[:min(len(all), most)]
	for _, b := range all {
		b.entry.listed++
	}
	return all
}

// confirm notes that the present run of its source has spoken of a transfer.
func (p *Picture) confirm(e *entry) {
	if s := p.agents[e.Source]; s != nil {
		e.confirmed = s.beat.Instance
	}
}

// Confirmed notes that the run of the source which was asked has answered for a transfer.
func (p *Picture) Confirmed(b *Begun) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.transfers[key{b.ID, b.Source}]; e != nil {
		e.confirmed = b.instance
	}
}
