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
