package monitor

import (
	"encoding/json"
	"errors"

	"ferry/internal/audit"
	"ferry/internal/duty"
	"ferry/internal/ledger"
	"ferry/internal/localfs"
	"ferry/internal/mftxml"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Kinds of command. The body of the first is a Create, that of the others a Named.
const (
	CommandCreate wire.Kind = "monitor-create"
	CommandPause  wire.Kind = "monitor-pause"
	CommandResume wire.Kind = "monitor-resume"
	CommandClear  wire.Kind = "monitor-clear" // forgets what has triggered: what is there triggers again
	CommandRemove wire.Kind = "monitor-remove"
)

// A Create makes a monitor. With Replace it may be there already: its history stays.
type Create struct {
	Definition Definition `json:"definition"`
	Redefine   bool       `json:"redefine,omitempty"`
}

// A Named is the body of what is about one monitor.
type Named struct {
	Name string `json:"name"`
}

// An Answer says which monitor a command was about, and what became of it.
type Answer struct {
	Monitor string             `json:"monitor"`
	Agent   transfer.AgentName `json:"agent"`
	Done    string             `json:"done"` // created, redefined, paused, resumed, cleared, removed
}

// commands is the table of commands. That somebody may have monitors, and whose they are, is decided
// in each: others' take the authority operate.
func (m *monitors) commands() map[wire.Kind]duty.Command {
	return map[wire.Kind]duty.Command{
		CommandCreate: {Needs: transfer.AuthMonitor, Do: m.create, Done: m.changed},
		CommandPause:  m.toNamed("paused", func(_ ledger.Drawer, r *record) error { r.Paused = true; return nil }),
		CommandResume: m.toNamed("resumed", func(_ ledger.Drawer, r *record) error { r.Paused = false; return nil }),
		CommandClear:  m.toNamed("cleared", clearHistory),
		CommandRemove: m.toNamed("removed", nil),
	}
}

func readBody[T any](body json.RawMessage) (v T, err error) {
	if err := json.Unmarshal(body, &v); err != nil {
		return v, transfer.Errorf(transfer.KindMalformed, "what is said of a monitor cannot be read: %w", err)
	}
	return v, nil
}

func (m *monitors) create(t *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
	c, err := readBody[Create](body)
	if err != nil {
		return nil, err
	}
	d := &c.Definition
	if err := d.Check(); err != nil {
		return nil, err
	}
	if d.Agent != m.Agent || d.Request.Source != m.Agent {
		return nil, transfer.Errorf(transfer.KindUsage, "the monitor is for agent %s; this is %s", d.Agent, m.Agent)
	}
	if err := m.mayWatch(who, d); err != nil {
		return nil, err
	}
	drawer := drawerOf(t)
	old, there, err := load[record](drawer, recordKey(d.Name))
	switch {
	case err != nil:
		return nil, err
	case there && !c.Redefine:
		return nil, transfer.Errorf(transfer.KindConflict, "agent %s has a monitor %s already", m.Agent, d.Name).WithHint("--redefine defines it anew, and keeps its history")
	case there:
		err = m.mayChange(who, &old)
	default:
		err = duty.Room(&m.Desk, "monitor", who.Principal, maxMonitors, duty.Decoded(drawer.All("d/", ""), decodeRecord))
	}
	if err != nil {
		return nil, err
	}
	now, done := m.Clock.Now().UTC(), "created"
	d.Request.Originator = who.Originator
	r := &record{Definition: *d, Principal: who.Principal, Originator: who.Originator, Created: now, Paused: old.Paused}
	if there {
		done, r.Created = "redefined", old.Created
	}
	if _, has, err := load[Status](drawer, statusKey(d.Name)); err != nil || !has {
		if err := errors.Join(err, save(drawer, statusKey(d.Name), &Status{})); err != nil {
			return nil, err
		}
	}
	return m.keep(t, who, r, done)
}

// mayWatch is an error where the caller may read no file of the directory, by its name alone. It does not say if the
// directory is there. Each poll decides by where the directory lies.
func (m *monitors) mayWatch(who duty.Caller, d *Definition) error {
	if d.onQueue() {
		return nil // its poll asks for the queue's name before it asks for the queue
	}
	place, _ := m.FS.Place().For(transfer.Files, m.Permit(who.Principal)).(localfs.Local)
	return place.MayScan(d.Dir.Path)
}

// keep writes a monitor down as it is from now on, and the audit record of that.
func (m *monitors) keep(t *ledger.Tx, who duty.Caller, r *record, done string) (*Answer, error) {
	var err error
	if r.Generation, err = nextGeneration(drawerOf(t)); err != nil {
		return nil, err
	}
	r.Changed = m.Clock.Now().UTC()
	if err := save(drawerOf(t), recordKey(r.Name), r); err != nil {
		return nil, err
	}
	return m.noted(t, who, r.Name, done)
}

func (m *monitors) noted(t *ledger.Tx, who duty.Caller, name, done string) (*Answer, error) {
	action := map[string]string{"created": mftxml.MonitorCreate, "redefined": mftxml.MonitorRedefine, "paused": mftxml.MonitorStop, "resumed": mftxml.MonitorStart,
		"cleared": mftxml.MonitorClear, "removed": mftxml.MonitorDelete}[done]
	err := m.Note(t, audit.Record{Event: audit.Changed, Source: m.Agent, Principal: who.Principal, Originator: &who.Originator, Text: "has " + done + " the monitor " + name,
		Figures: audit.Figures{Kept: &audit.Kept{Kind: audit.KeptMonitor, Name: name, Done: action}}})
	return &Answer{name, m.Agent, done}, err
}

// mayChange is whether somebody may change a monitor: his own, or with the authority operate.
func (m *monitors) mayChange(who duty.Caller, r *record) error {
	if who.Principal == r.Principal {
		return m.May(who.Principal, transfer.AuthMonitor)
	}
	return m.May(who.Principal, transfer.AuthOperate)
}

// toNamed is a command that changes the monitor of a name; nil removes it.
func (m *monitors) toNamed(done string, change func(ledger.Drawer, *record) error) duty.Command {
	return duty.Command{Needs: transfer.AuthNone, Done: m.changed, Do: func(t *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
		named, err := readBody[Named](body)
		if err != nil {
			return nil, err
		}
		d := drawerOf(t)
		r, err := m.find(d, named.Name, func(r *record) error { return m.mayChange(who, r) })
		if err != nil {
			return nil, err
		}
		if change == nil {
			if err := remove(d, r.Name); err != nil {
				return nil, err
			}
			return m.noted(t, who, r.Name, done)
		}
		if err := change(d, r); err != nil {
			return nil, err
		}
		return m.keep(t, who, r, done)
	}}
}

// find is the monitor of a name, if it may be seen or changed.
func (m *monitors) find(d ledger.Drawer, name string, may func(*record) error) (*record, error) {
	name, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	r, ok, err := load[record](d, recordKey(name))
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, transfer.Errorf(transfer.KindNotFound, "agent %s has no monitor %s", m.Agent, name).WithHint("`ferry monitor ls` lists them")
	}
	return &r, may(&r)
}

// clearHistory forgets what has triggered. Triggers that wait are submitted nevertheless.
func clearHistory(d ledger.Drawer, r *record) error {
	st, _, err := load[Status](d, statusKey(r.Name))
	if err != nil {
		return err
	}
	st.Fired = false
	return errors.Join(save(d, statusKey(r.Name), &st), d.Clear(historyPrefix(r.Name)))
}

// remove forgets all of a monitor. Triggers that wait are not submitted any more.
func remove(d ledger.Drawer, name string) error {
	var dropped []transfer.ID
	for key := range d.All(pendingPrefix(name), "") {
		one, _, err := load[pending](d, key)
		if err != nil {
			return err
		}
		dropped = append(dropped, one.Request.ID)
	}
	for _, id := range dropped {
		if err := d.Delete(followedKey(id)); err != nil {
			return err
		}
	}
	return errors.Join(d.Delete(recordKey(name)), d.Delete(statusKey(name)), d.Clear(historyPrefix(name)), d.Clear(pendingPrefix(name)), d.Clear(logPrefix(name)))
}
