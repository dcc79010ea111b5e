package sender

import (
	"slices"
	"strings"
	"sync"

	"ferry/internal/sender/walk"
	"ferry/internal/transfer"
)

// Each outcome from a destination is checked against the sent item: the item's number leads to its line in the journal,
// and the line gives its path and type. No message chooses a file to delete (INV-12).

// sentItems keeps the sent items that the destination may decide. It is safe for concurrent use.
type sentItems struct {
	mu                sync.Mutex
	items             map[uint64]*begun
	needsEarlierItems bool // items of an earlier run are not in items yet
	all               bool // with stored delivery: every item may be begun, and is looked up when an outcome comes
}

// A begun item is one that the destination may decide.
type begun struct {
	kind   transfer.ItemType
	source transfer.Path
	picked transfer.Path
	delete bool               // its source is to be deleted
	form   bool               // the stored form of its content is to be deleted, too
	to     transfer.Path      // the archive for the source; empty: none
	before bool               // an earlier run may have sent all of it
	ends   []transfer.Version // versions that this run has sent to their end, each once
	mtime  int64              // as it was sent last
	sum    string             // the digest of the last version; summed: it was sent, too
	summed bool
}

// begin records that an item will be sent now.
func (s *sentItems) begin(n uint64, it transfer.Item, t *walk.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.all {
		s.add(n, it, t)
	}
}

func (s *sentItems) add(n uint64, it transfer.Item, t *walk.Task) *begun {
	if s.items[n] == nil {
		s.items[n] = &begun{kind: it.Type, source: it.Source, picked: it.Picked, delete: t.Options.Removes(), form: t.Content, to: archived(t, it.Name)}
	}
	return s.items[n]
}

// dated records when a file that is sent now was modified.
func (s *sentItems) dated(n uint64, mtime int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.items[n]; b != nil {
		b.mtime = mtime
	}
}

// end records that the end of a file will be sent now.
func (s *sentItems) end(n uint64, v transfer.Version) {
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

// digest records that the digest of a file will be sent now.
func (s *sentItems) digest(n uint64, v transfer.Version, sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.items[n]; b != nil && len(b.ends) > 0 && b.ends[len(b.ends)-1] == v {
		b.sum, b.summed = sum, true
	}
}

// digestOf returns the digest that was sent of a file, if the file still has version v.
func (s *sentItems) digestOf(n uint64, v transfer.Version) (sum string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.items[n]
	if b == nil || !b.summed || b.ends[len(b.ends)-1] != v {
		return "", false
	}
	return b.sum, true
}

// needsEarlier reports whether addEarlier has yet to be called.
func (s *sentItems) needsEarlier() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.needsEarlierItems
}

// addEarlier takes in the items that earlier runs may have begun, from an item on: the extent of the sent bytes is
// unknown. With stored delivery they replace the items taken in before.
func (s *sentItems) addEarlier(from uint64, items []transfer.Item, tasks []walk.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all {
		clear(s.items)
	}
	for k, it := range items {
		s.add(from+uint64(k), it, &tasks[k]).before = true
	}
	s.needsEarlierItems = s.all
}

// archived returns the path of a source in the archive, with its path beneath DEST; empty: no archive.
func archived(t *walk.Task, name transfer.Path) transfer.Path {
	if t.Options.Archive == "" {
		return ""
	}
	return transfer.Path(strings.TrimSuffix(string(t.Options.Archive), "/")) + "/" + name
}

// A checkedOutcome is an outcome that is possible. delete, form and to are the item's; before says that an earlier run may have
// begun it.
type checkedOutcome struct {
	transfer.Outcome
	delete, form, before bool
	to                   transfer.Path
}

const notBegun = "an outcome of an item that was not begun"

// check checks an outcome against the sent item, and replaces its path by the journal's path. If the two do not
// match, why gives the reason.
func (s *sentItems) check(oc transfer.Outcome) (is checkedOutcome, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.items[oc.Item]
	if b != nil {
		is.delete, is.form, is.before, is.to = b.delete, b.form, b.before, b.to
	}

	is.Outcome = oc

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

	is.Source, is.Picked, is.Mtime = b.source, b.picked, b.mtime
	return is, ""
}

// forget drops a decided item.
func (s *sentItems) forget(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.items, n)
}
