// Package status folds the reports of agents into the present picture: which agents live, which transfers move and how
// far. It is the memory of the coordination service. Nothing that it forgets is lost: the agents' ledgers and the audit
// log have it.
package status

import (
	"cmp"
	"sort"
	"strings"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Bounds of a picture. Transfers of the source that has most of them are dropped first, so no agent can push out the
// reports of others.
const (
	MaxTransfers = 25_000
	MaxAgents    = 10_000
	maxBytes     = 64 << 20 // texts about transfers: reasons, failed items
)

// A Picture is safe for use by many goroutines.
type Picture struct {
	clock clock.Clock
	since time.Time // listening to heartbeats

	mu        sync.Mutex
	agents    map[transfer.AgentName]*seen
	removed   map[transfer.AgentName]time.Time // when each was removed, MaxAgents at most
	transfers map[key]*entry
	retries   map[key][]*entry                 // of transfers that were repeated: the transfers of the picture that name them
	early     map[key]transfer.Acknowledgement // acknowledgements of transfers that the picture does not have yet
	earliest  []key                            // of those, the oldest first
	complete  time.Time                        // transfers that ended before may be missing; zero: none is
	count     uint64                           // entries ever made
	bytes     int                              // of all entries
}

type seen struct {
	beat wire.Beat
	at   time.Time // by this clock; zero: known only from the audit log or an earlier run

	before time.Time // when an earlier run of coordination heard it last, if that is known

	since time.Time // when its present run was first heard of, by this clock

	standbys []waiter
}

// A key names a transfer of a source. A report of one agent about an ID does not change the reports of another agent
// about it.
type key struct {
	id     transfer.ID
	source transfer.AgentName
}

type entry struct {
	transfer.Progress
	meta  map[string]string // of the request, once the audit log has it
	made  uint64            // orders those with one ID; see before
	said  bool              // by its submitter alone
	bytes int

	related transfer.Related // without RetriedAs
	mayEnd  bool             // the submitter may end the transfer that it repeats
	brought []broughtItem    // of the failed items of that, transfer.MaxFailures at most
	rate    rate
	claimed bool // made of a submitter's report or of a refusal: the ID may be of another principal's transfer
	// reported is true if a submitter's report has made it.
	reported bool
	read     time.Time // when the log was last read for it; see NoteRead

	confirmed string // the run of its source that has answered for it
	listed    int    // how often Unconfirmed has listed it
}

// New makes an empty picture that begins to listen now.
func New(c clock.Clock) *Picture {
	return &Picture{clock: c, since: c.Now(), agents: map[transfer.AgentName]*seen{}, removed: map[transfer.AgentName]time.Time{}, transfers: map[key]*entry{}, retries: map[key][]*entry{}, early: map[key]transfer.Acknowledgement{}}
}

// Know adds an agent that is known by name only. It reports whether it is new.
func (p *Picture) Know(name transfer.AgentName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name == "" || name == audit.Coordination || p.agents[name] != nil || !p.room() {
		return false
	}
	p.agents[name] = &seen{beat: wire.Beat{Agent: name}}
	return true
}

// Beat takes a heartbeat. It reports whether the agent is new. Its error is of
// KindBusy where there are too many agents already; then it is not taken.
func (p *Picture) Beat(b *wire.Beat) (fresh bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh = p.agents[b.Agent] == nil
	if fresh && !p.room() {
		return false, transfer.Errorf(transfer.KindBusy, "coordination knows %d agents, its limit", MaxAgents)
	}
	p.take(b)
	return fresh, nil
}

// Away is nil for an agent that is known and away. The error is of KindNotFound, or of
// KindAlive where it is not away.
func (p *Picture) Away(name transfer.AgentName) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.agents[name]
	switch {
	case s == nil:
		return transfer.Errorf(transfer.KindNotFound, "no agent %s was ever heard of", name).WithHint("`ferry agent ls` lists them")
	case p.present(s):
		return transfer.Errorf(transfer.KindAlive, "agent %s is not away: it was heard of %s ago", name, p.clock.Now().Sub(s.at).Round(time.Second)).
			WithHint("stop it first")
	}
	return nil
}

// present reports whether an agent was heard of lately, and has not stopped. p.mu is held.
func (p *Picture) present(s *seen) bool {
	return s.beat.Status != wire.AgentStopped && !s.at.IsZero() && p.clock.Now().Sub(s.at) <= wire.UnreachableAfter
}

