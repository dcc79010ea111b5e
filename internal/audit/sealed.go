package audit

import (
	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/audit/witness"
	"ferry/internal/security/identity"
)

// seals is the state of the signature checks during a verification.
type seals struct {
	roots *identity.Roots
	bound map[int64]*witness.Party // by the index of the binding's record
	begun map[stream]bool          // numberings with a seal so far
	run   []unsealedRecord         // records of agents since the last record of coordination
	loose map[tlog.Hash]unsealedRecord
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

func newSeals(roots *identity.Roots) *seals {
	return &seals{roots: roots, bound: map[int64]*witness.Party{}, begun: map[stream]bool{}, loose: map[tlog.Hash]unsealedRecord{}}
}

// sealed processes the next record.
func (v *verifier) sealed(rec *Record, leaf tlog.Hash) {
	s := v.seals
	if s == nil {
		return
	}
	if rec.Agent != Coordination {
		s.run = append(s.run, unsealedRecord{v.i, rec.stream(), leaf, s.begun[rec.stream()]})
		if len(s.run) > 2*maxBatchRecords {
			v.waits(s.run[:maxBatchRecords])
			s.run = append(s.run[:0], s.run[maxBatchRecords:]...)
		}
		return
	}

	switch {
	case rec.Event == Sealed:
		v.seal(rec)
	case rec.Event == Bound && rec.Binding != nil:
		p, err := rec.Binding.AsSealer(s.roots)
		if err != nil {
			v.report.add(v.i, "%v", err)
			break
		}
		s.bound[v.i] = p
	}
	v.waits(s.run)
	s.run = s.run[:0]
}

// seal checks a seal, and removes the records that it covers from the waiting ones.
func (v *verifier) seal(rec *Record) {
	s, seal := v.seals, rec.Seal
	if !seal.fits() || len(s.run) < seal.fresh() {
		v.report.add(v.i, "it seals records that are not before it")
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
		v.report.add(v.i, "it is no seal of the records before it")
		return
	case p == nil || !p.Seals(seal.Agent):
		v.report.add(v.i, "the owner of the key that has sealed the records before it is not on record")
		return
	}
	if err := p.CheckSeal(seal.Signature, seal.Agent, seal.Batch, witness.RootOf(all)); err != nil {
		v.report.add(v.i, "%v, or are not the ones that it has signed", err)
		return
	}

	of := stream{seal.Agent, inc}
	for _, r := range s.run[from:] {
		if r.of != of {
			v.report.add(r.index, "%s has sealed a record of %s", seal.Agent, r.of)
		}
	}
	s.begun[of] = true
	v.report.Signed += int64(len(before))
	v.waits(s.run[:from])
	s.run = s.run[:0]
	for _, o := range seal.Others {
		if r, ok := s.loose[o.Leaf]; ok && r.of == of {
			delete(s.loose, o.Leaf)
			v.report.Signed++
		}
	}
}

// waits adds records that wait for a seal that names them. Those beyond maxLoose count as unsigned.
func (v *verifier) waits(list []unsealedRecord) {
	for _, r := range list {
		if len(v.seals.loose) >= maxLoose {
			v.unsigned(r)
			continue
		}
		v.seals.loose[r.leaf] = r
	}
}

// unsigned counts a record without a seal. It is a problem if its agent has sealed before.
func (v *verifier) unsigned(r unsealedRecord) {
	if r.begun {
		v.report.add(r.index, "it is not signed by %s, which signs its records", r.of.agent)
		return
	}
	v.report.Unsigned++
}

// loose counts the records that no seal covers.
func (v *verifier) loose() {
	if v.seals == nil {
		return
	}
	v.waits(v.seals.run)
	for _, r := range v.seals.loose {
		v.unsigned(r)
	}
}
