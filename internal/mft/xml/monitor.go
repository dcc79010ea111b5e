package xml

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"ferry/internal/transfer"
)

// A Monitor watches a directory or a queue of an agent, and submits its task when its condition holds.
type Monitor struct {
	Name       string
	Agent      transfer.AgentName
	Overwrite  bool
	Poll       int
	PollUnits  string // seconds, minutes, hours or days
	Batch      int    // the most files or messages of one task
	Directory  transfer.Path
	Levels     int // depth of watched directories below it; -1: all
	Queue      string
	Conditions []Condition
	All        bool // every one of the conditions must hold; otherwise one is sufficient
	Contents   *TriggerContents
	Defaults   map[string]string // of variables
	Meta       map[string]string
	Originator transfer.Originator
	Reply      string
	Job        string
	Task       *Transfer // with variables as ${FilePath} in its words
	Call       *ManagedCall
}

// A Condition is a condition of a monitor.
type Condition struct {
	Kind    string // fileMatch, fileNoMatch, fileSizeSame, fileSize, queueNotEmpty or completeGroups
	Pattern string
	Regex   bool // the pattern is a regular expression, and not a wildcard
	Exclude string
	Polls   int    // of fileSizeSame
	Size    int    // of fileSize
	Units   string // b, kb, mb or gb
}

// TriggerContents means that the lines of a trigger file name the files to be transferred.
type TriggerContents struct {
	Regex string
	Order string // the group of the expression that is the source
}

// An Unmonitor ends a monitor.
type Unmonitor struct {
	Name       string
	Agent      transfer.AgentName
	Originator transfer.Originator
	Reply      string
}

// lacks returns the first part of a monitor that Ferry's monitors do not have, or "".
func (m *Monitor) lacks() string {
	switch {
	case len(m.Conditions) > 1 && m.All:
		return "more than one <condition> in <allOf>"
	case m.Call != nil:
		return "<managedCall> as the task of a monitor"
	case m.Task.Schedule != nil:
		return "<schedule> in the task of a monitor"
	}
	if _, what := m.Condition(); what != "" {
		return what
	}
	return m.Task.lacks()
}

