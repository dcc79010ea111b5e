package audit

import (
	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/transfer"
)

// A tip is the end of the log.
type tip struct {
	tree tree
	end  int64 // offset in records
}

// A stage holds records during an append, with all data that is stored for them.
type stage struct {
	first   tip // before them
	tip     tip // after them
	frames  []byte
	cells   []byte
	hashes  []byte
	streams streams // of the numberings of these records
	records []*Record
}

// add stages a record. frame is the size of its frame in bytes.
func (s *stage) add(body []byte, frame int64, r *Record) error {
	_, err := s.streams.observe(r, s.tip.tree.size)
	s.cells = cellOf(r, s.tip.end).append(s.cells)
	for _, h := range s.tip.tree.add(tlog.RecordHash(body)) {
		s.hashes = append(s.hashes, h[:]...)
	}
	s.tip.end += frame
	return err
}

// newStage begins an append behind a tip, of records of the given numberings.
func newStage(at tip, all streams, keys ...stream) *stage {
	s := &stage{first: at, tip: at, streams: streams{}}
	for _, k := range keys {
		if p, ok := all[k]; ok {
			s.streams[k] = p
		}
	}
	return s
}

// put adds a record and its frame. The record must be the next of its numbering.
func (s *stage) put(body []byte, r *Record) error {
	before := len(s.frames)
	s.frames = appendRecord(s.frames, body)
	if err := s.add(body, int64(len(s.frames)-before), r); err != nil {
		return transfer.Errorf(transfer.KindInternal, "audit log: %w", err)
	}
	s.records = append(s.records, r)
	return nil
}
