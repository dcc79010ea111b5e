package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ferry/internal/transfer"
)

// A state is the content of the state file: the log as it was at some size.
// Everything below that size was durable before the state was written.
type state struct {
	Size    int64         `json:"size"`
	Root    string        `json:"root"`
	End     int64         `json:"end"` // offset in records
	Streams []streamState `json:"streams"`
	Lost    *loss         `json:"lost,omitempty"`
}

type streamState struct {
	Agent       transfer.AgentName `json:"agent"`
	Incarnation string             `json:"incarnation"`
	Have        uint64             `json:"have"`
	Index       int64              `json:"index"`
	Open        []span             `json:"open,omitempty"`
}

// A loss has the former size and root of a log with a lost end, and the number of records left. It stays in the state
// until a gap record in the log has the same facts.
type loss struct {
	Size int64  `json:"size"`
	Root string `json:"root"`
	Left int64  `json:"left"`
}

// record returns the record about a loss.
func (lost *loss) record() Record {
	root := ""
	if lost.Root != "" {
		root = " with root " + lost.Root
	}
	return Record{Event: GapFound, Reason: "the log lost its end", Text: fmt.Sprintf(
		"the log once had %d records%s; the records from index %d on were lost", lost.Size, root, lost.Left)}
}

func (s streams) save() []streamState {
	list := make([]streamState, 0, len(s))
	for k, p := range s {
		list = append(list, streamState{k.agent, FormatIncarnation(k.incarnation), p.have, p.index, p.open})
	}
	slices.SortFunc(list, func(a, b streamState) int {
		if c := strings.Compare(string(a.Agent), string(b.Agent)); c != 0 {
			return c
		}
		return strings.Compare(a.Incarnation, b.Incarnation)
	})
	return list
}

func (st *state) streams() (streams, error) {
	s := streams{}
	for _, e := range st.Streams {
		v, err := ParseIncarnation(e.Incarnation)
		if err != nil {
			return nil, err
		}
		s[stream{e.Agent, v}] = position{e.Have, e.Index, e.Open}
	}
	return s, nil
}

// save writes the state of a log at a tip. lost describes a lost end that no record has yet.
func (l *files) save(t tip, s streams, lost *loss) error {
	return writeState(l.disk, l.dir, l.id, &state{Size: t.tree.size, Root: t.tree.root(), End: t.end, Streams: s.save(), Lost: lost})
}

// writeState replaces the state file.
func writeState(d disk, dir string, log uint64, st *state) error {
	body, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return replace(d, filepath.Join(dir, stateName), appendFrame(header(stateMagic, log), body))
}

// readState reads the state file. It returns nil without an error if there is none. If the file is damaged, the error
// is a *transfer.Error with KindInternal.
func readState(d disk, dir string, log uint64) (*state, error) {
	path := filepath.Join(dir, stateName)
	f, err := d.open(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()

	n, err := sizeOf(f)
	if err != nil {
		return nil, err
	}

	damaged := func(text string) error {
		return transfer.Errorf(transfer.KindInternal, "%s is damaged: %s", path, text)
	}
	if n < headerSize+frameHead {
		return nil, damaged("it is too short")
	}

	b := make([]byte, n)
	if err := readAt(f, b, 0); err != nil {
		return nil, err
	}

	id, err := parseHeader(b[:headerSize], stateMagic, path)
	if err != nil {
		return nil, damaged(err.Error())
	}

	if id != log {
		return nil, damaged("it belongs to another log")
	}

	// Not readFrame: the state of a large network may exceed a record's limit.
	body := b[headerSize+frameHead:]
	if !slices.Equal(appendFrame(nil, body), b[headerSize:]) {
		return nil, damaged("the checksum does not match")
	}

	st := new(state)
	if err := json.Unmarshal(body, st); err != nil {
		return nil, damaged(err.Error())
	}
	return st, nil
}
