package xml

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ferry/internal/mft/xml/tree"
	"ferry/internal/transfer"
)

// The parts around a transfer: the triggers that start it, and the programs before and after it. Both correspond to
// Ferry's triggers and programs. lacksAround names the parts that Ferry does not have.

// sizeUnits has the number of bytes of each unit of a fileSize.
var sizeUnits = map[string]int64{"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}

// maxCode is the greatest result code that a successRC of ">N" stands for.
const maxCode = transfer.MaxProgramCode

// maxSuccessRC is the greatest length of a successRC in bytes. The ranges of a longer one would take long to compare.
const maxSuccessRC = 1 << 10

// lacksAround returns the first part of a document that Ferry's triggers and programs do not have, or "".
func (t *Transfer) lacksAround() string {
	if t.Trigger != nil {
		for _, c := range t.Trigger.Conditions {
			if c.Size && c.Comparison != ">=" {
				return `<fileSize comparison="` + c.Comparison + `">`
			}
		}
	}
	for _, p := range t.Set.Programs.all() {
		if p.command == nil {
			continue
		}
		if what := p.command.lacks(); what != "" {
			return what
		}
	}
	return ""
}

// AntProgram is the program that runs the Ant scripts of a transfer. An agent has it in a directory of programs.
const AntProgram = "fteAnt"

// lacks returns the first part of a command that Ferry's programs do not have, or "".
func (c *Command) lacks() string {
	switch {
	case c.Type == "antscript" && len(c.Args) > 0:
		return "<argument> of an Ant script"
	case c.Type == "antscript":
		return ""
	case c.Type != "executable":
		return `<command type="` + c.Type + `">`
	case len(c.Targets) > 0:
		return "<target> of a program"
	case len(c.Properties) > 0:
		return "<property> of a program"
	}
	return ""
}

// driven matches an absolute path of Windows.
var driven = regexp.MustCompile(`^[A-Za-z]:[\\/]`)

// Program returns the command as a program of Ferry. An Ant script is a run of AntProgram.
func (c *Command) Program() (*transfer.Program, error) {
	codes, err := codesOf(c.SuccessRC)
	name, args := c.Name, c.Args
	if driven.MatchString(name) {
		name = strings.ReplaceAll(name, `\`, "/")
	}
	if c.Type == "antscript" {
		args = []string{"-f", name}
		for _, k := range slices.Sorted(maps.Keys(c.Properties)) {
			args = append(args, "-D"+k+"="+c.Properties[k])
		}
		for _, t := range c.Targets {
			if strings.HasPrefix(t, "-") {
				return nil, tree.Malformed("has the target %.60q of an Ant script, which is an option", t)
			}
			args = append(args, t)
		}
		name = AntProgram
	}
	return &transfer.Program{Name: name, Args: args, Retries: c.RetryCount, Pause: transfer.Duration(time.Duration(c.RetryWait) * time.Second), Success: codes}, err
}

// A placed command is a command with its call point.
type placed struct {
	at      transfer.CallPoint
	command *Command
}

func (p *Programs) all() []placed {
	return []placed{{transfer.PreSource, p.PreSource}, {transfer.PostSource, p.PostSource}, {transfer.PreDest, p.PreDest}, {transfer.PostDest, p.PostDest}}
}

// takeAround reads triggers and programs.
func (t *Transfer) takeAround(q *transfer.Request) error {
	if t.Trigger != nil {
		for _, c := range t.Trigger.Conditions {
			one := transfer.Trigger{When: transfer.TriggerExist, Files: c.Files}
			switch {
			case c.Size:
				n, err := strconv.ParseInt(c.Value, 10, 32)
				if err != nil {
					return tree.Malformed("has a <fileSize> with a value that is no number of bytes: %.40q", c.Value)
				}
				one.When, one.Size = transfer.TriggerSize, n*sizeUnits[c.Units]
			case c.Comparison == "!=":
				one.When = transfer.TriggerNoExist
			}
			q.Triggers = append(q.Triggers, one)
		}
	}
	for _, p := range t.Set.Programs.all() {
		if p.command == nil {
			continue
		}
		program, err := p.command.Program()
		if err != nil {
			return err
		}
		if q.Programs == nil {
			q.Programs = &transfer.Programs{}
		}
		q.Programs.Set(p.at, program)
	}
	return nil
}

// A span is a range of exit codes, both ends included.
type span struct{ low, high int64 }

// codesOf parses a successRC: numbers, or ranges as <N, >N and !N, with & and | between them. & binds closer than |.
func codesOf(s string) (transfer.Codes, error) {
	if s == "" || s == "0" {
		return "", nil // the default of both
	}
	if len(s) > maxSuccessRC {
		return "", tree.Malformed("has a successRC of %d bytes; the limit is %d", len(s), maxSuccessRC)
	}
	var all []string
	for side := range strings.SplitSeq(s, "|") {
		both := []span{{0, maxCode}}
		for term := range strings.SplitSeq(side, "&") {
			spans, err := spansOf(strings.TrimSpace(term))
			if err != nil {
				return "", tree.Malformed("has a successRC that is malformed: %.80q", s)
			}
			both = overlaps(both, spans)
		}
		for _, one := range both {
			text := strconv.FormatInt(one.low, 10)
			if one.high > one.low {
				text += "-" + strconv.FormatInt(one.high, 10)
			}
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return "", tree.Malformed("has a successRC that no exit code meets: %.80q", s)
	}
	return transfer.Codes(strings.Join(all, ",")), nil
}

// spansOf parses one term of a successRC.
func spansOf(term string) ([]span, error) {
	digits := strings.TrimLeft(term, "<>!")
	parsed, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return nil, err
	}
	n := int64(parsed)
	below, above := span{0, n - 1}, span{n + 1, maxCode}
	var all []span
	switch term[:len(term)-len(digits)] {
	case "":
		return []span{{n, n}}, nil
	case "<":
		all = []span{below}
	case ">":
		all = []span{above}
	case "!":
		all = []span{below, above}
	default:
		return nil, strconv.ErrSyntax
	}
	if all = slices.DeleteFunc(all, func(one span) bool { return one.low > one.high }); len(all) == 0 {
		return nil, strconv.ErrRange
	}
	return all, nil
}

// overlaps returns the codes that are in both lists.
func overlaps(a, b []span) (all []span) {
	for _, x := range a {
		for _, y := range b {
			if one := (span{max(x.low, y.low), min(x.high, y.high)}); one.low <= one.high {
				all = append(all, one)
			}
		}
	}
	return all
}

// putAround writes the triggers and programs of a request. Parts without a form in XML, such as the time limit of a
// program, are lost: reading the document gives another request, and so Write refuses it.
func (t *Transfer) putAround(q *transfer.Request) {
	for _, one := range q.Triggers {
		c := TriggerCondition{Comparison: "=", Value: "exist", Files: one.Files}
		switch one.When {
		case transfer.TriggerSize:
			c = TriggerCondition{Size: true, Comparison: ">=", Files: one.Files}
			c.Value, c.Units = InUnits(one.Size)
		case transfer.TriggerNoExist:
			c.Comparison = "!="
		}
		if t.Trigger == nil {
			t.Trigger = &Trigger{Log: true}
		}
		t.Trigger.Conditions = append(t.Trigger.Conditions, c)
	}
	for _, to := range []struct {
		at      transfer.CallPoint
		command **Command
	}{{transfer.PreSource, &t.Set.Programs.PreSource}, {transfer.PostSource, &t.Set.Programs.PostSource}, {transfer.PreDest, &t.Set.Programs.PreDest}, {transfer.PostDest, &t.Set.Programs.PostDest}} {
		if q.Programs == nil {
			break
		}
		if p := q.Programs.At(to.at); p != nil {
			*to.command = &Command{Name: p.Name, Type: "executable", SuccessRC: successOf(p.Success),
				RetryCount: p.Retries, RetryWait: seconds(time.Duration(p.Pause)), Args: slices.Clone(p.Args)}
		}
	}
}

// successOf returns exit codes as a successRC.
func successOf(codes transfer.Codes) string {
	all := strings.Split(string(codes), ",")
	for n, one := range all {
		low, high, is := strings.Cut(one, "-")
		from, err := strconv.ParseInt(low, 10, 64)
		to, err2 := strconv.ParseInt(high, 10, 64)
		if !is || err != nil || err2 != nil {
			continue
		}
		above, below := ">"+strconv.FormatInt(from-1, 10), "<"+strconv.FormatInt(to+1, 10)
		switch {
		case from > 0 && to < maxCode:
			all[n] = above + "&" + below
		case from > 0:
			all[n] = above
		case to < maxCode:
			all[n] = below
		}
	}
	return strings.Join(all, "|")
}

// InUnits returns a number of bytes in the form of a fileSize: in the largest unit that divides it.
func InUnits(n int64) (value, unit string) {
	unit = "b"
	for _, larger := range []string{"kb", "mb", "gb"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, larger
	}
	return strconv.FormatInt(n, 10), unit
}
