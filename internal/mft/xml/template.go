package xml

import "ferry/internal/transfer"

// A Template is a transferTemplate, as fteListTemplates -x writes it: a transfer with a name, to be submitted
// repeatedly. Its files are those of a managedTransfer; the agents are in elements of their own.
type Template struct {
	Name     string
	Transfer *Transfer
}

func (r *documentReader) template(e *element) *Template {
	r.attr(e, "id")
	t := &Transfer{Job: r.job(e), Schedule: r.schedule(e), Trigger: r.trigger(e), Source: r.named(e, "sourceAgentName"), Destination: r.named(e, "destinationAgentName")}
	for _, name := range []string{"sourceAgentQMgr", "destinationAgentQMgr"} {
		if r.textOf(e, name) != "" {
			r.doc.Ignored = append(r.doc.Ignored, "<"+name+">")
		}
	}
	files := r.must(e, "fileSpecs")
	t.Set = Set{Recovery: -1, Meta: r.meta(e), Items: r.items(files),
		Programs: Programs{r.program(e, "preSourceCall"), r.program(e, "postSourceCall"), r.program(e, "preDestinationCall"), r.program(e, "postDestinationCall")}}
	r.done(files)
	if at := r.sub(e, "priority"); at != nil {
		t.Set.Priority = r.figure(at, "the priority", blank(r.text(at)), 0, 0, 9)
	}
	if at := r.sub(e, "recoveryTimeout"); at != nil {
		t.Set.Recovery = r.figure(at, "the recoveryTimeout", blank(r.text(at)), -1, -1, 1<<31-1)
	}
	t.Job = r.jobOf(e, t.Job, t.Set.Meta)
	return &Template{Name: blank(r.text(r.must(e, "name"))), Transfer: t}
}

// named returns the agent named by the text of an element.
func (r *documentReader) named(e *element, name string) transfer.AgentName {
	at := r.must(e, name)
	text := blank(r.text(at))
	if text == "" {
		r.bad(at, "<%s> names no agent", name)
	}
	return r.agent(at, text)
}