// Condition returns the monitor's conditions as one condition. Several conditions that differ only in their patterns
// become one: the name of a file matches one of the patterns. lacks names a part that cannot be combined so.
func (m *Monitor) Condition() (one Condition, lacks string) {
	one = m.Conditions[0]
	if len(m.Conditions) == 1 {
		return one, ""
	}
	var names []string
	for _, c := range m.Conditions {
		alike := c
		alike.Pattern, alike.Regex, alike.Exclude = one.Pattern, one.Regex, one.Exclude
		switch {
		case alike != one:
			return one, "more than one <condition>, of different kinds or figures,"
		case c.Kind == "fileNoMatch":
			return one, "more than one <condition> that is <fileNoMatch>"
		case expression(c.Exclude, c.Regex) != expression(one.Exclude, one.Regex):
			return one, "more than one <condition>, with different <exclude>s,"
		}
		if name := expression(cmp.Or(c.Pattern, everyName(c.Regex)), c.Regex); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	one.Exclude = expression(one.Exclude, one.Regex)
	one.Pattern, one.Regex = strings.Join(names, "|"), true
	return one, ""
}

// everyName returns the pattern of a condition without one.
func everyName(regex bool) string {
	if regex {
		return ".*"
	}
	return "*"
}

// expression returns a pattern for names as a regular expression. '*' is any run of characters, '?' any one. Only a
// pattern that begins with '.' matches a name that does.
func expression(pattern string, regex bool) string {
	if regex && pattern != "" {
		return "(?:" + pattern + ")"
	}
	rest := strings.TrimLeft(pattern, "*?")
	begin := pattern[:len(pattern)-len(rest)]
	ones, star := strings.Count(begin, "?"), strings.Contains(begin, "*")
	var b strings.Builder
	switch {
	case ones > 0 && star:
		b.WriteString("[^.]" + strings.Repeat(".", ones-1) + ".*")
	case ones > 0:
		b.WriteString("[^.]" + strings.Repeat(".", ones-1))
	case star && strings.HasPrefix(rest, "."):
		b.WriteString("[^.].*")
	case star:
		b.WriteString("(?:[^.].*)?")
	}
	for _, c := range rest {
		switch c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return b.String()
}

// Bytes returns the size of a fileSize in bytes.
func (c *Condition) Bytes() int64 { return int64(c.Size) * sizeUnits[c.Units] }

func (r *documentReader) monitor(e *element) *Monitor {
	if r.textOf(e, "description") != "" {
		r.doc.Ignored = append(r.doc.Ignored, "<description>")
	}
	m := &Monitor{Overwrite: r.truth(e, "overwrite", false), Name: blank(r.text(r.must(e, "name"))), Agent: r.agent(e, blank(r.text(r.must(e, "agent")))),
		Originator: r.originator(e), Reply: r.reply(e), Job: r.job(e), Poll: 1, PollUnits: "minutes", Batch: 1}
	if at := r.sub(e, "pollInterval"); at != nil {
		m.PollUnits = r.word(at, "units", "minutes", "seconds", "hours", "days")
		m.Poll = r.figure(at, "the pollInterval", blank(r.text(at)), 1, 1, 1<<31-1)
	}
	if at := r.sub(e, "batch"); at != nil {
		m.Batch = r.number(at, "maxSize", 1, 1, 1<<31-1)
		r.done(at)
	}
	resources := r.must(e, "resources")
	if at := r.sub(resources, "directory"); at != nil {
		m.Levels = r.number(at, "recursionLevel", 0, -1, 1<<31-1)
		m.Directory = transfer.Path(r.text(at))
	} else {
		m.Queue = blank(r.text(r.must(resources, "queue")))
		if _, manager, is := strings.Cut(m.Queue, "@"); is {
			r.doc.Ignored = append(r.doc.Ignored, "@"+manager+" of <queue>: queues are those of the agent's own queue manager")
		}
	}
	r.done(resources)
	r.triggerMatch(m, r.must(e, "triggerMatch"))
	r.reads(m, e)
	r.tasks(m, r.must(e, "tasks"))
	r.done(e)
	return m
}

// reads parses the parts of a monitor that are in its metadata.
func (r *documentReader) reads(m *Monitor, e *element) {
	if at := r.sub(e, "triggerContentFormat"); at != nil {
		m.Contents = &TriggerContents{Order: r.word(at, "order", "srcdest", "destsrc"), Regex: r.text(at)}
	}
	if at := r.sub(e, "defaultVariables"); at != nil {
		m.Defaults = map[string]string{}
		for _, v := range r.subs(at, "variable") {
			m.Defaults[r.need(v, "key")] = r.text(v)
		}
		r.done(at)
	}
	if at := r.sub(e, "monitorMetaData"); at != nil {
		m.Meta = map[string]string{}
		for _, v := range r.subs(at, "metaData") {
			m.Meta[r.need(v, "key")] = r.text(v)
		}
		r.doc.Ignored = append(r.doc.Ignored, "<monitorMetaData>")
		r.done(at)
	}
}

func (r *documentReader) triggerMatch(m *Monitor, e *element) {
	conditions := r.must(e, "conditions")
	list := r.sub(conditions, "allOf")
	if list == nil {
		list = r.must(conditions, "anyOf")
	}
	for _, c := range r.subs(list, "condition") {
		for _, kind := range []string{"fileMatch", "fileNoMatch", "fileSizeSame", "fileSize", "queueNotEmpty", "completeGroups"} {
			if at := r.sub(c, kind); at != nil {
				m.Conditions = append(m.Conditions, r.condition(kind, at))
			}
		}
		r.done(c)
	}
	if len(m.Conditions) == 0 {
		r.bad(e, "<triggerMatch> has no condition")
	}
	m.All = list.name == "allOf" && len(m.Conditions) > 1
	r.done(list)
	r.done(conditions)
	r.done(e)
}

func (r *documentReader) condition(kind string, at *element) Condition {
	c := Condition{Kind: kind}
	if kind == "fileSizeSame" {
		c.Polls = r.number(at, "polls", 1, 1, 1<<31-1)
	}
	if kind == "fileSize" {
		size := r.must(at, "compare")
		r.word(size, "operator", ">=")
		c.Units = r.word(size, "units", "b", "kb", "mb", "gb")
		c.Size = r.figure(size, "the size", blank(r.text(size)), 0, 0, 1<<31-1)
	}
	kinds := map[string]bool{}
	texts := map[string]string{}
	for _, name := range []string{"pattern", "exclude"} {
		p := r.sub(at, name)
		if p == nil {
			continue
		}
		if typed := r.word(p, "type", "", "wildcard", "regex"); typed != "" || name == "pattern" { // an exclude is as its pattern
			c.Regex = c.Regex || typed == "regex"
			kinds[cmp.Or(typed, "wildcard")] = true
		}
		texts[name] = r.text(p)
	}
	c.Pattern, c.Exclude = texts["pattern"], texts["exclude"]
	if len(kinds) > 1 {
		r.bad(at, "<pattern> and <exclude> are of two types; both are wildcards or regular expressions")
	}
	r.done(at)
	return c
}

func (r *documentReader) tasks(m *Monitor, e *element) {
	task := r.must(e, "task")
	r.textOf(task, "name")
	does := r.sub(task, "transfer")
	if does == nil {
		does = r.must(task, "call")
	}
	inner := &Document{}
	nested := &documentReader{doc: inner}
	request := r.must(does, "request")
	nested.attr(request, "version")
	nested.request(request)
	nested.done(request)
	if nested.err != nil {
		r.fail(nested.err)
	}
	if m.Task, m.Call = inner.Transfer, inner.Call; m.Task == nil && m.Call == nil {
		r.bad(task, "the task of a monitor is a managedTransfer or a managedCall")
	}
	r.doc.Ignored = append(r.doc.Ignored, inner.Ignored...)
	r.done(does)
	r.done(task)
	r.done(e)
}
