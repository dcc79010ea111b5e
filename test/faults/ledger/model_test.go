//go:build linux

package ledger_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// records are the operations of a ledger's transaction. The model has them, too.
type records interface {
	Source(transfer.ID) (*ledger.Source, error)
	PutSource(*ledger.Source) error
	Incoming(transfer.ID) (*ledger.Incoming, error)
	PutIncoming(*ledger.Incoming) error
	Item(transfer.ID, uint64) (*ledger.Item, error)
	PutItem(transfer.ID, uint64, ledger.Item) error
	DropItem(transfer.ID, uint64) error
	PutIntents(transfer.ID, []transfer.Intent) error
	PutOutcomes(transfer.ID, []transfer.Outcome) error
	DropItems(transfer.ID, []uint64) error
	PutDir(transfer.ID, transfer.Path, bool) error
	PutDelete(transfer.ID, uint64, ledger.Delete) error
	DropDelete(transfer.ID, uint64) error
	Command(string, transfer.ID) (hash string, answer []byte, err error)
	PutCommand(by string, id transfer.ID, hash string, answer []byte) error
	PutTombstone(transfer.ID, transfer.State, string) error
	Audit(func(n uint64) []byte) error
	Floor(string) transfer.ID
}

var _ records = (*ledger.Tx)(nil)

// A model holds the expected content of a ledger in plain maps. A key is the name of the kind and the identifiers in
// hexadecimal, so that keys sort as in the ledger. A value is the stored value as JSON.
type model struct {
	kept    map[string]string
	outbox  map[uint64]string
	next    uint64 // number of the next audit record
	running time.Duration
	floor   transfer.ID
	done    transfer.ID // the floor of commands
}

func newModel() *model {
	return &model{kept: map[string]string{}, outbox: map[uint64]string{}, next: 1}
}

func (m *model) clone() *model {
	c := *m
	c.kept, c.outbox = maps.Clone(m.kept), maps.Clone(m.outbox)
	return &c
}

func key(kind string, id transfer.ID, more ...[]byte) string {
	return fmt.Sprintf("%s %x%x", kind, id[:], slices.Concat(more...))
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func (m *model) put(k string, v any) error {
	b, err := json.Marshal(v)
	m.kept[k] = string(b)
	return err
}

// read returns nil if the key is missing.
func read[T any](m *model, k string) (*T, error) {
	b, ok := m.kept[k]
	if !ok {
		return nil, nil
	}
	v := new(T)
	return v, json.Unmarshal([]byte(b), v)
}

// drop removes all entries of a kind that belong to a transfer.
func (m *model) drop(kind string, id transfer.ID) {
	maps.DeleteFunc(m.kept, func(k, _ string) bool { return strings.HasPrefix(k, key(kind, id)) })
}

func (m *model) Source(id transfer.ID) (*ledger.Source, error) {
	return read[ledger.Source](m, key("source", id))
}

func (m *model) PutSource(s *ledger.Source) error {
	s.V = 1
	if s.State.Final() {
		s.Request.Items, s.Decided, s.EndedAt = nil, transfer.ItemSet{}, m.running
		m.drop("delete", s.Request.ID)
	}
	return m.put(key("source", s.Request.ID), s)
}

func (m *model) Incoming(id transfer.ID) (*ledger.Incoming, error) {
	return read[ledger.Incoming](m, key("incoming", id))
}

func (m *model) PutIncoming(in *ledger.Incoming) error {
	in.V = 1
	if in.State.Final() {
		in.Decided, in.EndedAt = transfer.ItemSet{}, m.running
		m.drop("item", in.Request.ID)
		m.drop("dir", in.Request.ID)
	}
	return m.put(key("incoming", in.Request.ID), in)
}

func (m *model) Item(id transfer.ID, n uint64) (*ledger.Item, error) {
	return read[ledger.Item](m, key("item", id, number(n)))
}

func (m *model) PutItem(id transfer.ID, n uint64, it ledger.Item) error {
	it.V = 1
	return m.put(key("item", id, number(n)), it)
}

func (m *model) DropItem(id transfer.ID, n uint64) error {
	delete(m.kept, key("item", id, number(n)))
	return nil
}

func (m *model) PutIntents(id transfer.ID, ins []transfer.Intent) (err error) {
	for n := range ins {
		err = errors.Join(err, m.PutItem(id, ins[n].Outcome.Item, ledger.Item{Intent: &ins[n]}))
	}
	return err
}

func (m *model) PutOutcomes(id transfer.ID, outs []transfer.Outcome) (err error) {
	for n := range outs {
		err = errors.Join(err, m.PutItem(id, outs[n].Item, ledger.Item{Outcome: &outs[n]}))
	}
	return err
}

func (m *model) DropItems(id transfer.ID, items []uint64) (err error) {
	for _, n := range items {
		err = errors.Join(err, m.DropItem(id, n))
	}
	return err
}

func (m *model) PutDir(id transfer.ID, dir transfer.Path, missing bool) error {
	k := key("dir", id, []byte(dir))
	if _, known := m.kept[k]; known {
		return nil
	}
	return m.put(k, missing)
}

func (m *model) PutDelete(id transfer.ID, n uint64, d ledger.Delete) error {
	d.V = 1
	return m.put(key("delete", id, number(n)), d)
}

func (m *model) DropDelete(id transfer.ID, n uint64) error {
	delete(m.kept, key("delete", id, number(n)))
	return nil
}

type answer struct {
	At     time.Duration
	Hash   string
	Answer string
}

func (m *model) Command(_ string, id transfer.ID) (string, []byte, error) {
	a, err := read[answer](m, key("command", id))
	if a == nil {
		return "", nil, err
	}
	return a.Hash, []byte(a.Answer), err
}

func (m *model) PutCommand(_ string, id transfer.ID, hash string, b []byte) error {
	return m.put(key("command", id), answer{m.running, hash, string(b)})
}

func (m *model) PutTombstone(id transfer.ID, as transfer.State, by string) error {
	return m.put(key("tomb", id), ledger.Tombstone{As: as, By: by})
}

func (m *model) Audit(build func(uint64) []byte) error {
	m.outbox[m.next] = string(build(m.next))
	m.next++
	return nil
}

func (m *model) Floor(string) transfer.ID { return m.floor }

func (m *model) receipted(n uint64) {
	maps.DeleteFunc(m.outbox, func(k uint64, _ string) bool { return k <= n })
}

// forget is the ledger's retention. It removes entries that ended longer ago than keep, and raises the floor over the
// removed sources.
func (m *model) forget(keep time.Duration) {
	before := m.running - keep
	for k, v := range m.kept {
		kind, _, _ := strings.Cut(k, " ")
		switch kind {
		case "source":
			var s ledger.Source
			if json.Unmarshal([]byte(v), &s); s.State.Final() && s.EndedAt < before {
				if delete(m.kept, k); bytes.Compare(s.Request.ID[:], m.floor[:]) > 0 {
					m.floor = s.Request.ID
				}
			}
		case "incoming":
			var in ledger.Incoming
			if json.Unmarshal([]byte(v), &in); in.State.Final() && in.EndedAt < before {
				delete(m.kept, k)
			}
		case "command":
			var a answer
			if json.Unmarshal([]byte(v), &a); a.At < before {
				delete(m.kept, k)
				var id transfer.ID
				hex.Decode(id[:], []byte(strings.TrimPrefix(k, "command ")))
				if bytes.Compare(id[:], m.done[:]) > 0 {
					m.done = id
				}
			}
		}
	}
}

// String returns the whole content. Equal models have equal strings.
func (m *model) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m.kept)) {
		fmt.Fprintf(&b, "%s %s\n", k, m.kept[k])
	}
	for _, n := range slices.Sorted(maps.Keys(m.outbox)) {
		fmt.Fprintf(&b, "audit %d %s\n", n, m.outbox[n])
	}
	fmt.Fprintf(&b, "running %v\nfloor %v, of commands %v\n", m.running, m.floor, m.done)
	return b.String()
}

