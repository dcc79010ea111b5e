// Package status folds what agents report into the present picture: which
// agents live, which transfers move and how far. It is the memory of the
// coordination service, and nothing that it forgets is lost: the agents'
// ledgers and the audit log have it.
package status

import (
	"sort"
	"strings"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// MaxTransfers is how many transfers the picture holds; the oldest that are
// over give way first.
const MaxTransfers = 10_000

// A Picture is safe for use by many goroutines.
type Picture struct {
	clock clock.Clock
	since time.Time // listening to heartbeats

	mu        sync.Mutex
	agents    map[transfer.AgentName]*seen
	transfers map[transfer.ID]*transfer.Progress
}

type seen struct {
	beat wire.Beat
	at   time.Time // by this clock; zero: known only from the audit log or an earlier run
}

// New makes an empty picture that begins to listen now.
func New(c clock.Clock) *Picture {
	return &Picture{clock: c, since: c.Now(), agents: map[transfer.AgentName]*seen{}, transfers: map[transfer.ID]*transfer.Progress{}}
}

// Know notes an agent of which nothing more is known. It reports whether it is
// new.
func (p *Picture) Know(name transfer.AgentName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name == "" || name == audit.Coordination || p.agents[name] != nil {
		return false
	}
	p.agents[name] = &seen{beat: wire.Beat{Agent: name}}
	return true
}

// Beat takes a heartbeat. It reports whether the agent is new.
func (p *Picture) Beat(b *wire.Beat) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.agents[b.Agent]
	p.agents[b.Agent] = &seen{beat: *b, at: p.clock.Now()}
	return old == nil
}

// Names lists the agents ever heard of.
func (p *Picture) Names() []transfer.AgentName {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]transfer.AgentName, 0, len(p.agents))
	for n := range p.agents {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool { return names[i] < names[j] })
	return names
}

// Known says whether an agent was ever heard of, and how sure that is: nobody
// can be called unknown before two heartbeats could have come (R4).
func (p *Picture) Known(name transfer.AgentName) wire.Known {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := 2*wire.BeatEvery - p.clock.Now().Sub(p.since)
	return wire.Known{Known: p.agents[name] != nil, Sure: wait <= 0, Wait: max(wait, 0)}
}

// Agents lists the agents by name, with their state worked out from the age of
// what was last heard.
func (p *Picture) Agents() []wire.AgentStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	var out []wire.AgentStatus
	for _, s := range p.agents {
		a := wire.AgentStatus{Beat: s.beat, Status: s.beat.Status}
		if !s.at.IsZero() {
			a.Age = max(now.Sub(s.at), 0)
		}
		if s.at.IsZero() || a.Age > wire.UnreachableAfter && a.Status != wire.AgentStopped {
			a.Status = wire.AgentUnreachable
		}
		out = append(out, a)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Agent < out[j].Agent })
	return out
}

// Progress takes live figures of a transfer.
func (p *Picture) Progress(g *transfer.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.transfers[g.ID]
	if old != nil && over(old) {
		return // a late message; the end is the end
	}
	c := *g
	p.put(&c)
}

// over reports whether nothing more can be said of a transfer. Its submitter may
// have said that it is withdrawn; its source agent knows better.
func over(g *transfer.Progress) bool { return g.State.Final() && g.State != transfer.Withdrawn }

// Queued notes what a submitter says of a transfer of which no agent has spoken
// yet: that it was submitted, or withdrawn.
func (p *Picture) Queued(g *transfer.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.transfers[g.ID]
	if g.ID.IsZero() || old != nil && (old.State != transfer.Queued || g.State != transfer.Withdrawn) {
		return
	}
	c := *g
	if c.State != transfer.Withdrawn {
		c.State = transfer.Queued
	}
	p.put(&c)
}

func (p *Picture) put(g *transfer.Progress) {
	p.transfers[g.ID] = g
	if len(p.transfers) <= MaxTransfers+MaxTransfers/10 {
		return
	}
	all := p.sorted()
	for i := len(all) - 1; i >= 0 && len(p.transfers) > MaxTransfers; i-- {
		if all[i].State.Final() || all[i].State == transfer.Queued {
			delete(p.transfers, all[i].ID)
		}
	}
}

