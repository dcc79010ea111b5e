package template

import (
	"context"
	"encoding/json"

	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Kinds of commands and questions.
const (
	CommandPut    wire.Kind = "template-put"    // Put
	CommandRemove wire.Kind = "template-remove" // Named
	AskList       wire.Kind = "template-list"   // Page; Listed
	AskGet        wire.Kind = "template-get"    // Named; Template
)

// Limits.
const (
	MaxTemplates = 1000 // of an agent
	listPage     = 100
	listParams   = 16 // of each template, in a list
)

// A Put makes a template.
type Put struct {
	Template json.RawMessage `json:"template"`
	Redefine bool            `json:"redefine,omitempty"`
}

// Named names a template.
type Named struct {
	Name string `json:"name"`
}

// A Page asks for the templates with names after one.
type Page struct {
	After string `json:"after,omitempty"`
}

// Listed are some templates, by their names.
type Listed struct {
	Templates []Line `json:"templates"`
	More      bool   `json:"more,omitempty"`
}

// A Line is a template in a list.
type Line struct {
	Name        string             `json:"name"`
	Params      []Param            `json:"params,omitempty"` // the first ones, with their defaults cut short
	More        int                `json:"more_params,omitempty"`
	Source      transfer.AgentName `json:"source"`
	Destination transfer.AgentName `json:"destination"`
	Principal   string             `json:"principal"`
}

// keepsDefault bounds the defaults in a list, in bytes.
const keepsDefault = 40

// A shelf keeps the templates of an agent, each under its name.
type shelf struct{ duty.Desk }

// NewDuty makes the duty.
func NewDuty(d duty.Desk) (duty.Duty, error) { return shelf{d}, nil }

// Run does nothing: templates only answer commands and questions.
func (s shelf) Run(context.Context) {}

// Commands make and remove templates.
func (s shelf) Commands() map[wire.Kind]duty.Command {
	return map[wire.Kind]duty.Command{CommandPut: {Needs: transfer.AuthTemplate, Do: s.put}, CommandRemove: {Needs: transfer.AuthTemplate, Do: s.remove}}
}

// Questions are answered to whoever may have this agent send files.
func (s shelf) Questions() map[wire.Kind]duty.Question {
	return map[wire.Kind]duty.Question{AskList: {Needs: transfer.AuthSource, Answer: s.list}, AskGet: {Needs: transfer.AuthSource, Answer: s.show}}
}

func drawerOf(t *ledger.Tx) ledger.Drawer { return ledger.DrawerOf(t, "template") }

// get is the template of a name; nil where there is none.
func get(d ledger.Drawer, name string) (*Template, error) {
	data := d.Get(name)
	if data == nil {
		return nil, nil
	}
	return read(data)
}

func read(data []byte) (*Template, error) {
	t := &Template{}
	if err := json.Unmarshal(data, t); err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "the ledger has a template that cannot be read: %w", err)
	}
	return t, nil
}

func (s shelf) put(tx *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
	var p Put
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the template cannot be read: %w", err)
	}
	t, err := Parse(p.Template)
	if err != nil {
		return nil, err
	}
	if t.Request.Source != s.Agent {
		return nil, transfer.Errorf(transfer.KindUsage, "the template is for agent %s; this is %s", t.Request.Source, s.Agent)
	}
	d := drawerOf(tx)
	old, err := get(d, t.Name)
	switch {
	case err != nil:
		return nil, err
	case old == nil:
		err = duty.Room(&s.Desk, "template", who.Principal, MaxTemplates, duty.Decoded(d.All("", ""), read))
	case !p.Redefine:
		err = transfer.Errorf(transfer.KindConflict, "%s has a template %s already", s.Agent, t.Name).WithHint("--redefine puts this one in its place")
	case old.Principal != who.Principal:
		err = s.May(who.Principal, transfer.AuthOperate)
	}
	if err != nil {
		return nil, err
	}
	t.Origin, t.Originator, t.Made = who.Origin, &who.Originator, s.Clock.Now().UTC()
	if err := d.Put(t.Name, wire.Marshal(t)); err != nil {
		return nil, err
	}
	return t.line(), s.noteChange(tx, t, who, "has the template "+t.Name)
}

func (s shelf) noteChange(tx *ledger.Tx, t *Template, who duty.Caller, text string) error {
	s.Log.Info("templates changed", "template", t.Name, "principal", who.Principal)
	return s.Note(tx, audit.Record{Event: audit.Changed, Role: audit.RoleSource, Source: s.Agent, Destination: t.Request.Destination,
		Principal: who.Principal, Originator: &who.Originator, Text: text, Vouched: audit.Vouched{Author: who.Author}})
}

// named is the template that a body names.
func (s shelf) named(d ledger.Drawer, body json.RawMessage) (*Template, error) {
	var b Named
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the name of a template cannot be read: %w", err)
	}
	if err := CheckName(b.Name); err != nil {
		return nil, err
	}
	t, err := get(d, b.Name)
	if err == nil && t == nil {
		err = transfer.Errorf(transfer.KindNotFound, "%s has no template %s", s.Agent, b.Name).WithHint("`ferry template ls` lists them")
	}
	return t, err
}

func (s shelf) remove(tx *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
	d := drawerOf(tx)
	t, err := s.named(d, body)
	if err != nil {
		return nil, err
	}
	if t.Principal != who.Principal {
		if err := s.May(who.Principal, transfer.AuthOperate); err != nil {
			return nil, err
		}
	}
	if err := d.Delete(t.Name); err != nil {
		return nil, err
	}
	return t.line(), s.noteChange(tx, t, who, "has no template "+t.Name+" any more")
}

func (s shelf) show(_ duty.Caller, body json.RawMessage) (answer any, err error) {
	err = s.Ledger.View(func(tx *ledger.Tx) error {
		t, err := s.named(drawerOf(tx), body)
		answer = t
		return err
	})
	return answer, err
}

func (s shelf) list(_ duty.Caller, body json.RawMessage) (any, error) {
	var p Page
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the question about templates cannot be read: %w", err)
	}
	l := Listed{Templates: []Line{}}
	err := s.Ledger.View(func(tx *ledger.Tx) error {
		for t, err := range duty.Decoded(drawerOf(tx).All("", p.After), read) {
			if err != nil {
				return err
			}
			if l.More = len(l.Templates) == listPage; l.More {
				return nil
			}
			l.Templates = append(l.Templates, t.line())
		}
		return nil
	})
	return l, err
}

func (t *Template) line() Line {
	l := Line{Name: t.Name, Source: t.Request.Source, Destination: t.Request.Destination, Principal: t.Principal}
	few := t.Params[:min(len(t.Params), listParams)]
	l.More = len(t.Params) - len(few)
	for _, p := range few {
		if p.Default != nil && len(*p.Default) > keepsDefault {
			short := (*p.Default)[:keepsDefault] + "…"
			p.Default = &short
		}
		l.Params = append(l.Params, p)
	}
	return l
}
