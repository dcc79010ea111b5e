package monitor

import (
	"encoding/json"
	"errors"

	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Kinds of command. The body of CommandCreate is a Create, the body of the others a Named.
const (
	CommandCreate wire.Kind = "monitor-create"
	CommandPause  wire.Kind = "monitor-pause"
	CommandResume wire.Kind = "monitor-resume"
	CommandClear  wire.Kind = "monitor-clear" // forgets the history: existing files trigger again
	CommandRemove wire.Kind = "monitor-remove"
)

// A Create makes a monitor. With Replace the monitor may exist already, and keeps its history.
type Create struct {
	Definition Definition `json:"definition"`
	Redefine   bool       `json:"redefine,omitempty"`
}

// A Named is the body of a command on one monitor.
type Named = duty.ByName

// An Answer gives the monitor of a command, and the result.
type Answer struct {
	Monitor string             `json:"monitor"`
	Agent   transfer.AgentName `json:"agent"`
	Done    string             `json:"done"` // created, redefined, paused, resumed, cleared, removed
}

// commands returns the table of commands. Each command checks that the caller may have monitors and owns the monitor.
// The monitors of others need the authority operate.
func (m *monitors) commands() map[wire.Kind]duty.Command {
	return map[wire.Kind]duty.Command{
		CommandCreate: {Needs: transfer.AuthMonitor, Do: m.create, Done: m.changed},
		CommandPause:  m.toNamed("paused", func(_ duty.Caller, _ drawer, r *record) error { r.Paused = true; return nil }),
		CommandResume: m.toNamed("resumed", m.resume),
		CommandClear:  m.toNamed("cleared", clearHistory),
		CommandRemove: m.toNamed("removed", nil),
	}
}

func readBody[T any](body json.RawMessage) (T, error) {
	return duty.Body[T](body, "the request about a monitor")
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
	all := drawerOf(t)
	old, err := all.Load(d.Name)
	switch {
	case err != nil:
		return nil, err
	case old != nil && !c.Redefine:
		return nil, transfer.Errorf(transfer.KindConflict, "agent %s has a monitor %s already", m.Agent, d.Name).WithHint("--redefine defines it anew, and keeps its history")
	case old != nil:
		err = m.MayChange(who, old.Principal, transfer.AuthMonitor)
	default:
		err = duty.CheckRoom(&m.Services, "monitor", who.Principal, maxMonitors, all.From(""))
	}
	if err != nil {
		return nil, err
	}
	now, done := m.Clock.Now().UTC(), "created"
	d.Request.Originator = who.Originator
	r := &record{Definition: *d, Origin: who.Origin, Originator: who.Originator, Created: now}
	if old != nil {
		done, r.Created, r.Paused = "redefined", old.Created, old.Paused
	}
	if _, has, err := load[Status](all, statusKey(d.Name)); err != nil || !has {
		if err := errors.Join(err, save(all, statusKey(d.Name), &Status{})); err != nil {
			return nil, err
		}
	}
	return m.keep(t, who, r, done)
}

// mayWatch returns an error if the caller may read no file of the directory, by its name alone. The error does not
// reveal whether the directory exists. Each poll checks the directory's real path.
func (m *monitors) mayWatch(who duty.Caller, d *Definition) error {
	if d.OnQueue() {
		return nil // its poll checks the right to the queue's name before it reads the queue
	}
	from, err := host{&m.Services, who.Principal}.directories()
	if err != nil {
		return err
	}
	return from.MayScan(d.Dir.Path)
}

// keep stores the new state of a monitor, with its audit record.
func (m *monitors) keep(t *ledger.Tx, who duty.Caller, r *record, done string) (*Answer, error) {
	var err error
	if r.Generation, err = nextGeneration(drawerOf(t)); err != nil {
		return nil, err
	}
	r.Changed = m.Clock.Now().UTC()
	if err := drawerOf(t).Save(r); err != nil {
		return nil, err
	}
	return m.noted(t, who, r.Name, done)
}

func (m *monitors) noted(t *ledger.Tx, who duty.Caller, name, done string) (*Answer, error) {
	action := map[string]string{"created": audit.MonitorCreate, "redefined": audit.MonitorRedefine, "paused": audit.MonitorStop, "resumed": audit.MonitorStart,
		"cleared": audit.MonitorClear, "removed": audit.MonitorDelete}[done]
	r := who.Changed("has " + done + " the monitor " + name)
	r.Source, r.Kept = m.Agent, &audit.Kept{Kind: audit.KeptMonitor, Name: name, Done: action}
	return &Answer{name, m.Agent, done}, m.Note(t, r)
}

// toNamed returns a command that changes the named monitor. With a nil change, it removes the monitor.
func (m *monitors) toNamed(done string, change func(duty.Caller, drawer, *record) error) duty.Command {
	return duty.Command{Needs: transfer.AuthNone, Done: m.changed, Do: func(t *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
		named, err := readBody[Named](body)
		if err != nil {
			return nil, err
		}
		d := drawerOf(t)
		r, err := m.find(d, named.Name, func(r *record) error { return m.MayChange(who, r.Principal, transfer.AuthMonitor) })
		if err != nil {
			return nil, err
		}
		if change == nil {
			if err := m.remove(t, d, r.Name); err != nil {
				return nil, err
			}
			return m.noted(t, who, r.Name, done)
		}
		if err := change(who, d, r); err != nil {
			return nil, err
		}
		return m.keep(t, who, r, done)
	}}
}

// find returns the monitor of a name, if the caller may see or change it.
func (m *monitors) find(d drawer, name string, may func(*record) error) (*record, error) {
	name, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	r, err := d.Load(name)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, transfer.Errorf(transfer.KindNotFound, "agent %s has no monitor %s", m.Agent, name).WithHint("`ferry monitor ls` lists them")
	}
	return r, may(r)
}

// resume makes a monitor poll again. A monitor of a former holder of the caller's name becomes the caller's.
func (m *monitors) resume(who duty.Caller, _ drawer, r *record) error {
	if r.Paused = false; who.Principal == r.Principal && m.CheckKeys(r.Origin) != nil {
		r.Origin, r.Originator, r.Request.Originator = who.Origin, who.Originator, who.Originator
	}
	return nil
}

// clearHistory forgets the files that have triggered. Waiting triggers are still submitted.
func clearHistory(_ duty.Caller, d drawer, r *record) error {
	st, _, err := load[Status](d, statusKey(r.Name))
	if err != nil {
		return err
	}
	st.Fired = false
	return errors.Join(save(d, statusKey(r.Name), &st), d.Clear(historyPrefix(r.Name)))
}

// remove deletes all data of a monitor. Its waiting triggers are not submitted any more.
func (m *monitors) remove(t *ledger.Tx, d drawer, name string) error {
	var dropped []transfer.Request
	for key := range d.All(pendingPrefix(name), "") {
		one, _, err := load[pending](d, key)
		if err != nil {
			return err
		}
		dropped = append(dropped, transfer.Request{ID: one.Request.ID, Source: one.Request.Source})
	}
	for n := range dropped {
		if err := d.Delete(followedKey(dropped[n].ID)); err != nil {
			return err
		}
		if m.Exits != nil {
			if err := m.Exits.ForgetTrigger(t, &dropped[n]); err != nil {
				return err
			}
		}
	}
	return errors.Join(d.Delete(d.Prefix+name), d.Delete(statusKey(name)), d.Clear(historyPrefix(name)), d.Clear(pendingPrefix(name)), d.Clear(logPrefix(name)))
}
