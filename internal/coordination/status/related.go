package status

import (
	"slices"
	"time"

	"ferry/internal/audit"
	"ferry/internal/transfer"
)

// relate takes the facts of a record that a transfer's live figures do not have.
func (p *Picture) relate(e *entry, r *audit.Record) {
	if r.Event == audit.Cancelled && r.State == transfer.Cancelled && r.Principal != "" {
		e.related.CancelledBy = r.Principal
	}
	if r.Request == nil || r.Request.Parent.IsZero() || p.transfers[key{e.ID, e.Source}] != e {
		return
	}
	e.related.RetryOf = r.Request.Parent
	if of := (key{r.Request.Parent, e.Source}); !slices.Contains(p.retries[of], e.ID) {
		p.retries[of] = append(p.retries[of], e.ID)
	}
}

// unrelate forgets a transfer that gives way as a repetition of another one.
func (p *Picture) unrelate(e *entry) {
	of := key{e.related.RetryOf, e.Source}
	left := slices.DeleteFunc(p.retries[of], func(id transfer.ID) bool { return id == e.ID })
	if len(left) == 0 {
		delete(p.retries, of)
		return
	}
	p.retries[of] = left
}

// retriedAs returns the last repetition of a transfer. One that was refused or withdrawn does not count. done reports
// that the repetition was not cancelled either.
func (p *Picture) retriedAs(e *entry) (last transfer.ID, done bool) {
	for _, id := range p.retries[key{e.ID, e.Source}] {
		by := p.transfers[key{id, e.Source}]
		if by == nil || by.State == transfer.Withdrawn {
			continue
		}
		runs := by.State != transfer.Cancelled && by.State != transfer.Cancelling
		if runs && !done || runs == done && string(id[:]) > string(last[:]) {
			last, done = id, runs
		}
	}
	return last, done
}

// A rate is the bytes in a second of a transfer, over about the last rateOver of its running.
type rate struct {
	at    time.Time // zero: it did not run at the last report
	bytes int64
	last  int64 // the last rate; 0: none yet
}

// Times of a rate: about the time that it is measured over, and the shortest time between two reports.
const (
	rateOver  = 10 * time.Second
	rateLeast = time.Second
)

// take takes a report at a time. While the transfer does not run, the rate stays as it was.
func (r *rate) take(g *transfer.Progress, now time.Time) {
	bytes := g.BytesSoFar()
	switch past := now.Sub(r.at); {
	case g.State != transfer.Running:
		r.at = time.Time{}
	case r.at.IsZero() || bytes < r.bytes:
		r.at, r.bytes = now, bytes
	case past >= rateLeast:
		part := float64(past) / float64(rateOver)
		if fresh := float64(bytes-r.bytes) / past.Seconds(); r.last == 0 || part >= 1 {
			r.last = int64(fresh)
		} else {
			r.last += int64((fresh - float64(r.last)) * part)
		}
		r.at, r.bytes = now, bytes
	}
}

// forgot notes that a transfer gives way. The time is one of an agent, and may be wrong.
func (p *Picture) forgot(e *entry) {
	last := later(later(e.Ended, e.Submitted), e.ID.Time())
	if now := p.clock.Now(); last.After(now) {
		last = now
	}
	p.complete = later(p.complete, last)
}

// CompleteSince returns the time since that the picture has all transfers: those that ended before may be missing. It is
// zero where none is missing.
func (p *Picture) CompleteSince() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.complete
}

// Begin says that the records before a time were not read.
func (p *Picture) Begin(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complete = later(p.complete, at)
}
