package translate

import (
	"cmp"
	"container/list"
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
	transfers map[key]*remembered
	order     *list.List // of the values of transfers, by the time of the last record
}

// A key names a transfer of a source. The records of another agent about an ID do not change its facts.
type key struct {
	id     transfer.ID
	source transfer.AgentName
}

// A remembered transfer has the facts of a transfer so far.
type remembered struct {
	key
	at      *list.Element // in Logbook.order
	started time.Time
	meta    map[string]string
	request *audit.RequestFacts
	found   int64 // items of the walk, as the source reports them
	items   int64 // that have ended
	bytes   int64 // of these
}

// NewLogbook makes a Logbook that remembers nothing.
func NewLogbook() *Logbook {
	return &Logbook{agents: map[transfer.AgentName]wire.Beat{}, transfers: map[key]*remembered{}, order: list.New()}
}

// Beat takes the heartbeat of an agent.
func (b *Logbook) Beat(of *wire.Beat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agents[of.Agent] = *of
}

// Keep drops the facts of all agents but these.
func (b *Logbook) Keep(agents []wire.AgentStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := make(map[transfer.AgentName]bool, len(agents))
	for n := range agents {
		kept[agents[n].Agent] = true
	}
	maps.DeleteFunc(b.agents, func(name transfer.AgentName, _ wire.Beat) bool { return !kept[name] })
}

// Progress takes live figures of a transfer, and returns its DEST; zero: not known.
func (b *Logbook) Progress(p *transfer.Progress) transfer.Location {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.transfers[key{p.ID, p.Source}]
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
	m := b.remember(r)
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
	if r.State.Final() && m.at != nil {
		b.forget(m)
	}
	return all
}

// remember returns the facts of a record's transfer. A new transfer takes the place of the one without a record for the
// longest time: the end of that one may never be on record.
func (b *Logbook) remember(r *audit.Record) *remembered {
	k := key{r.Transfer, r.Source}
	m := b.transfers[k]
	switch {
	case m != nil:
		b.order.MoveToBack(m.at)
		return m
	case r.State.Final():
		return &remembered{key: k}
	case len(b.transfers) == maxRemembered:
		b.forget(b.order.Front().Value.(*remembered))
	}
	m = &remembered{key: k}
	m.at = b.order.PushBack(m)
	b.transfers[k] = m
	return m
}

func (b *Logbook) forget(m *remembered) {
	b.order.Remove(m.at)
	delete(b.transfers, m.key)
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
