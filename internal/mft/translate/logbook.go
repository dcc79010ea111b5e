package translate

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"ferry/internal/audit"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxRemembered is the most running transfers that a Logbook has facts of.
const maxRemembered = 10_000

// A Logbook makes the documents of records with facts of earlier records and of heartbeats: a record of items does not
// repeat the request, and MQ MFT's documents do. Facts that it does not have are left out.
type Logbook struct {
	mu        sync.Mutex
	agents    map[transfer.AgentName]wire.Beat
	transfers map[transfer.ID]*remembered
}

// A remembered transfer has the facts of a transfer so far.
type remembered struct {
	started time.Time
	meta    map[string]string
	request *audit.RequestFacts
	found   int64 // items of the walk, as the source reports them
	items   int64 // that have ended
	bytes   int64 // of these
}

// NewLogbook makes a Logbook that remembers nothing.
func NewLogbook() *Logbook {
	return &Logbook{agents: map[transfer.AgentName]wire.Beat{}, transfers: map[transfer.ID]*remembered{}}
}

// Beat takes the heartbeat of an agent.
func (b *Logbook) Beat(of *wire.Beat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agents[of.Agent] = *of
}

// Progress takes live figures of a transfer, and returns its DEST; zero: not known.
func (b *Logbook) Progress(p *transfer.Progress) transfer.Location {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.transfers[p.ID]
	if m == nil {
		return transfer.Location{}
	}
	m.found = max(m.found, p.FilesTotal)
	if m.request == nil {
		return transfer.Location{}
	}
	return m.request.Dest
}

// Logs is the function Logs, with all facts.
func (b *Logbook) Logs(r *audit.Record) []mftxml.Log {
	if r.Role != audit.RoleSource || r.Transfer.IsZero() || r.Agent != r.Source {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.transfers[r.Transfer]
	if m == nil {
		m = &remembered{}
		if len(b.transfers) < maxRemembered && !r.State.Final() {
			b.transfers[r.Transfer] = m
		}
	}
	m.request = cmp.Or(r.Request, m.request)
	if r.Meta != nil {
		m.meta = r.Meta
	}
	if r.Event == audit.Started {
		m.started = r.Time
	}
	all := Logs(r)
	for n := range all {
		b.complete(&all[n], m)
	}
	if r.State.Final() {
		delete(b.transfers, r.Transfer)
	}
	return all
}

// complete adds the facts of a transfer to a document.
func (b *Logbook) complete(l *mftxml.Log, m *remembered) {
	for _, a := range []*mftxml.LogAgent{&l.Source, &l.Destination} {
		if beat, ok := b.agents[a.Name]; ok {
			a.Manager, a.System, a.Version = beat.Manager, beat.Platform, beat.Version
		}
	}
	l.Start = m.started
	if l.Meta == nil {
		l.Meta = maps.Clone(m.meta)
	}
	for n := range l.Items {
		it := &l.Items[n]
		m.items++
		if it.Code == 0 {
			m.bytes += it.Size
		}
		m.fill(it)
	}
	if l.Ended == nil {
		l.Bytes, l.Total = m.bytes, max(m.found, m.items)
		if m.request != nil {
			l.Total = max(l.Total, int64(max(len(m.request.Sources), len(m.request.Items))+m.request.MoreSources))
		}
	}
}

// fill adds the options of the request to an item.
func (m *remembered) fill(it *mftxml.LogItem) {
	if m.request == nil {
		return
	}
	o := m.request.Options
	for n := range m.request.Items {
		if own := &m.request.Items[n]; own.Source.Path == it.Source && own.Options != (transfer.Options{}) {
			o = own.Options
		}
	}
	it.Mode, it.Disposition, it.Exist = cmp.Or(o.Mode, transfer.ModeBinary), cmp.Or(o.Disposition, transfer.DispositionLeave), cmp.Or(o.IfExists, transfer.IfExistsError)
}
