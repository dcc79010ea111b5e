package audit

import (
	"bytes"
	"fmt"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/audit/witness"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

// In a sealed log a record of coordination's own follows the records of a batch. It has the batch's seal. So the seal
// is as durable as the records, and in the tree. The owner of the signing key is recorded, too.

// Vouched has signatures. Seal and Binding belong to Sealed and Bound records of coordination. Author is the signature
// of the request or command that the record is about, or nil if the message was not signed.
type Vouched struct {
	Author  *word.Author     `json:"author,omitempty"`
	Seal    *Seal            `json:"seal,omitempty"`
	Binding *witness.Binding `json:"binding,omitempty"`
}

// A Seal is an agent's signature over a batch. The batch's records directly precede the seal, in order, except those of
// Others, which are elsewhere in the log.
type Seal struct {
	Agent transfer.AgentName `json:"agent"`
	witness.Batch
	Bound     int64   `json:"bound"` // index of the record with the key's binding
	Signature []byte  `json:"signature"`
	Others    []Other `json:"others,omitempty"`
}

// An Other is a record of a sealed batch that does not directly precede the seal.
type Other struct {
	At   int       `json:"at"` // place in the batch, from 0
	Leaf tlog.Hash `json:"leaf"`
}

// A Sealer is an agent that seals its batches: its checked binding, and the index of the binding in the log.
type Sealer struct {
	Party *witness.Party
	Index int64
}

// Append is Log.Append for a batch that must have this agent's seal. Without a valid seal, it returns an error of
// KindDenied.
func (by Sealer) Append(l *Log, b Batch) (Receipt, error) { return l.append(b, &by) }

// Bind records the owner of a key, and returns the index of the record.
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

// signed returns the fields that the batch's seal covers beside its records. list must not be empty.
func (b *Batch) signed(list []entry) witness.Batch {
	return witness.Batch{Incarnation: b.Incarnation, Floor: b.Floor, First: list[0].rec.N, Count: len(list)}
}

// check compares a batch with its seal.
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

// stage stages the seal after a batch's records. fresh are those staged last.
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

// fits reports whether a seal that was read is within its ranges.
func (s *Seal) fits() bool {
	return s != nil && s.Count >= 1 && s.Count <= maxBatchRecords && len(s.Others) <= s.Count && s.First >= 1 && s.First <= MaxNumber
}

// fresh returns how many records directly before the seal belong to it.
func (s *Seal) fresh() int { return s.Count - len(s.Others) }

// leaves returns the leaves of the whole batch, from those directly before the seal. ok is false if they do not match.
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

// An unsealed has, by numbering, the records at the end of the log without a seal.
type unsealed map[stream]span

func (u unsealed) has(key stream, from, to uint64) bool {
	g, ok := u[key]
	return ok && from <= g.To && g.From <= to
}

// take removes the records that a seal covers.
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

// A recent has the facts in memory about the records at the end of a log.
type recent struct {
	repeats  *repeats
	places   *places
	unsealed unsealed // records that a crash has separated from their seal; nil: no agent seals
}

func newRecent() recent { return recent{repeats: newRepeats(), places: newPlaces()} }

// add adds a record that was appended before.
func (t *recent) add(i int64, raw []byte, r *Record) error {
	key := r.stream()
	t.repeats.add(key, r.N, raw)
	t.places.add(key, r.N, i)
	switch {
	case r.Agent == Coordination && (r.Event == Sealed || r.Event == Bound):
		t.unsealed = unsealed{} // earlier records were appended with a seal, or never get one
	case r.Agent != Coordination && t.unsealed != nil:
		g, ok := t.unsealed[key]
		if !ok {
			g.From = r.N
		}
		t.unsealed[key] = span{From: min(g.From, r.N), To: max(g.To, r.N)}
	}
	return nil
}

// A place is the position of consecutive records of a numbering in the log.
type place struct {
	from  uint64
	count int
	index int64
}

// places has the positions of the newest records of the numberings.
type places struct {
	mu     sync.Mutex
	of     map[stream][]place
	sought map[stream]sought
}

// A sought is the progress of the search for an unknown place. Each question reads a part of the log, and the next one
// continues there.
type sought struct {
	n    uint64 // number of the record
	down int64  // everything from this index on has been read; 0: nothing
	up   int64  // the previous record is just before this index; 0: unknown
}

// seek returns the progress of the search for a record.
func (p *places) seek(key stream, n uint64) sought {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sought[key]; s.n == n {
		return s
	}
	return sought{n: n}
}

// keep saves the progress of a search. If there are too many, it drops those of other numberings.
func (p *places) keep(key stream, s sought) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sought == nil || len(p.sought) >= toldStreams {
		p.sought = map[stream]sought{}
	}
	p.sought[key] = s
}

// maxPlaces is the number of known places of a numbering.
const maxPlaces = 1024

func newPlaces() *places { return &places{of: map[stream][]place{}} }

// add notes the place of a record.
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

// find returns the place of a record, with those after it. If there are several, it returns the newest.
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
