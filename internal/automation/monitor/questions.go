package monitor

import (
	"encoding/json"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Kinds of question.
const (
	AskList    wire.Kind = "monitor-list"    // a ListAsked; the answer is a Listed
	AskHistory wire.Kind = "monitor-history" // a HistoryAsked; the answer is a History
)

// Noun names monitors in a wire.Definition.
const Noun = "monitor"

// A ListAsked asks for monitors: the one of a name, or those after a name.
type ListAsked struct {
	Name  string `json:"name,omitempty"`
	After string `json:"after,omitempty"`
}

// Listed has monitors in the order of their names, and reports whether there are more.
type Listed struct {
	Monitors []Shown `json:"monitors"`
	More     bool    `json:"more,omitempty"`
}

// A Shown is a monitor for display.
type Shown struct {
	Definition Definition          `json:"definition"`
	Principal  string              `json:"principal"`
	Originator transfer.Originator `json:"originator"`
	Created    time.Time           `json:"created"`
	Changed    time.Time           `json:"changed"`
	Status
	Snapshot
	History int `json:"history"` // files in it; -1 in a list
}

// A HistoryAsked asks for the last triggers of a monitor before number Before; 0: the last of all.
type HistoryAsked struct {
	Name   string `json:"name"`
	Before uint64 `json:"before,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// History has triggers, the last first, and reports whether there are older ones.
type History struct {
	Triggers []Logged `json:"triggers"`
	More     bool     `json:"more,omitempty"`
}

// Limits of one answer.
const (
	listBytes    = 256 << 10
	maxHistory   = 100
	historyBytes = 256 << 10
)

func (m *monitors) questions() map[wire.Kind]duty.Question {
	return map[wire.Kind]duty.Question{AskList: {Answer: m.list}, AskHistory: {Answer: m.triggers}}
}

// maySee checks that a caller may see a monitor: the caller's own, or any with the authority operate or audit.
func (m *monitors) maySee(who duty.Caller) func(*record) error {
	return func(r *record) error {
		if who.Principal == r.Principal {
			return nil
		}
		err := m.May(who.Principal, transfer.AuthAudit)
		if transfer.KindOf(err) == transfer.KindDenied {
			err = m.May(who.Principal, transfer.AuthOperate)
		}
		return err
	}
}

func (m *monitors) list(who duty.Caller, body json.RawMessage) (any, error) {
	ask, err := readBody[ListAsked](body)
	if err != nil {
		return nil, err
	}
	may := m.maySee(who)
	found := &Listed{Monitors: []Shown{}}
	err = m.Ledger.View(func(t *ledger.Tx) error {
		d := drawerOf(t)
		if ask.Name != "" {
			r, err := m.find(d, ask.Name, may)
			if err != nil {
				return err
			}
			return m.show(d, found, r, true)
		}
		size := 0
		for key, value := range d.All(d.Prefix, d.Prefix+ask.After) {
			r, err := d.Decode(key, value)
			if err != nil {
				return err
			}
			if may(r) != nil {
				continue
			}
			if size += len(value); size > listBytes && len(found.Monitors) > 0 {
				found.More = true
				return nil
			}
			if err := m.show(d, found, r, false); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// Kept has the monitors with their counts. Their state is that of the definition: the agent knows no more of it while it
// is away.
func (m *monitors) Kept(t *ledger.Tx, add func(wire.Definition)) error {
	d := drawerOf(t)
	for r, err := range d.From("") {
		if err != nil {
			return err
		}
		st, _, err := load[Status](d, statusKey(r.Name))
		if err != nil {
			return err
		}
		s := Shown{Definition: r.Definition, Principal: r.Principal, Originator: r.Originator, Created: r.Created, Changed: r.Changed, Status: st, History: -1}
		if s.State = StateAway; r.Paused {
			s.State = StatePaused
		}
		add(duty.Kept(Noun, r, []transfer.Authority{transfer.AuthAudit, transfer.AuthOperate}, s))
	}
	return nil
}

// show adds a monitor to a list; whole also counts its history.
func (m *monitors) show(d drawer, to *Listed, r *record, whole bool) error {
	st, _, err := load[Status](d, statusKey(r.Name))
	if err != nil {
		return err
	}
	s := Shown{Definition: r.Definition, Principal: r.Principal, Originator: r.Originator, Created: r.Created, Changed: r.Changed, Status: st, History: -1}
	m.mu.Lock()
	running := m.all[r.Name]
	m.mu.Unlock()
	if s.State = StateWaiting; running != nil {
		s.Snapshot = running.display.picture()
	}
	if r.Paused {
		s.State, s.Problem = StatePaused, nil
	}
	if whole {
		s.History = d.Count(historyPrefix(r.Name))
	}
	to.Monitors = append(to.Monitors, s)
	return nil
}

func (m *monitors) triggers(who duty.Caller, body json.RawMessage) (any, error) {
	ask, err := readBody[HistoryAsked](body)
	if err != nil {
		return nil, err
	}
	found := &History{Triggers: []Logged{}}
	err = m.Ledger.View(func(t *ledger.Tx) error {
		d := drawerOf(t)
		r, err := m.find(d, ask.Name, m.maySee(who))
		if err != nil {
			return err
		}
		st, _, err := load[Status](d, statusKey(r.Name))
		if err != nil {
			return err
		}
		n := st.Triggers
		if ask.Before > 0 {
			n = min(n, ask.Before-1)
		}
		most, size := maxHistory, 0
		if ask.Limit > 0 {
			most = min(most, ask.Limit)
		}
		for ; n > 0; n-- {
			key := numbered(logPrefix(r.Name), n)
			size += len(d.Get(key))
			l, ok, err := load[Logged](d, key)
			if err != nil || !ok {
				return err
			}
			if len(found.Triggers) == most || size > historyBytes {
				found.More = true
				return nil
			}
			found.Triggers = append(found.Triggers, l)
		}
		return nil
	})
	return found, err
}