// Remove takes an agent out of the picture, and keeps the time.
func (p *Picture) Remove(name transfer.AgentName, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.agents, name)
	if _, before := p.removed[name]; before || len(p.removed) < MaxAgents {
		p.removed[name] = at
	}
}

// room makes room for one more agent: it drops the agent that has been silent for longest, if it is away.
func (p *Picture) room() bool {
	if len(p.agents) < MaxAgents {
		return true
	}

	var oldest *seen
	for _, s := range p.agents {
		if oldest == nil || s.at.Before(oldest.at) {
			oldest = s
		}
	}

	if p.clock.Now().Sub(oldest.at) <= wire.UnreachableAfter {
		return false
	}

	delete(p.agents, oldest.beat.Agent)
	return true
}

// Names lists all agents of the picture.
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

// Known returns whether an agent was ever heard, and how sure that is: no agent is called unknown before two heartbeats
// could have come (R4).
func (p *Picture) Known(name transfer.AgentName) wire.Known {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := 2*wire.BeatEvery - p.clock.Now().Sub(p.since)
	k := wire.Known{Known: p.agents[name] != nil, Sure: wait <= 0, Wait: max(wait, 0), Removed: p.removed[name]}
	if s := p.agents[name]; s != nil && p.present(s) {
		k.Manager = s.beat.Manager
	}
	return k
}

// Agents lists the agents by name. Their state follows from the age of the last message.
func (p *Picture) Agents() []wire.AgentStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	var out []wire.AgentStatus
	for _, s := range p.agents {
		a := wire.AgentStatus{Beat: s.beat, Status: s.beat.Status, Standbys: s.waiting(now)}
		if heard := s.heard(); !heard.IsZero() {
			a.Age = max(now.Sub(heard), 0)
		}
		if s.at.IsZero() || a.Age > wire.UnreachableAfter && a.Status != wire.AgentStopped {
			a.Status = wire.AgentUnreachable
		}
		out = append(out, a)
	}

	sort.Slice(out, func(i, j int) bool { return out[i].Agent < out[j].Agent })
	return out
}

// Progress takes live figures of a transfer from its source.
func (p *Picture) Progress(g *transfer.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.transfers[key{g.ID, g.Source}]
	if e != nil && over(&e.Progress) && !e.said {
		return // a late message; the end is the end
	}
	if e == nil {
		e = p.add(g)
	}
	if e.said {
		e.related.Acknowledged = nil // of the failure that the submitter had reported
	}
	e.Progress, e.said, e.claimed = *g, false, false
	e.rate.take(g, p.clock.Now())
	p.confirm(e)
	p.weigh(e)
}

// over reports whether a transfer's state can no longer change. Withdrawn can: it may be the submitter's report, and
// that of the source agent replaces it.
func over(g *transfer.Progress) bool { return g.State.Final() && g.State != transfer.Withdrawn }

// Queued takes a submitter's report about a transfer before any agent has reported it. The transfer was submitted; or
// its submitter has withdrawn it, or its agent has refused it (Failed). Figures and times of a run are the agent's alone to
// report, and are left out.
func (p *Picture) Queued(g *transfer.Progress) {
	g = &transfer.Progress{ID: g.ID, State: g.State, Source: g.Source, Destination: g.Destination, Originator: g.Originator, Principal: g.Principal,
		Job: g.Job, Priority: g.Priority, Submitted: g.Submitted, Reason: g.Reason, Code: g.Code}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.transfers[key{g.ID, g.Source}]
	if g.ID.IsZero() || e == nil && g.State == transfer.Failed || e != nil && (e.State != transfer.Queued || g.State != transfer.Withdrawn && g.State != transfer.Failed || e.Principal != g.Principal) {
		return
	}

	if e == nil {
		e = p.put(g, true)
	}

	e.said = true
	if e.Progress = *g; e.State != transfer.Withdrawn && e.State != transfer.Failed {
		e.State = transfer.Queued
	}

	p.weigh(e)
}

func (p *Picture) add(g *transfer.Progress) *entry { return p.put(g, false) }

