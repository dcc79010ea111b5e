package status

import (
	"sort"

	"ferry/internal/transfer"
)

// An owner is the source of transfers, or a member with claims: transfers that the member alone has reported. Every
// member may report transfers of any source without end, so they are not those of the source.
type owner struct {
	source    transfer.AgentName
	principal string // of claims
}

func (e *entry) owner() owner {
	if e.claim() {
		return owner{principal: e.Principal}
	}
	return owner{source: e.Source}
}

// claim reports whether a transfer is a claim: its source has not taken it, and its member has reported it. A source
// names the principals of requests that it has refused, so that those are its own.
func (e *entry) claim() bool { return e.claimed && e.reported }

// claimPart is the part of a picture that the claims of one member have in a full picture: a tenth.
const claimPart = 10

// largest returns the owner that loses something next: the member with most claims, if these are more than their part
// of the bound, and otherwise the owner with most of all. size returns the size of the entries of an owner.
func largest[T any](of map[owner]T, size func(T) int, bound int) (most owner) {
	claims := false
	for o, has := range of {
		n, over := size(has), o.source == "" && size(has) > bound/claimPart
		switch best := size(of[most]); {
		case over != claims:
			if over {
				most, claims = o, true
			}
		case n > best, n == best && (o.source > most.source || o.source == most.source && o.principal > most.principal):
			most = o
		}
	}
	return most
}

// shrink drops transfers of the owner that has most of them: ended ones first, then queued ones, the oldest first.
func (p *Picture) shrink() {
	of := map[owner][]*entry{} // those that give way last come first
	for _, e := range p.sorted() {
		of[e.owner()] = append(of[e.owner()], e)
	}

	rank := func(e *entry) int {
		switch {
		case e.State.Final():
			return 2
		case e.State == transfer.Queued:
			return 1
		}
		return 0
	}
	for _, list := range of {
		sort.SliceStable(list, func(i, j int) bool { return rank(list[i]) < rank(list[j]) })
	}

	for len(p.transfers) > MaxTransfers {
		most := largest(of, func(list []*entry) int { return len(list) }, MaxTransfers)
		last := len(of[most]) - 1
		p.drop(of[most][last])
		of[most] = of[most][:last]
	}
}

// weigh counts the size of an entry. Details that are dropped, where all entries are too large, are in the audit log.
func (p *Picture) weigh(e *entry) {
	if p.transfers[key{e.ID, e.Source}] != e {
		return // it gave way at once
	}

	size := basics(e) + weight(e.Reason)
	for n := range e.brought {
		size += len(e.brought[n].source) + 32
	}
	for i := range e.Failures {
		o := &e.Failures[i]
		size += len(o.Path) + len(o.Source) + len(o.Picked) + len(o.Note) + weight(o.Err) + 256
	}

	p.bytes += size - e.bytes
	e.bytes = size
	if p.bytes > maxBytes {
		p.lighten()
	}
}

// A share is the part of a picture that belongs to one owner: whole entries, the newest first, and bare ones, the
// oldest first.
type share struct {
	whole, bare []*entry
	bytes       int
}

func (s *share) size() int {
	if s == nil {
		return 0
	}
	return s.bytes
}

// lighten frees half of the bound. The owner that holds most at each step loses reasons and failed items, the oldest
// first, and then whole transfers.
func (p *Picture) lighten() {
	shares := map[owner]*share{}
	for _, e := range p.sorted() {
		s := shares[e.owner()]
		if s == nil {
			s = &share{}
			shares[e.owner()] = s
		}
		s.whole, s.bytes = append(s.whole, e), s.bytes+e.bytes
	}

	for p.bytes > maxBytes/2 {
		most, before := shares[largest(shares, (*share).size, maxBytes)], p.bytes
		if last := len(most.whole) - 1; last >= 0 {
			e := most.whole[last]
			most.whole, most.bare = most.whole[:last], append(most.bare, e)
			e.Failures, e.Reason, e.brought = nil, nil, nil
			p.bytes += basics(e) - e.bytes
			e.bytes = basics(e)
		} else {
			p.drop(most.bare[0])
			most.bare = most.bare[1:]
		}
		most.bytes -= before - p.bytes
	}
}

// basics is the size of an entry without its reason and failed items.
func basics(e *entry) int {
	size := len(e.Originator) + len(e.Job) + len(e.LaneReason) + len(e.Current)
	if a := e.related.Acknowledged; a != nil {
		size += len(a.By) + len(a.Reason)
	}
	for k, v := range e.meta {
		size += len(k) + len(v) + 64
	}
	return size
}

func weight(e *transfer.Error) int {
	if e == nil {
		return 0
	}
	return len(e.Text) + len(e.Hint)
}
