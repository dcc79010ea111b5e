package audit

import (
	"bytes"
	"fmt"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/transfer"
	"ferry/internal/witness"
)

// A sealed log has, behind the records that a batch has brought, a record of coordination's own
// with the batch's seal: so the seal is as durable as they are, and in the tree. Whose the key
// is that has made it is a record, too.

// Vouched is what coordination keeps of those who sign, of Sealed and Bound.
type Vouched struct {
	Seal    *Seal            `json:"seal,omitempty"`
	Binding *witness.Binding `json:"binding,omitempty"`
}

// A Seal is an agent's signature over a batch. Its records are the last ones before it, in
// order, except those of Others, which the log has elsewhere.
type Seal struct {
	Agent transfer.AgentName `json:"agent"`
	witness.Batch
	Bound     int64   `json:"bound"` // index of the record with the key's binding
	Signature []byte  `json:"signature"`
	Others    []Other `json:"others,omitempty"`
}

// An Other is a record of a sealed batch that is not right before the seal.
type Other struct {
	At   int       `json:"at"` // in the batch, from 0
	Leaf tlog.Hash `json:"leaf"`
}

// A Sealer is who seals a batch: a binding that was checked, and where the log has it.
type Sealer struct {
	Party *witness.Party
	Index int64
}

// Append is Log.Append for a batch that must have the seal of this agent; without a good one it
// is refused with KindDenied.
func (by Sealer) Append(l *Log, b Batch) (Receipt, error) { return l.append(b, &by) }

// Bind puts on record whose a key is, and says where.
func Bind(l *Log, b *witness.Binding) (index int64, err error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	err = l.appendOwn(Record{Event: Bound, Vouched: Vouched{Binding: b}, Text: fmt.Sprintf("%s signs its records with the key %s", b.Identity, b.ID())})
	return l.tip.tree.size - 1, err
}

// Sign seals a batch.
func (b *Batch) Sign(k *witness.Key, first uint64) {
	leaves := make([]tlog.Hash, len(b.Records))
	for i, raw := range b.Records {
		leaves[i] = tlog.RecordHash(raw)
	}
	b.Floor = max(b.Floor, 1)
	b.Key = k.Party().ID
	b.Seal = k.Seal(b.Agent, witness.Batch{Incarnation: b.Incarnation, Floor: b.Floor, First: first, Count: len(leaves)}, witness.RootOf(leaves))
}

// signed is what the batch's seal says beside its records; there is one.
func (b *Batch) signed(list []entry) witness.Batch {
	return witness.Batch{Incarnation: b.Incarnation, Floor: b.Floor, First: list[0].rec.N, Count: len(list)}
}

// check holds a batch against its seal.
func (by *Sealer) check(b *Batch, list []entry) error {
	if by == nil {
		return nil
	}
	if len(list) == 0 || !by.Party.Seals(b.Agent) {
		return transfer.Errorf(transfer.KindDenied, "an audit batch of %s has no records, or the seal of %s", b.Agent, by.Party.Name)
	}
	for i := range list {
		if !bytes.Equal(list[i].body, b.Records[i]) {
			return transfer.Errorf(transfer.KindUsage, "record %s is sealed in a form that no log keeps", list[i].rec.name())
		}
	}
	return by.Party.CheckSeal(b.Seal, b.Agent, b.signed(list), witness.RootOf(leavesOf(list)))
}

func leavesOf(list []entry) []tlog.Hash {
	leaves := make([]tlog.Hash, len(list))
	for i := range list {
		leaves[i] = tlog.RecordHash(list[i].body)
	}
	return leaves
}

// stage puts the seal behind a batch's records, of which fresh are staged last.
func (by *Sealer) stage(l *Log, s *stage, key stream, b *Batch, list, fresh []entry) error {
	if by == nil || len(fresh) == 0 && !l.recent.unsealed.has(key, list[0].rec.N, list[len(list)-1].rec.N) {
		return nil
	}
	seal := &Seal{Agent: b.Agent, Batch: b.signed(list), Bound: by.Index, Signature: b.Seal}
	for i := range list {
		if len(fresh) > 0 && fresh[0].rec.N == list[i].rec.N {
			fresh = fresh[1:]
			continue
		}
		seal.Others = append(seal.Others, Other{i, tlog.RecordHash(list[i].body)})
	}
	return l.stageOwn(s, &Record{Event: Sealed, Vouched: Vouched{Seal: seal},
		Text: fmt.Sprintf("%s has signed its records %d to %d", b.Agent, seal.First, seal.First+uint64(seal.Count)-1)})
}