// put adds a transfer, which may give way at once. claimed says that a submitter's report makes it.
func (p *Picture) put(g *transfer.Progress, claimed bool) *entry {
	p.count++
	e := &entry{Progress: *g, made: p.count, claimed: claimed, reported: claimed}
	p.transfers[key{g.ID, g.Source}] = e
	if len(p.transfers) > MaxTransfers+MaxTransfers/10 {
		p.shrink()
	}
	return e
}

func (p *Picture) drop(e *entry) {
	p.forgot(e)
	p.bytes -= e.bytes
	delete(p.transfers, key{e.ID, e.Source})
	p.unrelate(e)
}

// Record folds an audit record in. Records rebuild the picture after a restart, and show transfers whose live figures
// were missed. Record reports false for a record in which an agent reports another's transfer; such a record changes
// nothing.
func (p *Picture) Record(r *audit.Record) bool {
	switch {
	case r.Transfer.IsZero():
		return true
	case r.Agent == audit.Coordination:
		acknowledge(p, r)
		return true
	case r.Role == audit.RoleDestination:
		return r.Destination == "" || r.Destination == r.Agent
	case r.Role != audit.RoleSource:
		return true
	case r.Source != "" && r.Source != r.Agent:
		return false
	case r.Event == audit.Refused:
		if r.Destination != "" {
			p.refused(r)
		}
		return true // of a command: the transfer may be unknown, and is as it was
	case r.Event == audit.Changed, r.Program != nil && r.Program.At == transfer.ManagedCall: // it is of a call, and of no transfer
		return true
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.transfers[key{r.Transfer, r.Agent}]
	if e == nil {
		e = p.add(&transfer.Progress{ID: r.Transfer, Source: r.Agent, Destination: r.Destination, Job: r.Job})
		if r.Originator != nil {
			e.Originator = r.Originator.String()
		}
	}

	if r.Meta != nil {
		e.meta = r.Meta
	}

	if e.said && e.State == transfer.Failed {
		e.State, e.Code, e.Reason, e.Ended = transfer.Queued, 0, nil, time.Time{} // the agent's report replaces that of the submitter
		e.related.Acknowledged = nil
	}
	e.said = false
	e.belongs(r)
	if s := p.agents[r.Agent]; s != nil && s.beat.Incarnation == r.Incarnation && !r.Time.Before(s.beat.Started) {
		p.confirm(e)
	}
	p.relate(e, r)
	fold(&e.Progress, r)
	takeEarly(p, e, r)
	p.weigh(e)
	return true
}

// belongs takes the principal of a request that the agent has taken. The request replaces a claim to its ID: a request
// that was refused before, or a report, which anyone may give.
func (e *entry) belongs(r *audit.Record) {
	switch {
	case !e.claimed && (r.Event == audit.Submitted || r.Event == audit.Accepted):
		e.Principal = cmp.Or(e.Principal, r.Principal)
		return
	case !e.claimed, r.Destination == "": // the agent has not taken a request that it cannot read, or that was cancelled before it came
		return
	}
	by, from := r.Principal, ""
	if r.Event == audit.Cancelled || r.Event == audit.Resumed {
		by = "" // the record names the principal of the command
	} else if r.Originator != nil {
		from = r.Originator.String()
	}
	if e.Principal != by {
		e.Progress, e.related.Acknowledged = transfer.Progress{ID: e.ID, Source: e.Source, State: transfer.Queued}, nil
	}
	e.claimed, e.Principal, e.Originator, e.Destination, e.Job = false, by, from, r.Destination, r.Job
}

// refused takes the record of a request that its agent has refused. A transfer that the agent has accepted stays as it
// is, and so does another principal's.
func (p *Picture) refused(r *audit.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.transfers[key{r.Transfer, r.Agent}]
	if e != nil && (!e.said || e.Principal != r.Principal) {
		return
	}
	if e == nil {
		e = p.add(&transfer.Progress{ID: r.Transfer, Source: r.Agent, Destination: r.Destination, Job: r.Job, Principal: r.Principal, Submitted: r.Transfer.Time()})
		e.claimed = true
		if r.Originator != nil {
			e.Originator = r.Originator.String()
		}
	}
	e.said, e.State, e.Code, e.Reason, e.Ended = true, transfer.Failed, r.Code, r.Error, r.Time
	p.weigh(e)
}

// fold takes a record of the transfer's source into its figures.
func fold(g *transfer.Progress, r *audit.Record) {
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
		addFailures(g, r.Items)
	case audit.Parked:
		g.State, g.Reason = transfer.Parked, r.Error
	case audit.Completed, audit.Failed, audit.Cancelled:
		ended(g, r)
	}
}

