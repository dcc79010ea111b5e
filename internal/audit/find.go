package audit

import (
	"bytes"
	"encoding/hex"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// A Filter selects records. An empty field matches all.
type Filter struct {
	Agent    transfer.AgentName // the writer of the record, or a side of its transfer
	Transfer transfer.ID
	Among    map[transfer.ID]bool // records of these transfers; nil: all
	IDSuffix string               // of the transfer ID, six or more characters
	Event    Event
	Since    time.Time // by the writer's clock
	Until    time.Time // before it, by the writer's clock
	Job      string    // a pattern, as in Name
	// Name is the name of an item at its source or destination: as bytes, as displayed, or as a pattern with * and ? as
	// in names of files. It matches the last element of the path, or the whole path if it has a '/'. In a pattern '/'
	// is an ordinary character. Only records with such items match, by agents that report on transfers of their own.
	// For a pipe the agent at the other end reports.
	Name   string
	Failed bool              // only records with failed items; without a Name also other failures
	States []transfer.State  // of the transfer, as the record has it; any of them
	Meta   map[string]string // of the transfer; all of them
	Role   string            // the role of the writer
	From   transfer.AgentName
	To     transfer.AgentName
	User   string // the principal, as displayed; a pattern, as in Name
	Limit  int    // records at most; 0: all
	Before int64  // only records below this index of the log; 0: all
}

// findBlock is the number of cells of the index that are read at once.
const findBlock = 4096

// Find calls fn for each matching record, the newest (last appended) first. If fn returns fs.SkipAll, Find ends without
// an error.
//
// Find reads the index backwards, 32 bytes a record, until the limit is reached. So it finds a transfer among a million
// records by reading 32 MB in order, and the transfer's own records. A filter with neither a transfer nor a suffix
// reads every record between Since and Until, until the limit. With an Event, a Name or Failed it decodes only records
// with the words of these anywhere in their text. Memory does not grow with the log.
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
		if err := l.files.index.read(cells, first); err != nil {
			return logError(l.files.dir, err)
		}
		for i := end - 1; i >= first; i-- {
			c := parseCell(cells[(i-first)*cellSize:])
			if !m.cell(c) {
				continue
			}
			raw, err := readRecord(l.files.records, c.at)
			if err != nil {
				return l.files.badRecord(i, err)
			}
			if !m.raw(raw) {
				continue
			}
			r, err := Decode(raw)
			if err != nil {
				return l.files.badRecord(i, err)
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

// A matcher applies a filter, first to the fields in the index.
type matcher struct {
	Filter
	suffix   string
	lastByte byte     // last byte of the suffix: most other IDs fail by it
	plain    [][]byte // text in the JSON of every matching record
}

func newMatcher(f Filter) (*matcher, error) {
	m := &matcher{Filter: f, suffix: strings.ToLower(f.IDSuffix), plain: [][]byte{longestPlain(f.Name)}}
	if f.Event != "" {
		m.plain = append(m.plain, []byte(`"`+f.Event+`"`))
	}

	if f.Failed {
		m.plain = append(m.plain, []byte(`"error"`))
	}
	if err := CheckPattern(f.Job); err != nil {
		return nil, err
	}

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
	case !m.Transfer.IsZero() && c.transfer != m.Transfer, m.Among != nil && !m.Among[c.transfer],
		!m.Since.IsZero() && c.milli < milli(m.Since),
		!m.Until.IsZero() && c.milli > milli(m.Until):
		return false
	case m.suffix == "":
		return true
	}
	return c.transfer[15] == m.lastByte && !c.transfer.IsZero() && strings.HasSuffix(c.transfer.String(), m.suffix)
}

// raw reports whether a record may match, by its text alone.
func (m *matcher) raw(raw []byte) bool {
	for _, p := range m.plain {
		if !bytes.Contains(raw, p) {
			return false
		}
	}
	return true
}

func (m *matcher) record(r *Record) bool {
	switch {
	case m.Agent != "" && r.Agent != m.Agent && r.Source != m.Agent && r.Destination != m.Agent:
		return false
	case m.Event == "" && (r.Event == Sealed || r.Event == Bound), m.Event != "" && r.Event != m.Event, m.Role != "" && r.Role != m.Role && !m.standsIn(r),
		m.Job != "" && !Like(m.Job, r.Job),
		m.From != "" && r.Source != m.From, m.To != "" && r.Destination != m.To, m.User != "" && !Like(m.User, shownPrincipal(r.Principal)),
		m.Name != "" && !(r.tells() && slices.ContainsFunc(r.Items, m.Names)),
		m.Failed && !(m.Name == "" && r.Error != nil) && !slices.ContainsFunc(r.Items, func(o transfer.Outcome) bool { return o.Failed() }),
		len(m.States) > 0 && !slices.Contains(m.States, r.State):
		return false
	}

	for k, v := range m.Meta {
		if has, ok := r.Meta[k]; !ok || has != v {
			return false
		}
	}
	return (m.Since.IsZero() || !r.Time.Before(m.Since)) && (m.Until.IsZero() || r.Time.Before(m.Until))
}

// shownPrincipal returns a principal as screens have it.
func shownPrincipal(token string) string {
	if p, err := transfer.ParsePath(token); err == nil {
		return string(p)
	}
	return token
}

// tells reports whether a record has outcomes of files. The records of a pipe, the agent of a command's standard input
// or output, do not count: the agent at its other end reports them. Neither do warnings: their items come from other
// agents.
func (r *Record) tells() bool {
	switch {
	case r.Event == Deleted, r.Event == Archived, r.Event == Warning, r.Agent.Stream():
		return false
	}
	return r.own()
}

// standsIn reports whether the record of a source replaces those of the destination in a search by name, because the
// destination is a pipe.
func (m *matcher) standsIn(r *Record) bool {
	return m.Name != "" && m.Role == RoleDestination && r.Role == RoleSource && r.Destination.Stream()
}

// own reports whether the agent that wrote the record is a side of the record's transfer.
func (r *Record) own() bool {
	side := r.Source
	if r.Role == RoleDestination {
		side = r.Destination
	}
	return side == "" || side == r.Agent
}

// Names reports whether an item matches Name.
func (f *Filter) Names(o transfer.Outcome) bool {
	for _, p := range []transfer.Path{o.Path, o.Source} {
		name := string(p)
		if !strings.Contains(f.Name, "/") {
			name = name[strings.LastIndexByte(name, '/')+1:]
		}
		shown := transfer.Path(name).String()
		if name != "" && (name == f.Name || shown == f.Name || Like(f.Name, name) || shown != name && Like(f.Name, shown)) {
			return true
		}
	}
	return false
}

// Like reports whether a text matches a pattern. '/' is an ordinary character.
func Like(pattern, text string) bool {
	const plain = "\x01"
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", plain), strings.ReplaceAll(text, "/", plain))
	return ok && err == nil
}

// CheckPattern refuses a text that is no pattern for Like.
func CheckPattern(p string) error {
	if _, err := path.Match(p, ""); err != nil {
		return transfer.Errorf(transfer.KindUsage, "%q is not a pattern: it ends inside [ ] or after a backslash", p)
	}
	return nil
}

// longestPlain returns the longest run of letters, digits, '-', '_' and '.' in a pattern, outside of brackets and of
// escapes of displayed paths. Such characters stand in JSON unchanged.
func longestPlain(pattern string) []byte {
	var best, run string
	inside := false // inside brackets
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\': // the next character is literal, and may be any
			run = ""
			i++
		case c == '%' && i+2 < len(pattern): // perhaps an escape: JSON may have the byte itself
			run = ""
			i += 2
		case c == '[':
			run, inside = "", true
		case c == ']':
			run, inside = "", false
		case inside || !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'):
			run = ""
		default:
			if run += string(c); len(run) > len(best) {
				best = run
			}
		}
	}
	return []byte(best)
}
