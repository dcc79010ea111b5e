package xml

import (
	"cmp"
	"strings"

	"ferry/internal/mft/xml/tree"
	"ferry/internal/transfer"
)

func (r *documentReader) monitor(e *tree.Element) *Monitor {
	if r.TextOf(e, "description") != "" {
		r.doc.ignore("<description>")
	}
	m := &Monitor{Overwrite: r.Truth(e, "overwrite", false), Name: tree.Blank(r.Text(r.Must(e, "name"))), Agent: r.Agent(e, tree.Blank(r.Text(r.Must(e, "agent")))),
		Originator: r.originator(e), Reply: r.reply(e), Job: r.job(e), Poll: 1, PollUnits: "minutes", Batch: 1}
	if at := r.Sub(e, "pollInterval"); at != nil {
		m.PollUnits = r.Word(at, "units", "minutes", "seconds", "hours", "days")
		m.Poll = r.Figure(at, "the pollInterval", tree.Blank(r.Text(at)), 1, 1, 1<<31-1)
	}
	if at := r.Sub(e, "batch"); at != nil {
		m.Batch = r.Number(at, "maxSize", 1, 1, 1<<31-1)
		r.Done(at)
	}
	resources := r.Must(e, "resources")
	if at := r.Sub(resources, "directory"); at != nil {
		m.Levels = r.Number(at, "recursionLevel", 0, -1, 1<<31-1)
		m.Directory = transfer.Path(r.Text(at))
	} else {
		m.Queue = tree.Blank(r.Text(r.Must(resources, "queue")))
		if _, manager, is := strings.Cut(m.Queue, "@"); is {
			r.doc.ignore("@" + manager + " of <queue>: queues are those of the agent's own queue manager")
		}
	}
	r.Done(resources)
	r.triggerMatch(m, r.Must(e, "triggerMatch"))
	r.reads(m, e)
	r.tasks(m, r.Must(e, "tasks"))
	r.Done(e)
	return m
}

// reads parses the parts of a monitor that are in its metadata.
func (r *documentReader) reads(m *Monitor, e *tree.Element) {
	if at := r.Sub(e, "triggerContentFormat"); at != nil {
		m.Contents = &TriggerContents{Order: r.Word(at, "order", "srcdest", "destsrc"), Regex: r.Text(at)}
	}
	if at := r.Sub(e, "defaultVariables"); at != nil {
		m.Defaults = map[string]string{}
		for _, v := range r.Subs(at, "variable") {
			m.Defaults[r.Need(v, "key")] = r.Text(v)
		}
		r.Done(at)
	}
	if at := r.Sub(e, "monitorMetaData"); at != nil {
		m.Meta = map[string]string{}
		for _, v := range r.Subs(at, "metaData") {
			m.Meta[r.Need(v, "key")] = r.Text(v)
		}
		r.doc.ignore("<monitorMetaData>")
		r.Done(at)
	}
}

func (r *documentReader) triggerMatch(m *Monitor, e *tree.Element) {
	conditions := r.Must(e, "conditions")
	list := r.Sub(conditions, "allOf")
	if list == nil {
		list = r.Must(conditions, "anyOf")
	}
	for _, c := range r.Subs(list, "condition") {
		for _, kind := range []string{"fileMatch", "fileNoMatch", "fileSizeSame", "fileSize", "queueNotEmpty", "completeGroups"} {
			if at := r.Sub(c, kind); at != nil {
				m.Conditions = append(m.Conditions, r.condition(kind, at))
			}
		}
		r.Done(c)
	}
	if len(m.Conditions) == 0 {
		r.Bad(e, "<triggerMatch> has no condition")
	}
	m.All = list.Name == "allOf" && len(m.Conditions) > 1
	r.Done(list)
	r.Done(conditions)
	r.Done(e)
}

func (r *documentReader) condition(kind string, at *tree.Element) Condition {
	c := Condition{Kind: kind}
	if kind == "fileSizeSame" {
		c.Polls = r.Number(at, "polls", 1, 1, 1<<31-1)
	}
	if kind == "fileSize" {
		size := r.Must(at, "compare")
		r.Word(size, "operator", ">=")
		c.Units = r.Word(size, "units", "b", "kb", "mb", "gb")
		c.Size = r.Figure(size, "the size", tree.Blank(r.Text(size)), 0, 0, 1<<31-1)
	}
	kinds := map[string]bool{}
	texts := map[string]string{}
	for _, name := range []string{"pattern", "exclude"} {
		p := r.Sub(at, name)
		if p == nil {
			continue
		}
		if typed := r.Word(p, "type", "", "wildcard", "regex"); typed != "" || name == "pattern" { // an exclude is as its pattern
			c.Regex = c.Regex || typed == "regex"
			kinds[cmp.Or(typed, "wildcard")] = true
		}
		texts[name] = r.Text(p)
	}
	c.Pattern, c.Exclude = texts["pattern"], texts["exclude"]
	if len(kinds) > 1 {
		r.Bad(at, "<pattern> and <exclude> are of two types; both are wildcards or regular expressions")
	}
	r.Done(at)
	return c
}

func (r *documentReader) tasks(m *Monitor, e *tree.Element) {
	task := r.Must(e, "task")
	r.TextOf(task, "name")
	does := r.Sub(task, "transfer")
	if does == nil {
		does = r.Must(task, "call")
	}
	inner := &Document{}
	nested := &documentReader{doc: inner}
	request := r.Must(does, "request")
	nested.Attr(request, "version")
	nested.request(request)
	nested.Done(request)
	if nested.Err != nil {
		r.Fail(nested.Err)
	}
	if m.Task, m.Call = inner.Transfer, inner.Call; m.Task == nil && m.Call == nil {
		r.Bad(task, "the task of a monitor is a managedTransfer or a managedCall")
	}
	for _, text := range inner.Ignored {
		r.doc.ignore(text)
	}
	r.Done(does)
	r.Done(task)
	r.Done(e)
}
