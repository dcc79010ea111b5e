package xml

import (
	"ferry/internal/mft/xml/tree"
	"ferry/internal/transfer"
)

// A Template is a transferTemplate, as fteListTemplates -x writes it: a transfer with a name, to be submitted
// repeatedly. Its files are those of a managedTransfer; the agents are in elements of their own.
type Template struct {
	Name     string
	Transfer *Transfer
}

func (r *documentReader) template(e *tree.Element) *Template {
	r.Attr(e, "id")
	t := &Transfer{Job: r.job(e), Schedule: r.schedule(e), Trigger: r.trigger(e), Source: r.named(e, "sourceAgentName"), Destination: r.named(e, "destinationAgentName")}
	for _, name := range []string{"sourceAgentQMgr", "destinationAgentQMgr"} {
		if r.TextOf(e, name) != "" {
			r.doc.ignore("<" + name + ">")
		}
	}
	files := r.Must(e, "fileSpecs")
	t.Set = Set{Recovery: -1, Meta: r.meta(e), Items: r.items(files),
		Programs: Programs{r.program(e, "preSourceCall"), r.program(e, "postSourceCall"), r.program(e, "preDestinationCall"), r.program(e, "postDestinationCall")}}
	r.Done(files)
	if at := r.Sub(e, "priority"); at != nil {
		t.Set.Priority = r.Figure(at, "the priority", tree.Blank(r.Text(at)), 0, 0, 9)
	}
	if at := r.Sub(e, "recoveryTimeout"); at != nil {
		t.Set.Recovery = r.Figure(at, "the recoveryTimeout", tree.Blank(r.Text(at)), -1, -1, 1<<31-1)
	}
	t.Job = r.jobOf(e, t.Job, t.Set.Meta)
	return &Template{Name: tree.Blank(r.Text(r.Must(e, "name"))), Transfer: t}
}

// named returns the agent named by the text of an element.
func (r *documentReader) named(e *tree.Element, name string) transfer.AgentName {
	at := r.Must(e, name)
	text := tree.Blank(r.Text(at))
	if text == "" {
		r.Bad(at, "<%s> names no agent", name)
	}
	return r.Agent(at, text)
}