// fits reports whether a seal that was read can be one.
func (s *Seal) fits() bool {
	return s != nil && s.Count >= 1 && s.Count <= maxBatchRecords && len(s.Others) <= s.Count && s.First >= 1 && s.First <= MaxNumber
}

// fresh is how many records right before the seal are of it.
func (s *Seal) fresh() int { return s.Count - len(s.Others) }

// leaves are those of the whole batch, given those right before the seal; false: they do not go
// together.
func (s *Seal) leaves(before []tlog.Hash) (all []tlog.Hash, ok bool) {
	if !s.fits() || len(before) != s.fresh() {
		return nil, false
	}
	others := s.Others
	for i := range s.Count {
		switch {
		case len(others) > 0 && others[0].At == i:
			all = append(all, others[0].Leaf)
			others = others[1:]
		case len(before) > 0:
			all = append(all, before[0])
			before = before[1:]
		default:
			return nil, false
		}
	}
	return all, true
}

// An unsealed has, of a numbering, the records at the end of the log that have no seal.
type unsealed map[stream]span

func (u unsealed) has(key stream, from, to uint64) bool {
	g, ok := u[key]
	return ok && from <= g.To && g.From <= to
}

// take takes what a seal covers out.
func (u unsealed) take(key stream, from, to uint64) {
	switch g, ok := u[key]; {
	case !ok || to < g.From || g.To < from:
	case from <= g.From && g.To <= to:
		delete(u, key)
	case from <= g.From:
		u[key] = span{From: to + 1, To: g.To}
	case g.To <= to:
		u[key] = span{From: g.From, To: from - 1}
	}
}

// A recent is what is known in memory of the records at the end of a log.
type recent struct {
	repeats  *repeats
	places   *places
	unsealed unsealed // what a crash has left without the seal that was appended with it; nil: nobody seals
}

func newRecent() recent { return recent{repeats: newRepeats(), places: newPlaces()} }

// add takes in a record that was appended before.
func (t *recent) add(i int64, raw []byte, r *Record) error {
	key := r.stream()
	t.repeats.add(key, r.N, raw)
	t.places.add(key, r.N, i)
	switch {
	case r.Agent == Coordination && (r.Event == Sealed || r.Event == Bound):
		t.unsealed = unsealed{} // what stands before it was appended with a seal, or never will have one
	case r.Agent != Coordination && t.unsealed != nil:
		g, ok := t.unsealed[key]
		if !ok {
			g.From = r.N
		}
		t.unsealed[key] = span{From: min(g.From, r.N), To: max(g.To, r.N)}
	}
	return nil
}

// A place is where the log has consecutive records of a numbering.
type place struct {
	from  uint64
	count int
	index int64
}

// places knows where the newest records of numberings are.
type places struct {
	mu     sync.Mutex
	of     map[stream][]place
	sought map[stream]sought
}

// A sought is how far a place has been looked for that is not known: each question reads a part of
// the log, and the next one goes on from there.
type sought struct {
	n    uint64 // the record
	down int64  // everything from this index on has been read; 0: nothing
	up   int64  // the record before it is just before this index; 0: not known
}

// seek is how far the search for a record is.
func (p *places) seek(key stream, n uint64) sought {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sought[key]; s.n == n {
		return s
	}
	return sought{n: n}
}

// keep notes how far a search is; those of others give way where there are too many.
func (p *places) keep(key stream, s sought) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sought == nil || len(p.sought) >= toldStreams {
		p.sought = map[stream]sought{}
	}
	p.sought[key] = s
}

// maxPlaces is how many places of a numbering are known.
const maxPlaces = 1024

func newPlaces() *places { return &places{of: map[stream][]place{}} }

// add notes where a record is.
func (p *places) add(key stream, n uint64, index int64) {
	if key.agent == Coordination {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.of[key]
	if len(list) > 0 {
		last := &list[len(list)-1]
		if last.from+uint64(last.count) == n && last.index+int64(last.count) == index && last.count < witness.MaxRun {
			last.count++
			return
		}
	}
	if len(list) >= 2*maxPlaces {
		list = append([]place(nil), list[maxPlaces:]...)
	}
	if len(list) == 0 && len(p.of) >= toldStreams*2 {
		for other := range p.of {
			delete(p.of, other)
			break
		}
	}
	p.of[key] = append(list, place{n, 1, index})
}

// find is where a record is, with those behind it; the newest, where there are several.
func (p *places) find(key stream, n uint64) (place, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.of[key]
	for i := len(list) - 1; i >= 0; i-- {
		if pl := list[i]; pl.from <= n && n < pl.from+uint64(pl.count) {
			skip := int(n - pl.from)
			return place{n, pl.count - skip, pl.index + int64(skip)}, true
		}
	}
	return place{}, false
}
