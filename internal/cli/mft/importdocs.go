package mft

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/automation/monitor"
	"ferry/internal/automation/template"
	"ferry/internal/cli/session"
	clitemplate "ferry/internal/cli/template"
	"ferry/internal/client"
	mftconfig "ferry/internal/mft/config"
	"ferry/internal/mft/translate"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A definition is the monitor or template that a document of a configuration defines for an agent.
type definition struct {
	file, name string
	agent      transfer.AgentName
	request    transfer.Request
	command    wire.Kind
	body       any
}

// documents has agents keep the monitors and templates of a configuration. An error is one of the network; a refusal of
// an agent is reported with the document.
func (i *importing) documents(cmd *cobra.Command, all []mftconfig.Document) error {
	var things []definition
	for _, d := range all {
		thing, err := i.kept(cmd, d)
		switch {
		case err != nil:
			i.say(cmd, mftconfig.Note{File: d.File, Outcome: mftconfig.Missed, Text: err.Error()})
		case i.dryRun:
			i.say(cmd, mftconfig.Note{File: d.File, Outcome: wouldMake, Text: thing.name + " at agent " + string(thing.agent)})
		case i.Network == "":
			i.say(cmd, mftconfig.Note{File: d.File, Outcome: mftconfig.Missed, Text: thing.name + " is not made: give --network, and run agent " + string(thing.agent)})
		default:
			things = append(things, *thing)
		}
	}
	if len(things) == 0 {
		return nil
	}
	net, ctx, done, err := i.Open(cmd)
	if err != nil {
		return err
	}
	defer done()
	for n := range things {
		t := &things[n]
		note := mftconfig.Note{File: t.file, Outcome: madeFile, Text: t.name + " at agent " + string(t.agent)}
		if err := t.make(ctx, net); err != nil {
			note.Outcome, note.Text = mftconfig.Missed, t.name+": "+err.Error()
		}
		i.say(cmd, note)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// kept reads the monitor or template that a document defines for an agent.
func (i *importing) kept(cmd *cobra.Command, d mftconfig.Document) (*definition, error) {
	doc, err := mftxml.Parse(d.Data)
	if err != nil {
		return nil, err
	}
	t := &definition{file: d.File}
	switch {
	case doc.Monitor != nil:
		c, err := translate.Monitor(doc)
		if err != nil {
			return nil, err
		}
		t.name, t.agent, t.request = "monitor "+c.Definition.Name, c.Definition.Agent, c.Definition.Request
		t.command, t.body = monitor.CommandCreate, c
	case doc.Template != nil:
		later, err := clitemplate.LaterOf(doc.Template.Transfer.Schedule)
		if err != nil {
			return nil, err
		}
		kept, err := translate.Template(doc, later)
		if err != nil {
			return nil, err
		}
		text, err := kept.Export()
		if err == nil {
			_, err = template.Parse(text) // with its size
		}
		if err != nil {
			return nil, err
		}
		t.name, t.agent, t.request = "template "+kept.Name, kept.Request.Source, kept.Request
		t.command, t.body = template.CommandPut, template.Put{Template: text}
	default:
		return nil, transfer.Errorf(transfer.KindUsage, "it is neither a monitor nor a template").WithHint("`ferry submit` takes requests of transfers, also scheduled ones")
	}
	if len(doc.Ignored) > 0 {
		i.say(cmd, mftconfig.Note{File: d.File, Outcome: mftconfig.Needless, Text: strings.Join(doc.Ignored, ", ")})
	}
	return t, nil
}

// make sends the monitor or template to the agent.
func (t *definition) make(ctx context.Context, net *client.Client) error {
	t.request.ID = transfer.NewID(time.Now())
	if err := net.Check(ctx, &t.request); err != nil { // as of an agent that the network does not know
		return err
	}
	at := client.AtAgent{Client: net, Agent: t.agent}
	ctx, cancel := context.WithTimeoutCause(ctx, session.KeepWait, transfer.Errorf(transfer.KindTimeout, "no answer within %s", session.KeepWait))
	defer cancel()
	_, err := at.Command(ctx, t.command, t.body)
	return err
}
