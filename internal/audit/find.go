package audit

import (
	"encoding/hex"
	"io/fs"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// A Filter says which records to find; what is empty matches any.
type Filter struct {
	Agent    transfer.AgentName // who wrote the record, or a side of its transfer
	Transfer transfer.ID
	IDSuffix string // of the transfer ID, six or more characters
	Event    Event
	Since    time.Time // by the writer's clock
	Limit    int       // records at most; 0: all
	Before   int64     // only records below this index of the log; 0: all
}

// findBlock is how many cells of the index are read at once.
const findBlock = 4096

// Find calls fn for each record that matches, the newest (last appended) first.
// fs.SkipAll from fn ends it without an error.
//
// The cost: the index is read backwards, 32 bytes a record, until the limit is
// reached, so that a transfer is found among a million records by reading
// 32 MB in order and its own records. A filter that names neither a transfer
// nor a suffix reads every record that is not older than Since, until the limit.
// Memory does not grow with the log.
func (l *Log) Find(f Filter, fn func(i int64, raw []byte, r *Record) error) error {
	m, err := newMatcher(f)
	if err != nil {
		return err
	}
	found := 0
	buf := make([]byte, findBlock*cellSize)
	from := l.Size()
	if f.Before > 0 {
		from = min(from, f.Before)
	}
	for end := from; end > 0; end -= findBlock {
		first := max(end-findBlock, 0)
		cells := buf[:(end-first)*cellSize]
		if err := l.index.read(cells, first); err != nil {
			return logError(l.dir, err)
		}
		for i := end - 1; i >= first; i-- {
			c := parseCell(cells[(i-first)*cellSize:])
			if !m.cell(c) {
				continue
			}
			raw, r, err := l.readAt(i, c)
			if err != nil {
				return err
			}
			if !m.record(&r) {
				continue
			}
			if err := fn(i, raw, &r); err == fs.SkipAll {
				return nil
			} else if err != nil {
				return err
			}
			if found++; found == f.Limit {
				return nil
			}
		}
	}
	return nil
}

// A matcher applies a filter, first to what the index has.
type matcher struct {
	Filter
	suffix   string
	lastByte byte // of an ID with the suffix: most others fail by it
}

func newMatcher(f Filter) (*matcher, error) {
	m := &matcher{Filter: f, suffix: strings.ToLower(f.IDSuffix)}
	if f.IDSuffix == "" {
		return m, nil
	}
	if err := transfer.CheckIDSuffix(f.IDSuffix); err != nil {
		return nil, err
	}
	b, err := hex.DecodeString(m.suffix[len(m.suffix)-2:])
	if err != nil { // a '-' at the end, where no ID has one
		return nil, transfer.Errorf(transfer.KindUsage, "no transfer ID ends with %q", f.IDSuffix)
	}
	m.lastByte = b[0]
	return m, nil
}

func (m *matcher) cell(c cell) bool {
	switch {
	case !m.Transfer.IsZero() && c.transfer != m.Transfer,
		!m.Since.IsZero() && c.milli < milli(m.Since):
		return false
	case m.suffix == "":
		return true
	}
	return c.transfer[15] == m.lastByte && !c.transfer.IsZero() && strings.HasSuffix(c.transfer.String(), m.suffix)
}

func (m *matcher) record(r *Record) bool {
	switch {
	case m.Agent != "" && r.Agent != m.Agent && r.Source != m.Agent && r.Destination != m.Agent:
		return false
	case m.Event != "" && r.Event != m.Event:
		return false
	}
	return m.Since.IsZero() || !r.Time.Before(m.Since)
}
