package status

import (
	"slices"
	"strings"
	"time"

	"ferry/internal/audit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Query says which transfers to list.
type Query struct {
	Before transfer.ID // only older ones; zero: from the newest
	Limit  int
	Filter *wire.Filter // nil: all
	// Whose is a principal: only the transfers that it has submitted are listed, and those with its agent at one end;
	// empty: all.
	Whose string
}

// Transfers lists transfers, newest first, without their failed items. left is how many
// more there are.
func (p *Picture) Transfers(q Query) (out []transfer.Progress, left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last transfer.ID
	for _, e := range p.sorted() {
		if e.ID == last || !q.Before.IsZero() && string(e.ID[:]) >= string(q.Before[:]) || q.Whose != "" && !Of(&e.Progress, q.Whose) {
			continue // another agent's word about an ID is not a transfer, and hides none of the principal
		}
		last = e.ID
		switch {
		case !p.matches(q.Filter, e):
		case len(out) == q.Limit:
			left++
		default:
			c := p.shown(e)
			c.Failures = nil
			out = append(out, c)
		}
	}
	return out, left
}

// Of reports whether a transfer is a principal's: he has submitted it, or is the agent at one of
// its ends.
func Of(p *transfer.Progress, principal string) bool {
	return principal == p.Principal || principal == p.Source.Token() || principal == p.Destination.Token()
}

// Sums returns the sums of all transfers that pass a query's filter, on all pages.
func (p *Picture) Sums(q Query) (sums wire.Sums) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last transfer.ID
	for _, e := range p.sorted() {
		if e.ID == last || q.Whose != "" && !Of(&e.Progress, q.Whose) {
			continue
		}
		last = e.ID
		switch {
		case !p.passes(q.Filter, e):
		case p.matches(q.Filter, e):
			sums.Add(&e.Progress)
		case e.related.Acknowledged != nil:
			sums.Acknowledged++
		default:
			sums.Retried++
		}
	}
	return sums
}

// byUser reports whether a transfer was submitted by a user. Without identities only the originator is known.
func byUser(user string, e *entry) bool {
	name := e.Principal
	if p, err := transfer.ParsePath(name); err == nil {
		name = string(p)
	}
	if name == "" {
		name, _, _ = strings.Cut(e.Originator, "@")
	}
	return audit.Like(user, name)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// matches reports whether a filter lets a transfer through, as users see it.
func (p *Picture) matches(f *wire.Filter, e *entry) bool {
	passed := p.passes(f, e)
	if !passed || f == nil || !f.Open {
		return passed
	}
	_, over, _ := p.repetitions(e)
	return !over && e.related.Acknowledged == nil
}

// passes is matches without the field Open of a filter.
func (p *Picture) passes(f *wire.Filter, e *entry) bool {
	if f == nil {
		return true
	}

	if !f.RetryOf.IsZero() && !repeats(p, e, f.RetryOf) || len(f.IDs) > 0 && !slices.Contains(f.IDs, e.ID) {
		return false
	}

	for k, v := range f.Meta {
		if has, ok := e.meta[k]; !ok || has != v {
			return false
		}
	}

	began := e.Submitted
	if f.User != "" && !byUser(f.User, e) {
		return false
	}
	if began.IsZero() {
		began = e.ID.Time()
	}

	switch {
	case f.Agent != "" && e.Source != f.Agent && e.Destination != f.Agent,
		f.From != "" && e.Source != f.From, f.To != "" && e.Destination != f.To,
		f.Job != "" && !audit.Like(f.Job, e.Job),
		f.Failed && e.State != transfer.Failed && e.FilesFailed == 0,
		!f.Since.IsZero() && e.State.Final() && later(e.Ended, began).Before(f.Since),
		!f.Until.IsZero() && !began.Before(f.Until):
		return false
	}
	return len(f.States) == 0 || slices.Contains(f.States, p.shown(e).State)
}