// Record folds an audit record in: it is how the picture is rebuilt after a
// restart, and how a transfer is known whose live figures were missed.
func (p *Picture) Record(r *audit.Record) {
	if r.Role != audit.RoleSource || r.Transfer.IsZero() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.transfers[r.Transfer]
	if g == nil {
		g = &transfer.Progress{ID: r.Transfer, Source: r.Source, Destination: r.Destination, Job: r.Job}
		if r.Originator != nil {
			g.Originator = r.Originator.String()
		}
		p.put(g)
	}
	if over(g) {
		return
	}
	if g.Destination == "" { // it was cancelled before its request came
		g.Destination, g.Job = r.Destination, r.Job
	}
	if r.Request != nil && g.Compress == "" {
		g.Compress = r.Request.Compress
	}
	switch r.Event {
	case audit.Accepted:
		if g.State == "" || g.State == transfer.Queued {
			g.State = transfer.Accepted
		}
		g.Submitted = r.Transfer.Time()
	case audit.Started:
		if g.Started.IsZero() {
			g.Started = r.Time
		}
		if g.State == "" || g.State == transfer.Accepted || g.State == transfer.Queued {
			g.State = transfer.Running
		}
	case audit.Items:
		p.items(g, r.Items)
	case audit.Parked:
		g.State, g.Reason = transfer.Parked, r.Error
	case audit.Completed, audit.Failed, audit.Cancelled:
		ended(g, r)
	}
}

// items counts outcomes where nobody else does: live figures count them, too.
func (p *Picture) items(g *transfer.Progress, items []transfer.Outcome) {
	for i := range items {
		if len(g.Failures) < transfer.MaxFailures && !items[i].OK() {
			known := false
			for k := range g.Failures {
				known = known || g.Failures[k].Item == items[i].Item
			}
			if !known {
				g.Failures = append(g.Failures, items[i])
			}
		}
	}
}

func ended(g *transfer.Progress, r *audit.Record) {
	g.State, g.Code, g.Reason, g.Ended = r.State, r.Code, r.Error, r.Time
	if r.Counts != nil {
		g.Counts = *r.Counts
	}
	g.Resumes, g.BytesResent, g.BytesWire = r.Resumes, r.BytesResent, r.BytesWire
	if r.Lane != "" {
		g.Lane = r.Lane
	}
	if g.Started.IsZero() {
		g.Started = r.Time.Add(-time.Duration(r.Seconds * float64(time.Second)))
	}
}

// sorted lists the transfers newest first.
func (p *Picture) sorted() []*transfer.Progress {
	all := make([]*transfer.Progress, 0, len(p.transfers))
	for _, g := range p.transfers {
		all = append(all, g)
	}
	sort.Slice(all, func(i, j int) bool { return string(all[i].ID[:]) > string(all[j].ID[:]) })
	return all
}

// Transfers lists up to limit transfers, newest first, older than before if
// that is given. more says that there are others.
func (p *Picture) Transfers(before transfer.ID, limit int) (out []transfer.Progress, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.sorted() {
		if !before.IsZero() && string(g.ID[:]) >= string(before[:]) {
			continue
		}
		if len(out) == limit {
			return out, true
		}
		c := p.shown(g)
		c.Failures = nil
		out = append(out, c)
	}
	return out, false
}

// Transfer finds the one transfer whose ID ends in suffix.
func (p *Picture) Transfer(suffix string) (*transfer.Progress, error) {
	if err := transfer.CheckIDSuffix(suffix); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var found *transfer.Progress
	for id, g := range p.transfers {
		if !strings.HasSuffix(id.String(), strings.ToLower(suffix)) {
			continue
		}
		if found != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "several transfers have an ID that ends in %q; give more of it", suffix)
		}
		found = g
	}
	if found == nil {
		return nil, transfer.Errorf(transfer.KindNotFound, "no transfer has an ID that ends in %q", suffix).
			WithHint("`ferry transfer ls` lists them")
	}
	c := p.shown(found)
	return &c, nil
}

// shown is a transfer as it is shown: one that is not over and whose source is
// not heard of stands as it stood then, and says so.
func (p *Picture) shown(g *transfer.Progress) transfer.Progress {
	c := *g
	s := p.agents[g.Source]
	if c.State.Final() || c.State == transfer.Parked || c.State == transfer.Queued || s == nil || s.at.IsZero() ||
		s.beat.Status == wire.AgentStopped || p.clock.Now().Sub(s.at) <= wire.UnreachableAfter {
		return c
	}
	c.Reason = transfer.Errorf(transfer.KindUnreachable, "%s has not been heard of since %s; this is where the transfer stood then",
		g.Source, s.at.UTC().Format(time.RFC3339)).WithHint("it goes on when the agent is there")
	return c
}
