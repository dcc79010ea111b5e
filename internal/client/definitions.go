package client

import (
	"context"
	"encoding/json"
	"time"

	"ferry/internal/automation/schedule"
	"ferry/internal/automation/template"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Ask asks one agent a question that one of its duties answers, and decodes the answer.
func Ask[T any](ctx context.Context, at AtAgent, kind wire.Kind, body any) (*T, error) {
	ans, err := at.Question(ctx, kind, body)
	if err != nil {
		return nil, err
	}
	return decode[T](ans)
}

// Tell sends an agent a command, waits limit for its answer, and decodes the answer.
func Tell[T any](ctx context.Context, at AtAgent, limit time.Duration, kind wire.Kind, body any) (*T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, transfer.Errorf(transfer.KindTimeout, "no answer within %s", limit))
	defer cancel()
	ans, err := at.Command(ctx, kind, body)
	if err != nil {
		return nil, err
	}
	return decode[T](ans)
}

func decode[T any](ans *wire.Answer) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(ans.Body, v); err != nil {
		return nil, transfer.Errorf(transfer.KindVersion, "the agent's answer cannot be read: %w", err)
	}
	return v, nil
}

// Definitions gives agents the objects that they keep by name, and asks for them.
type Definitions struct {
	Client *Client
	Limit  time.Duration // of the wait until an agent has an object
}

// EachAgent calls fn for one agent, or with "" for each agent that is up. Of several agents it leaves out those that
// refuse the question, and those that are away or do not answer; left gets the error of the latter.
func (d Definitions) EachAgent(ctx context.Context, one transfer.AgentName, fn func(at AtAgent) error, left func(agent transfer.AgentName, err error)) error {
	if one != "" {
		return fn(AtAgent{Client: d.Client, Agent: one})
	}
	var names []transfer.AgentName
	if err := d.Client.Agents(ctx, func(a *wire.AgentStatus) error {
		if err := d.awayError(a); err != nil {
			left(a.Agent, err)
		} else {
			names = append(names, a.Agent)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, name := range names {
		err := fn(AtAgent{Client: d.Client, Agent: name})
		switch kind := transfer.KindOf(err); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case Silent(err):
			left(name, err)
		case kind == transfer.KindDenied || kind == transfer.KindVersion:
		case err != nil:
			return err
		}
	}
	return nil
}

// awayError returns the reason why an agent is not asked; nil if it is up.
func (d Definitions) awayError(a *wire.AgentStatus) error {
	switch {
	case a.Status != wire.AgentStopped && a.Status != wire.AgentUnreachable:
		return nil
	case a.Age == 0:
		return transfer.Errorf(transfer.KindUnreachable, "it is away, and was not heard of since coordination started")
	case a.Status == wire.AgentStopped:
		return transfer.Errorf(transfer.KindUnreachable, "it is away since %s: it was stopped", d.Client.Clock.Now().Add(-a.Age).Local().Format("2006-01-02 15:04:05"))
	}
	return transfer.Errorf(transfer.KindUnreachable, "it is away since %s", d.Client.Clock.Now().Add(-a.Age).Local().Format("2006-01-02 15:04:05"))
}

// PutSchedule gives a schedule to the source agent of its request. The caller has checked the request.
func (d Definitions) PutSchedule(ctx context.Context, put *schedule.Put) (*schedule.Schedule, error) {
	return Tell[schedule.Schedule](ctx, AtAgent{Client: d.Client, Agent: put.Request.Source}, d.Limit, schedule.CommandPut, put)
}

// CheckTemplate refuses a template that no agent would take.
func CheckTemplate(t *template.Template) error {
	text, err := t.Export()
	if err == nil {
		_, err = template.Parse(text) // with its size
	}
	return err
}

// FillTemplate returns the request of a template with values for its parameters, of a new ID and in the client's name.
func (c *Client) FillTemplate(t *template.Template, values map[string]string) (*transfer.Request, error) {
	q, err := t.Fill(values)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	q.ID, q.Submitted, q.Originator = transfer.NewID(now), now.UTC(), c.Who
	return q, nil
}

// PutTemplate gives a template to the source agent of its request. It checks the request as Check does.
func (d Definitions) PutTemplate(ctx context.Context, t *template.Template, redefine bool) (*template.Line, error) {
	text, err := t.Export()
	if err != nil {
		return nil, err
	}
	req := t.Request
	req.ID = transfer.NewID(time.Now())
	if err := d.Client.Check(ctx, &req); err != nil {
		return nil, err
	}
	return Tell[template.Line](ctx, AtAgent{Client: d.Client, Agent: req.Source}, d.Limit, template.CommandPut, template.Put{Template: text, Redefine: redefine})
}