// observed returns the entries of some transfers and commands, read through the ledger's own methods. The number of the
// next audit record cannot be observed.
func observed(l *ledger.Ledger, ids []transfer.ID) (*model, error) {
	m := newModel()
	err := l.View(func(tx *ledger.Tx) error {
		m.running, m.floor, m.done = tx.Running(), tx.Floor(""), tx.CommandFloor("")
		if err := tx.Sources(func(s *ledger.Source) error { return m.put(key("source", s.Request.ID), s) }); err != nil {
			return err
		}
		if err := tx.Incomings(func(in *ledger.Incoming) error { return m.put(key("incoming", in.Request.ID), in) }); err != nil {
			return err
		}
		for _, id := range ids {
			if err := m.observe(tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		items, deletes, err := l.Deletes(id, 1<<30)
		if err != nil {
			return nil, err
		}
		for n, d := range deletes {
			m.put(key("delete", id, number(items[n])), d)
		}
	}
	first, recs, oldest, err := l.OutboxFrom(0, 1<<30, 1<<40)
	if err != nil {
		return nil, err
	}
	if first != oldest || int64(len(recs)) != l.Outbox() {
		return nil, fmt.Errorf("the outbox begins with %d and with %d, and has %d records and counts %d", first, oldest, len(recs), l.Outbox())
	}
	for n, r := range recs {
		m.outbox[first+uint64(n)] = string(r)
	}
	return m, nil
}

// observe reads the entries of one ID.
func (m *model) observe(tx *ledger.Tx, id transfer.ID) error {
	if err := tx.Items(id, func(n uint64, it *ledger.Item) error { return m.put(key("item", id, number(n)), it) }); err != nil {
		return err
	}
	dirs, err := tx.Dirs(id)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		m.PutDir(id, d, ledger.MissingIn(tx, id, d) != 0)
	}
	hash, b, err := tx.Command("ann", id)
	if hash != "" {
		m.put(key("command", id), answer{Hash: hash, Answer: string(b)})
	}
	tomb, terr := tx.Tombstone(id, "ann")
	if tomb.As != "" {
		m.PutTombstone(id, tomb.As, tomb.By)
	}
	return errors.Join(err, terr)
}

// seen returns the model's string without the parts that observed cannot read.
func (m *model) seen() string {
	c := m.clone()
	for k := range c.kept {
		if a, _ := read[answer](c, k); strings.HasPrefix(k, "command ") {
			a.At = 0
			c.put(k, a)
		}
	}
	return c.String()
}
