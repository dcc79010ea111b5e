package faulty

import (
	"maps"
	"sync"

	"ferry/internal/transfer"
)

// Calls on a Journal, for plans.
const (
	CallCommitting Call = "journal-committing"
	CallCommitted  Call = "journal-committed"
	CallPoint      Call = "journal-point"
	CallForget     Call = "journal-forget"
	CallAgain      Call = "journal-again"
	CallDirs       Call = "journal-dirs"
	CallDeleting   Call = "journal-deleting"
	CallDeleted    Call = "journal-deleted"
)

// A Journal has the part of two agents' ledgers about one transfer that concerns their disks. It is a local.Journal.
// Its data is durable when a call returns, and is recorded in its place among the changes of a Memory.
type Journal struct {
	disk *Disk // counts the journal's calls like its own, and fails them
	mem  *Memory

	mu    sync.Mutex
	state JournalState
}

// A JournalState has all recorded data. Its maps must not be changed.
type JournalState struct {
	Items   map[uint64]JournalItem
	Dirs    map[transfer.Path]bool // directories of possible temporaries
	Deletes map[uint64]JournalDelete
}

// A JournalItem has at most one of three states.
type JournalItem struct {
	Point   *JournalPoint
	Intent  *transfer.Intent
	Outcome *transfer.Outcome
}

// A JournalPoint is a checkpoint.
type JournalPoint struct {
	transfer.Point
	Place   []byte
	Boot    string
	Durable bool
}

// A JournalDelete is the state of the deletion of a source.
type JournalDelete struct {
	Source  transfer.Path
	Version transfer.Version
	Aside   string
	Done    bool
	Warning string // reason why it is still there
}

// NewJournal returns a journal with a state, which may be empty.
func NewJournal(disk *Disk, mem *Memory, state JournalState) *Journal {
	return &Journal{disk: disk, mem: mem, state: state.clone()}
}

func (s JournalState) clone() JournalState {
	c := JournalState{maps.Clone(s.Items), maps.Clone(s.Dirs), maps.Clone(s.Deletes)}
	if c.Items == nil {
		c = JournalState{map[uint64]JournalItem{}, map[transfer.Path]bool{}, map[uint64]JournalDelete{}}
	}
	return c
}

// At returns the state after the first k operations of the Memory, for a journal that began with s.
func (s JournalState) At(m *Memory, k int) JournalState {
	c := s.clone()
	for _, e := range m.Events(k) {
		if change, ok := e.(journalEvent); ok {
			change.do(&c)
		}
	}
	return c
}

// A journalEvent is one transaction.
type journalEvent struct {
	call Call
	do   func(*JournalState)
}

func (e journalEvent) String() string { return string(e.call) }

// State returns the present state.
func (j *Journal) State() JournalState {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.clone()
}

func (j *Journal) update(c Call, path transfer.Path, do func(*JournalState)) error {
	return j.disk.Step(c, "ledger:"+string(path), func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		do(&j.state)
		j.mem.Record(journalEvent{c, do})
		return nil
	})
}

// Committing implements local.Journal.
func (j *Journal) Committing(ins []transfer.Intent) error {
	return j.update(CallCommitting, ins[0].Outcome.Path, func(s *JournalState) {
		for n := range ins {
			s.Items[ins[n].Outcome.Item] = JournalItem{Intent: &ins[n]}
		}
	})
}

// Committed implements local.Journal. The first outcome of an item counts.
func (j *Journal) Committed(outs []transfer.Outcome) error {
	return j.update(CallCommitted, outs[0].Path, func(s *JournalState) {
		for n := range outs {
			if s.Items[outs[n].Item].Outcome == nil {
				s.Items[outs[n].Item] = JournalItem{Outcome: &outs[n]}
			}
		}
	})
}

// Point records a checkpoint.
func (j *Journal) Point(p JournalPoint) error {
	return j.update(CallPoint, "", func(s *JournalState) { s.Items[p.Item] = JournalItem{Point: &p} })
}

// Forget removes a checkpoint or an intent: the item begins again.
func (j *Journal) Forget(item uint64) error { return j.forget(CallForget, []uint64{item}) }

// Again implements local.Journal.
func (j *Journal) Again(items []uint64) error { return j.forget(CallAgain, items) }

func (j *Journal) forget(c Call, items []uint64) error {
	return j.update(c, "", func(s *JournalState) {
		for _, item := range items {
			if s.Items[item].Outcome == nil {
				s.Items[item] = JournalItem{}
			}
		}
	})
}

// NoteDir records that temporaries may be in a directory.
func (j *Journal) NoteDir(dir transfer.Path) error {
	j.mu.Lock()
	known := j.state.Dirs[dir]
	j.mu.Unlock()
	if known {
		return nil
	}
	return j.update(CallDirs, dir, func(s *JournalState) { s.Dirs[dir] = true })
}

// Deleting records the state of the deletion of a source.
func (j *Journal) Deleting(item uint64, d JournalDelete) error {
	c := CallDeleting
	if d.Done {
		c = CallDeleted
	}
	return j.update(c, d.Source, func(s *JournalState) { s.Deletes[item] = d })
}
