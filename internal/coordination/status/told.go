package status

import (
	"slices"
	"time"

	"ferry/internal/audit"
	"ferry/internal/transfer"
)

// At returns the transfer of a source. is is false if the picture does not have it.
func At(p *Picture, source transfer.AgentName, id transfer.ID) (g transfer.Progress, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.transfers[key{id, source}]; e != nil {
		return p.shown(e), true
	}
	return g, false
}

// Reported returns the principal of a transfer with live figures of its source. is is false if there are none.
func Reported(p *Picture, id transfer.ID, source transfer.AgentName) (principal string, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.transfers[key{id, source}]
	if e == nil || e.Request == "" { // neither a submitter's report nor an audit record has the hash of the request
		return "", false
	}
	return e.Principal, true
}

// WithdrawnBy reports whether a principal has reported that it has withdrawn a transfer of its own.
func WithdrawnBy(p *Picture, principal string, id transfer.ID, source transfer.AgentName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.transfers[key{id, source}]
	return e != nil && e.said && e.State == transfer.Withdrawn && e.Principal == principal
}

// readPause is the time between two readings of the log for one transfer.
const readPause = time.Minute

// Unread reports whether submitters alone have reported a transfer, and the log was not read for it lately: it may have
// the transfer of another principal, or of another source.
func Unread(p *Picture, id transfer.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	said := false
	for k, e := range p.transfers {
		if k.id != id {
			continue
		}
		if !e.said || p.clock.Now().Sub(e.read).Abs() < readPause {
			return false
		}
		said = true
	}
	return said
}

// NoteRead notes that the log was read for a transfer. Later records come into the picture by themselves.
func NoteRead(p *Picture, id transfer.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, e := range p.transfers {
		if k.id == id {
			e.read = p.clock.Now()
		}
	}
}

// maxEarly bounds the acknowledgements that wait for their transfers.
const maxEarly = 10_000

// clockError is the difference that is allowed between the clocks of coordination and of an agent, as for signed
// messages (word.Ahead).
const clockError = time.Hour

// acknowledge takes coordination's record that a principal has seen the failure of a transfer. The first one counts.
// The record may be in the log before those of the source: then it waits for the end of its transfer. Where too many
// wait, the oldest gives way.
func acknowledge(p *Picture, r *audit.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := key{r.Transfer, r.Source}
	e, seen := p.transfers[k], transfer.Acknowledgement{By: r.Principal, Time: r.Time, Reason: r.Reason}
	switch {
	case r.Event != audit.Acked || e != nil && e.related.Acknowledged != nil:
	case e != nil:
		e.related.Acknowledged = &seen
		p.weigh(e)
	default:
		if _, waits := p.early[k]; !waits {
			p.earliest = append(p.earliest, k)
		}
		if p.early[k] = seen; len(p.early) > maxEarly {
			delete(p.early, p.earliest[0])
			p.earliest = p.earliest[1:]
		}
	}
}

// takeEarly takes the acknowledgement of a transfer that has ended by a record. One from before that end is of an earlier
// failure, such as a refusal of the request. Two clocks give these times.
func takeEarly(p *Picture, e *entry, end *audit.Record) {
	k := key{e.ID, e.Source}
	seen, is := p.early[k]
	if !is || !over(&e.Progress) {
		return
	}
	delete(p.early, k)
	if n := slices.Index(p.earliest, k); n >= 0 {
		p.earliest = slices.Delete(p.earliest, n, n+1)
	}
	if e.related.Acknowledged == nil && end.Time.Sub(seen.Time) <= clockError {
		e.related.Acknowledged = &seen
	}
}
