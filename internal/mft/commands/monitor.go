package commands

import (
	"slices"
	"strconv"
	"strings"

	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// Monitor returns the document that the options of fteCreateMonitor request. task is the document of -mt, and imported
// the document of -ix; one of them is nil. Errors are of KindUsage.
func (c *Call) Monitor(task, imported *mftxml.Document) (*mftxml.Document, error) {
	r := &request{Call: c}
	if c.Has("c") && !c.Has("f") {
		r.bad("-c belongs to -f: it clears the history of a monitor that is defined anew")
	}
	if imported != nil {
		return r.imported(imported)
	}
	m := &mftxml.Monitor{Name: r.name(), Agent: r.agent("ma"), Overwrite: c.Has("f"), Poll: r.number("pi", 1, 1, 1<<31-1), PollUnits: r.word("pu", "minutes", "seconds", "hours", "days"),
		Batch: r.number("bs", 1, 1, 1<<31-1), Directory: transfer.Path(c.Get("md")), Queue: c.Get("mq"), Job: c.Get("jn"), Defaults: r.pairs("dv")}
	if c.Has("md") == c.Has("mq") {
		r.bad("one resource is needed, with -md or -mq")
	}
	if c.Has("rl") && strings.ToLower(c.Get("rl")) != "none" {
		m.Levels = r.number("rl", 0, 0, 1<<31-1)
	}
	m.Conditions = []mftxml.Condition{r.condition()}
	m.Contents = r.contents(m.Conditions[0].Kind)
	switch {
	case task == nil:
		r.bad("-mt, the file with the task, is missing; fteCreateTransfer -gt writes one")
	case task.Call != nil:
		m.Call = task.Call
	case task.Transfer == nil:
		r.bad("the task is no transfer")
	}
	if r.err != nil {
		return nil, r.err
	}
	m.Task = task.Transfer
	return &mftxml.Document{Monitor: m}, nil
}

// imported returns the monitor of -ix, with the name and the agent of the options.
func (r *request) imported(d *mftxml.Document) (*mftxml.Document, error) {
	for _, o := range []string{"md", "mq", "pi", "pu", "tr", "x", "pt", "rl", "bs", "tc", "tcr", "tcc", "mt", "jn", "dv"} {
		if r.Has(o) {
			r.bad("-%s does not go with -ix: the definition says it", o)
		}
	}
	if d.Monitor == nil {
		r.bad("the document of -ix is no monitor")
		return nil, r.err
	}
	m := *d.Monitor
	if r.Has("mn") {
		m.Name = r.name()
	}
	if r.Has("ma") {
		m.Agent = r.agent("ma")
	}
	m.Overwrite = r.Has("f")
	return &mftxml.Document{Monitor: &m}, r.err
}

func (r *request) name() string {
	if r.Get("mn") == "" {
		r.bad("-mn NAME is missing")
	}
	return r.Get("mn")
}

// condition reads -tr, with -x and -pt. -pt applies only to a pattern.
func (r *request) condition() (c mftxml.Condition) {
	defer func() { c.Regex = c.Regex && c.Pattern+c.Exclude != "" }()
	c = mftxml.Condition{Kind: "fileMatch", Regex: r.word("pt", "wildcard", "regex") == "regex", Exclude: r.Get("x")}
	if r.Has("mq") {
		c.Kind = "queueNotEmpty"
	}
	if !r.Has("tr") {
		return c
	}
	condition, pattern, _ := strings.Cut(r.Get("tr"), ",")
	c.Pattern = pattern
	low := strings.ToLower(condition)
	polls, same := strings.CutPrefix(low, "nosizechange=")
	digits, units, sized := sizeOf(low)
	n, err := strconv.Atoi(polls)
	m, tooLarge := strconv.Atoi(digits)
	switch {
	case low == "match":
		c.Kind = "fileMatch"
	case low == "nomatch":
		c.Kind = "fileNoMatch"
	case same && err == nil && n > 0:
		c.Kind, c.Polls = "fileSizeSame", n
	case sized && tooLarge == nil && m >= 0:
		c.Kind, c.Size, c.Units = "fileSize", m, units
	case low == "queuenotempty":
		c.Kind = "queueNotEmpty"
	case low == "completegroups":
		c.Kind = "completeGroups"
	default:
		r.bad("-tr %q is unknown; it is match, noMatch, noSizeChange=POLLS or fileSize>=SIZE, and a pattern behind a comma", condition)
	}
	return c
}

// contents reads -tc, with -tcr and -tcc.
func (r *request) contents(condition string) *mftxml.TriggerContents {
	if !r.Has("tc") {
		if r.Has("tcr") || r.Has("tcc") {
			r.bad("-tcr and -tcc belong to -tc")
		}
		return nil
	}
	if !slices.Contains([]string{"fileMatch", "fileSizeSame"}, condition) {
		r.bad("-tc goes with -tr match and noSizeChange")
	}
	return &mftxml.TriggerContents{Regex: r.Get("tcr"), Order: r.word("tcc", "srcdest", "destsrc")}
}
