package sender

import (
	"slices"
	"strings"
	"sync"

	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// What a destination says of an item is held against what this side has sent of it: the
// item's number leads to its line in the journal, and the line says what it is and where.
// Nothing that is deleted is chosen by a message (INV-12).

// sent is what was sent of items that the destination may decide. It is safe for concurrent
// use.
type sent struct {
	mu    sync.Mutex
	items map[uint64]*begun
	heir  bool // what an earlier run may have begun is not in items yet
	all   bool // with stored delivery: everything may be begun, and is looked up when an outcome comes
}

// A begun item is one that the destination may decide.
type begun struct {
	kind   transfer.ItemType
	source transfer.Path
	picked transfer.Path
	delete bool               // its source is to be deleted
	form   bool               // and what is kept of its content
	to     transfer.Path      // where it goes instead; empty: nowhere
	before bool               // an earlier run may have sent all of it
	ends   []transfer.Version // of what this run has sent to its end, each once
	sum    string             // the digest of the last of them, where summed says that it was sent, too
	summed bool
}

// begin says that an item is about to be sent.
func (s *sent) begin(n uint64, it transfer.Item, t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.all {
		s.add(n, it, t)
	}
}

func (s *sent) add(n uint64, it transfer.Item, t *task) *begun {
	if s.items[n] == nil {
		s.items[n] = &begun{kind: it.Type, source: it.Source, picked: it.Picked, delete: t.options.Removes(), form: t.content, to: archived(t, it.Name)}
	}
	return s.items[n]
}

// end says that the end of a file is about to be sent.
func (s *sent) end(n uint64, v transfer.Version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.items[n]
	if b == nil {
		return
	}
	if b.summed = false; !slices.Contains(b.ends, v) {
		b.ends = append(b.ends, v)
	}
}

// digest says that the digest of a file is about to be sent.
func (s *sent) digest(n uint64, v transfer.Version, sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.items[n]; b != nil && len(b.ends) > 0 && b.ends[len(b.ends)-1] == v {
		b.sum, b.summed = sum, true
	}
}

// digestOf is the digest that was sent of a file, if it is still what it was then.
func (s *sent) digestOf(n uint64, v transfer.Version) (sum string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.items[n]
	if b == nil || !b.summed || b.ends[len(b.ends)-1] != v {
		return "", false
	}
	return b.sum, true
}

// lacksEarlier reports whether inherit is yet to be called.
func (s *sent) lacksEarlier() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heir
}

// inherit takes in what earlier runs may have begun, from an item on: what they have sent
// of it, nobody knows. With stored delivery it takes the place of what was taken in before.
func (s *sent) inherit(from uint64, items []transfer.Item, tasks []task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all {
		clear(s.items)
	}
	for k, it := range items {
		s.add(from+uint64(k), it, &tasks[k]).before = true
	}
	s.heir = s.all
}

// archived is where a source goes once it has arrived: it keeps its path beneath DEST.
func archived(t *task, name transfer.Path) transfer.Path {
	if t.options.Archive == "" {
		return ""
	}
	return transfer.Path(strings.TrimSuffix(string(t.options.Archive), "/")) + "/" + name
}

// A believed outcome can be true. delete, form and to are those of the item; before says that an earlier run
// may have begun it.
type believed struct {
	transfer.Outcome
	delete, form, before bool
	to                   transfer.Path
}

const notBegun = "an outcome of an item that was not begun"

// believe holds an outcome against what was sent, and puts the journal's path in place of
// the one that it names. Where the two do not match it says why.
func (s *sent) believe(oc transfer.Outcome) (is believed, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.items[oc.Item]
	if b != nil {
		is.delete, is.form, is.before, is.to = b.delete, b.form, b.before, b.to
	}

	is.Outcome = oc
	if failpoint.Planted("outcome-path-believed") {
		return is, ""
	}

	switch {
	case b == nil:
		return is, notBegun
	case oc.Source != b.source && (oc.OK() || oc.Source != ""):
		return is, "an outcome of another file than the item's"
	case oc.Type != b.kind && (oc.OK() || oc.Type != transfer.ItemBad), oc.OK() && b.kind == transfer.ItemBad:
		return is, "an outcome of another type than the item's"
	case oc.OK() && b.kind == transfer.ItemFile && !b.before && len(b.ends) == 0:
		return is, "an outcome of a file that was not sent to its end"
	case oc.OK() && b.kind == transfer.ItemFile && !b.before && b.delete && !slices.Contains(b.ends, oc.Version):
		return is, "an outcome of another state of the file than was sent"
	}

	is.Source, is.Picked = b.source, b.picked
	return is, ""
}

// forget forgets an item that is decided.
func (s *sent) forget(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.items, n)
}
