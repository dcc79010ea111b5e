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

// Noun names templates in a wire.Definition.
const Noun = "template"

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
type Named = duty.ByName

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

// A templateDuty keeps the templates of an agent, each under its name.
type templateDuty struct{ duty.Services }

// NewDuty makes the duty.
func NewDuty(d duty.Services) (duty.Duty, error) { return templateDuty{d}, nil }

// Run does nothing: templates only answer commands and questions.
func (s templateDuty) Run(context.Context) {}

// Commands make and remove templates.
func (s templateDuty) Commands() map[wire.Kind]duty.Command {
	return map[wire.Kind]duty.Command{CommandPut: {Needs: transfer.AuthTemplate, Do: s.put}, CommandRemove: {Needs: transfer.AuthTemplate, Do: s.remove}}
}

// Questions are answered to whoever may have this agent send files.
func (s templateDuty) Questions() map[wire.Kind]duty.Question {
	return map[wire.Kind]duty.Question{AskList: {Needs: transfer.AuthSource, Answer: s.list}, AskGet: {Needs: transfer.AuthSource, Answer: s.show}}
}

// templates has the templates in the ledger, each under its name.
type templates = duty.Store[*Template]

func drawerOf(t *ledger.Tx) templates {
	return templates{Namespace: ledger.NamespaceOf(t, "template"), Decode: duty.Decoder("template", version, func(*Template) int { return version })}
}

// Key is the name of the template.
func (t *Template) Key() string { return t.Name }

func (s templateDuty) put(tx *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
	p, err := duty.Body[Put](body, "the template")
	if err != nil {
		return nil, err
	}
	t, err := Parse(p.Template)
	if err != nil {
		return nil, err
	}
	if t.Request.Source != s.Agent {
		return nil, transfer.Errorf(transfer.KindUsage, "the template is for agent %s; this is %s", t.Request.Source, s.Agent)
	}
	d := drawerOf(tx)
	old, err := d.Load(t.Name)
	switch {
	case err != nil:
		return nil, err
	case old == nil:
		err = duty.CheckRoom(&s.Services, "template", who.Principal, MaxTemplates, d.From(""))
	case !p.Redefine:
		err = transfer.Errorf(transfer.KindConflict, "%s has a template %s already", s.Agent, t.Name).WithHint("--redefine puts this one in its place")
	default:
		err = s.MayChange(who, old.Principal, transfer.AuthNone)
	}
	if err != nil {
		return nil, err
	}
	t.Origin, t.Originator, t.Made = who.Origin, &who.Originator, s.Clock.Now().UTC()
	if err := d.Save(t); err != nil {
		return nil, err
	}
	return t.Line(), s.noteChange(tx, t, who, "has the template "+t.Name)
}

func (s templateDuty) noteChange(tx *ledger.Tx, t *Template, who duty.Caller, text string) error {
	s.Log.Info("templates changed", "template", t.Name, "principal", who.Principal)
	r := who.Changed(text)
	r.Role, r.Source, r.Destination = audit.RoleSource, s.Agent, t.Request.Destination
	return s.Note(tx, r)
}

func (s templateDuty) remove(tx *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
	d := drawerOf(tx)
	t, err := d.Named(&s.Services, "template", body)
	if err != nil {
		return nil, err
	}
	if err := s.MayChange(who, t.Principal, transfer.AuthNone); err != nil {
		return nil, err
	}
	if err := d.Delete(t.Name); err != nil {
		return nil, err
	}
	return t.Line(), s.noteChange(tx, t, who, "has no template "+t.Name+" any more")
}

func (s templateDuty) show(_ duty.Caller, body json.RawMessage) (any, error) {
	return ledger.Read(s.Ledger, func(tx *ledger.Tx) (any, error) { return drawerOf(tx).Named(&s.Services, "template", body) })
}

func (s templateDuty) list(_ duty.Caller, body json.RawMessage) (any, error) {
	p, err := duty.Body[Page](body, "the question about templates")
	if err != nil {
		return nil, err
	}
	l := Listed{Templates: []Line{}}
	err = s.Ledger.View(func(tx *ledger.Tx) (err error) {
		l.More, err = duty.Page(drawerOf(tx).From(p.After), listPage, func(t *Template) { l.Templates = append(l.Templates, t.Line()) })
		return err
	})
	return l, err
}

// Kept has the templates for those that may have this agent send files, as Questions.
func (s templateDuty) Kept(tx *ledger.Tx, add func(wire.Definition)) error {
	for t, err := range drawerOf(tx).From("") {
		if err != nil {
			return err
		}
		d := duty.Kept(Noun, t, []transfer.Authority{transfer.AuthSource}, t)
		d.Owner = "" // the owner needs that authority, too
		add(d)
	}
	return nil
}

// Line returns the template as lists have it.
func (t *Template) Line() Line {
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
