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
	bring(p, e, r)
	if r.Event != audit.Submitted || r.Request == nil || r.Request.Parent.IsZero() {
		return
	}
	if !e.related.RetryOf.IsZero() || p.transfers[key{e.ID, e.Source}] != e {
		return // the first request of a transfer is the one that was accepted
	}
	e.related.RetryOf, e.mayEnd = r.Request.Parent, r.Request.MayEnd
	of := key{r.Request.Parent, e.Source}
	p.retries[of] = append(p.retries[of], e)
}

// counts reports whether a transfer counts as a repetition of another one. A submitter may name any transfer as the
// one that its request repeats. So the submitter must be that of both transfers, or one that may end the other one.
func (e *entry) counts(of *entry) bool {
	return e.State != transfer.Withdrawn && (e.mayEnd || e.Principal != "" && e.Principal == of.Principal)
}

// unrelate forgets a transfer that gives way as a repetition of another one.
func (p *Picture) unrelate(e *entry) {
	of := key{e.related.RetryOf, e.Source}
	left := slices.DeleteFunc(p.retries[of], func(by *entry) bool { return by == e })
	if len(left) == 0 {
		delete(p.retries, of)
		return
	}
	p.retries[of] = left
}

// repeats reports whether a transfer counts as a repetition of the one with an ID.
func repeats(p *Picture, e *entry, id transfer.ID) bool {
	of := p.transfers[key{id, e.Source}]
	return e.related.RetryOf == id && of != nil && e.counts(of)
}

// A broughtItem is a failed item of a transfer that a repetition of it has brought: its source, and its target.
type broughtItem struct {
	source transfer.Path
	to     uint64
}

// bring notes the items of a repetition that arrived and had failed the first time, as far as the picture names those.
func bring(p *Picture, e *entry, r *audit.Record) {
	of := p.transfers[key{e.related.RetryOf, e.Source}]
	if r.Event != audit.Items || e.related.RetryOf.IsZero() || of == nil || of == e {
		return
	}
	for n := range r.Items {
		o := &r.Items[n]
		at := broughtItem{o.Reads(), o.To}
		failed := func(f transfer.Outcome) bool { // a source that was missing may be a directory by now, with more in it
			return at == broughtItem{f.Reads(), f.To} && (f.Type != transfer.ItemBad || o.Type != transfer.ItemDir)
		}
		if o.OK() && slices.ContainsFunc(of.Failures, failed) && !slices.Contains(e.brought, at) {
			e.brought = append(e.brought, at)
		}
	}
}

// repetitions tells which repetition of a transfer is the last one that counts, and whether the failure is over: that
// repetition was not cancelled, or cancelled ones have brought all items that had failed.
func (p *Picture) repetitions(e *entry) (last transfer.ID, over bool, brought int64) {
	all := map[broughtItem]bool{}
	for _, by := range p.retries[key{e.ID, e.Source}] {
		if !by.counts(e) {
			continue
		}
		runs := by.State != transfer.Cancelled && by.State != transfer.Cancelling
		if runs && !over || runs == over && string(by.ID[:]) > string(last[:]) {
			last, over = by.ID, runs
		}
		for _, at := range by.brought {
			all[at] = true
		}
	}
	brought = int64(len(all))
	decided := e.Code == transfer.CodePartial || e.Code == transfer.CodeNothing
	return last, over || decided && brought > 0 && brought == e.FilesFailed, brought
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

// forgot notes that a transfer gives way. The time is one of an agent, and may be wrong. A claim is not noted: its
// member could otherwise have each list say that it is not complete.
func (p *Picture) forgot(e *entry) {
	if e.claim() {
		return
	}
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
