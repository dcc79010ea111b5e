package audit

import (
	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/audit/witness"
	"ferry/internal/security/identity"
)

// seals is the state of the signature checks during a verification.
type seals struct {
	roots  *identity.Roots
	report *Report
	bound  map[int64]*witness.Party // by the index of the binding's record
	begun  map[stream]bool          // numberings with a seal so far
	run    []unsealedRecord         // records of agents since the last record of coordination
	loose  map[tlog.Hash]unsealedRecord
}

// An unsealedRecord is a record before its seal.
type unsealedRecord struct {
	index int64
	of    stream
	leaf  tlog.Hash
	begun bool // its numbering had a seal before
}

// maxLoose is the most records that may wait for a seal that names them elsewhere. A crash leaves those of one batch.
const maxLoose = 4 * maxBatchRecords

func newSeals(roots *identity.Roots, report *Report) *seals {
	return &seals{roots: roots, report: report, bound: map[int64]*witness.Party{}, begun: map[stream]bool{}, loose: map[tlog.Hash]unsealedRecord{}}
}

// network returns the certificates of the network; nil without seals.
func (s *seals) network() *identity.Roots {
	if s == nil {
		return nil
	}
	return s.roots
}

// next processes the next record. Without seals it does nothing.
func (s *seals) next(i int64, rec *Record, leaf tlog.Hash) {
	if s == nil {
		return
	}
	if rec.Agent != Coordination {
		s.run = append(s.run, unsealedRecord{i, rec.stream(), leaf, s.begun[rec.stream()]})
		if len(s.run) > 2*maxBatchRecords {
			s.waits(s.run[:maxBatchRecords])
			s.run = append(s.run[:0], s.run[maxBatchRecords:]...)
		}
		return
	}

	switch {
	case rec.Event == Sealed:
		s.seal(i, rec.Seal)
	case rec.Event == Bound && rec.Binding != nil:
		p, err := rec.Binding.AsSealer(s.roots)
		if err != nil {
			s.report.add(i, "%v", err)
			break
		}
		s.bound[i] = p
	}
	s.waits(s.run)
	s.run = s.run[:0]
}

// seal checks a seal, and removes the records that it covers from the waiting ones.
func (s *seals) seal(i int64, seal *Seal) {
	if !seal.fits() || len(s.run) < seal.fresh() {
		s.report.add(i, "it seals records that are not before it")
		return
	}
	from := len(s.run) - seal.fresh()
	var before []tlog.Hash
	for _, r := range s.run[from:] {
		before = append(before, r.leaf)
	}
	all, ok := seal.leaves(before)
	inc, err := ParseIncarnation(seal.Incarnation)
	p := s.bound[seal.Bound]
	switch {
	case !ok || err != nil:
		s.report.add(i, "it is no seal of the records before it")
		return
	case p == nil || !p.Seals(seal.Agent):
		s.report.add(i, "the owner of the key that has sealed the records before it is not on record")
		return
	}
	if err := p.CheckSeal(seal.Signature, seal.Agent, seal.Batch, witness.RootOf(all)); err != nil {
		s.report.add(i, "%v, or are not the ones that it has signed", err)
		return
	}

	of := stream{seal.Agent, inc}
	for _, r := range s.run[from:] {
		if r.of != of {
			s.report.add(r.index, "%s has sealed a record of %s", seal.Agent, r.of)
		}
	}
	s.begun[of] = true
	s.report.Signed += int64(len(before))
	s.waits(s.run[:from])
	s.run = s.run[:0]
	for _, o := range seal.Others {
		if r, ok := s.loose[o.Leaf]; ok && r.of == of {
			delete(s.loose, o.Leaf)
			s.report.Signed++
		}
	}
}

// waits adds records that wait for a seal that names them. Those beyond maxLoose count as unsigned.
func (s *seals) waits(list []unsealedRecord) {
	for _, r := range list {
		if len(s.loose) >= maxLoose {
			s.unsigned(r)
			continue
		}
		s.loose[r.leaf] = r
	}
}

// unsigned counts a record without a seal. It is a problem if its agent has sealed before.
func (s *seals) unsigned(r unsealedRecord) {
	if r.begun {
		s.report.add(r.index, "it is not signed by %s, which signs its records", r.of.agent)
		return
	}
	s.report.Unsigned++
}

// finish counts the records that no seal covers.
func (s *seals) finish() {
	if s == nil {
		return
	}
	s.waits(s.run)
	for _, r := range s.loose {
		s.unsigned(r)
	}
}
