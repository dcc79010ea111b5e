package managedcall

import (
	"encoding/json"
	"fmt"

	"ferry/internal/audit"
	"ferry/internal/automation/call"
	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A callDuty keeps the calls of an agent.
type callDuty struct {
	duty.Services
	changed chan struct{} // a command was given
}

// New makes the duty.
func New(d duty.Services) (duty.Duty, error) { return newDuty(d), nil }

func newDuty(d duty.Services) *callDuty { return &callDuty{d, make(chan struct{}, 1)} }

// Commands make and cancel calls.
func (k *callDuty) Commands() map[wire.Kind]duty.Command {
	changed := func() { wake.Up(k.changed) }
	return map[wire.Kind]duty.Command{
		CommandRun:    {Needs: transfer.AuthProgram, Do: k.put, Done: changed},
		CommandCancel: {Needs: transfer.AuthNone, Do: k.cancel, Done: changed}, // cancel asks for more
	}
}

// Questions are answered about the caller's own calls, and about those of others to callers with AuthOperate.
func (k *callDuty) Questions() map[wire.Kind]duty.Question {
	return map[wire.Kind]duty.Question{AskList: {Answer: k.list}, AskShow: {Answer: k.show}}
}

func (k *callDuty) put(t *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
	p, err := ParsePut(body)
	if err != nil {
		return nil, err
	}
	if p.Agent != k.Agent {
		return nil, transfer.Errorf(transfer.KindUsage, "the call is for agent %s; this is %s", p.Agent, k.Agent)
	}
	if err := call.Runnable(k.Programs, k.Agent, transfer.ManagedCall, &p.Program); err != nil {
		return nil, err
	}

	d := drawerOf(t)
	if err := d.CheckVacant(&k.Services, "call", p.ID.String()); err != nil {
		return nil, err
	}
	if err := k.makeRoom(d, who.Principal); err != nil {
		return nil, err
	}
	c := &Call{V: version, ID: p.ID, Origin: who.Origin, Originator: who.Originator, Made: k.Clock.Now().UTC(), Agent: k.Agent, Program: p.Program,
		Job: p.Job, Meta: p.Meta, State: transfer.Queued}
	if err := d.put(c); err != nil {
		return nil, err
	}
	k.Log.Info("call accepted", "call", c.ID, "program", c.Program.Name, "principal", c.Principal)
	return c, k.note(t, c, who.Changed(fmt.Sprintf("has the call %s of the program %s", c.ID, c.Program.Name)))
}

// note puts a record of a call into the outbox.
func (k *callDuty) note(t *ledger.Tx, c *Call, r audit.Record) error {
	r.Role, r.Transfer, r.Source, r.Job, r.Meta = audit.RoleSource, c.ID, k.Agent, c.Job, c.Meta
	if r.Principal == "" {
		r.Principal, r.Originator, r.Author = c.Principal, &c.Originator, c.Author
	}
	return k.Note(t, r)
}

func (k *callDuty) cancel(t *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
	d := drawerOf(t)
	c, err := k.named(d, who, body)
	if err != nil {
		return nil, err
	}
	if err := k.MayChange(who, c.Principal, transfer.AuthNone); err != nil {
		return nil, err
	}
	switch {
	case c.State == transfer.Cancelled, c.Cancelled != "" && !c.State.Final():
		return c, nil
	case c.State.Final():
		return nil, transfer.Errorf(transfer.KindEnding, "call %s is already over: %s", c.ID, c.State)
	}

	c.Cancelled = who.Principal
	r := who.Changed(fmt.Sprintf("cancels the call %s", c.ID))
	if c.State == transfer.Queued {
		c.settle(k.Clock.Now(), c.Ran, transfer.Errorf(transfer.KindCancelled, "the call was cancelled"))
		r.State, r.Code = c.State, c.Code
	}
	if err := d.put(c); err != nil {
		return nil, err
	}
	k.Log.Info("call cancel requested", "call", c.ID, "principal", who.Principal)
	return c, k.note(t, c, r)
}

// named returns the call that a body names, of those that a caller may see.
func (k *callDuty) named(d drawer, who duty.Caller, body json.RawMessage) (*Call, error) {
	b, err := duty.Body[Named](body, "the ID of a call")
	if err != nil {
		return nil, err
	}
	return duty.Find(&k.Services, who, "call", b.ID, d.From(""))
}

func (k *callDuty) list(who duty.Caller, body json.RawMessage) (any, error) {
	p, err := duty.Body[Page](body, "which calls are asked for")
	if err != nil {
		return nil, err
	}
	l := Listed{Calls: []Call{}}
	err = k.Ledger.View(func(t *ledger.Tx) (err error) {
		all := duty.Visible(&k.Services, who, drawerOf(t).From(p.After.String()))
		l.More, err = duty.Page(all, listPage, func(c *Call) {
			c.Program.Args = nil
			if c.Ran != nil {
				c.Ran.Output = ""
			}
			l.Calls = append(l.Calls, *c)
		})
		return err
	})
	return l, err
}

func (k *callDuty) show(who duty.Caller, body json.RawMessage) (any, error) {
	return ledger.Read(k.Ledger, func(t *ledger.Tx) (any, error) { return k.named(drawerOf(t), who, body) })
}