// addFailures adds the failed outcomes of a record, at most transfer.MaxFailures and each item once: live figures have them,
// too.
func addFailures(g *transfer.Progress, items []transfer.Outcome) {
	for i := range items {
		if len(g.Failures) < transfer.MaxFailures && items[i].Failed() {
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

// maxSeconds bounds how long a transfer took: a hundred years.
const maxSeconds = 100 * 365 * 24 * 3600

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
		seconds := min(max(r.Seconds, 0), maxSeconds)
		g.Started = r.Time.Add(-time.Duration(seconds * float64(time.Second)))
	}
}

// sorted lists the transfers newest first, and those with one ID as before orders them.
func (p *Picture) sorted() []*entry {
	all := make([]*entry, 0, len(p.transfers))
	for _, e := range p.transfers {
		all = append(all, e)
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].ID != all[j].ID {
			return string(all[i].ID[:]) > string(all[j].ID[:])
		}
		return all[i].before(all[j])
	})
	return all
}

// before reports whether of two transfers with one ID this one is shown: one that its source has spoken of, and else
// the first one. Anyone may report the ID for another source.
func (e *entry) before(other *entry) bool {
	if e.said != other.said {
		return other.said
	}
	return e.made < other.made
}

// Transfer returns the one transfer with an ID that ends in suffix, among those of a principal (see Of). Without a
// principal it looks among all.
func (p *Picture) Transfer(suffix, whose string) (*transfer.Progress, error) {
	if err := transfer.CheckIDSuffix(suffix); err != nil {
		return nil, err
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	var found *entry
	for k, e := range p.transfers {
		if !strings.HasSuffix(k.id.String(), strings.ToLower(suffix)) || whose != "" && !Of(&e.Progress, whose) {
			continue
		}
		if found != nil && found.ID != k.id {
			return nil, transfer.Errorf(transfer.KindUsage, "several transfers have an ID that ends in %q; give more of it", suffix)
		}
		if found == nil || e.before(found) {
			found = e
		}
	}

	if found == nil {
		return nil, transfer.Errorf(transfer.KindNotFound, "no transfer has an ID that ends in %q", suffix).
			WithHint("`ferry transfer ls` lists them")
	}

	c := p.shown(found)
	return &c, nil
}

// shown returns a transfer as users see it. Where it has not ended and its source is silent, its reason says so and the
// figures are the last ones.
func (p *Picture) shown(e *entry) transfer.Progress {
	g := &e.Progress
	c := *g
	c.Related, c.Rate = e.related, e.rate.last
	c.RetriedAs, c.Retried, c.RetriedFiles = p.repetitions(e)
	if c.State.Final() || c.State == transfer.Parked || c.State == transfer.Queued {
		return c
	}
	if since, silent := p.silent(g.Source); silent {
		c.Reason = transfer.Errorf(transfer.KindUnreachable, "%s has not been heard of since %s; this is where the transfer stood then", g.Source, since).
			WithHint("it goes on when the agent is there")
		return c
	}
	talks := c.State == transfer.Negotiating || c.State == transfer.Running || c.State == transfer.Waiting && c.Reason == nil
	if since, silent := p.silent(g.Destination); silent && talks {
		c.State = transfer.Waiting
		c.Reason = transfer.Errorf(transfer.KindUnreachable, "it waits for agent %s, which has not been heard of since %s", g.Destination, since).
			WithHint("it goes on when the agent is there")
	}
	return c
}

// silent reports whether an agent of the picture neither sends heartbeats nor was stopped, and since when. An agent that
// was not heard in this run counts only after the time of its heartbeats.
func (p *Picture) silent(name transfer.AgentName) (since string, is bool) {
	s := p.agents[name]
	now := p.clock.Now()
	switch {
	case s == nil || s.beat.Status == wire.AgentStopped:
		return "", false
	case s.at.IsZero():
		return "coordination started", now.Sub(p.since) > wire.UnreachableAfter
	}
	return s.at.UTC().Format(time.RFC3339), now.Sub(s.at) > wire.UnreachableAfter
}
