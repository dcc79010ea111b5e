package output

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/width"

	"ferry/internal/place/location"
	"ferry/internal/transfer"
)

// Printable keeps a message on one line and in its order, because names may contain any character. Characters that end
// a line, or change the order of the text beside them, would show another name.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < ' ', 0x7f <= r && r < 0xa0, r == 0x2028, r == 0x2029, unicode.Is(unicode.Bidi_Control, r):
			return '?'
		}
		return r
	}, s)
}

// Columns returns the number of columns that a text takes on a terminal. A wide character takes two, a combining one none.
func Columns(s string) (n int) {
	for _, r := range s {
		n += columns(r)
	}
	return n
}

func columns(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// Cut shortens a line to n columns.
func Cut(s string, n int) string {
	for at, r := range s {
		if n -= columns(r); n < 0 {
			return s[:at]
		}
	}
	return s
}

// Wrap breaks a text at its blanks into lines of at most n columns. It breaks a longer word, if hard is set.
func Wrap(text string, n int, hard bool) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case Columns(line)+1+Columns(word) <= n:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
		for hard && Columns(line) > n {
			front := Cut(line, max(n, 2))
			lines, line = append(lines, front), line[len(front):]
		}
	}
	return append(lines, line)
}

// Failure describes a failed item. An outcome from the network may lack a reason.
func Failure(o *transfer.Outcome) string {
	if o.Err == nil {
		return o.Path.String()
	}
	return Printable(o.Err.Error())
}

// Plural returns a number with a noun in the right form.
func Plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Age describes the time since a heartbeat.
func Age(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(time.Second).String() + " ago"
}

// Or returns s, or d where s is empty.
func Or(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

// Stamp returns a time of this host; "-" stands for none.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// SettingsText describes the flow-control settings of a transfer.
func SettingsText(s transfer.Settings) string {
	if s.ChunkSize == 0 {
		return "-" // not negotiated yet
	}
	return fmt.Sprintf("%s, %d, %d, %d", transfer.FormatBytes(int64(s.ChunkSize)), s.WindowSize, s.FrameSize, s.CheckpointInterval)
}

// Words joins the words that a flag takes.
func Words[T ~string](all []T) string {
	text := make([]string, len(all))
	for n, w := range all {
		text[n] = string(w)
	}
	return strings.Join(text, ", ")
}

// Because is the reason of an error behind a word; empty without an error.
func Because(e *transfer.Error) string {
	if e == nil {
		return ""
	}
	return ": " + Printable(e.Error())
}

// Ended describes the end of an item in a word.
func Ended(o *transfer.Outcome) string {
	switch {
	case o.OK():
		return "arrived"
	case o.Skipped():
		return "skipped"
	}
	return "failed"
}

// At is a path at an agent.
func At(agent transfer.AgentName, p transfer.Path) string {
	if agent == "" {
		return p.String()
	}
	return string(agent) + ":" + p.String()
}

// Shown returns a location of a request in the form of the command line.
func Shown(l transfer.Location) string {
	return transfer.Path(location.Format(l)).String()
}

// ShownAt is shown with the agent.
func ShownAt(agent transfer.AgentName, l transfer.Location) string {
	if agent == "" {
		return Shown(l)
	}
	return string(agent) + ":" + Shown(l)
}

// Person returns a readable form of a principal's token.
func Person(token string) string {
	p, err := transfer.ParsePath(token)
	if err != nil || token == "" {
		return cmp.Or(token, "somebody")
	}
	return string(p)
}

// Submitter returns the user that has submitted a transfer: the principal, or without one the originator.
func Submitter(p *transfer.Progress) string {
	if p.Principal == "" {
		user, _, _ := strings.Cut(p.Originator, "@")
		return Or(user, "-")
	}
	return Person(p.Principal)
}

// Ends returns the names of both ends of a transfer. The pipe of a command has the name of its data.
func Ends(p *transfer.Progress) (from, to string) {
	from, to = string(p.Source), string(p.Destination)
	if p.Source.Stream() {
		from = "(stdin)"
	}
	if p.Destination.Stream() {
		to = "(stdout)"
	}
	return from, to
}

// RequestRows show the contents of a request.
func RequestRows(q *transfer.Request) (rows [][]string) {
	if q == nil {
		return nil
	}
	return append(SourceRows(q), []string{"destination", ShownAt(q.Destination, q.Dest)}, []string{"job", Printable(Or(q.Job, "-"))})
}

// SourceRows show the sources of a request.
func SourceRows(q *transfer.Request) (rows [][]string) {
	if q == nil {
		return nil
	}
	const named = 20
	for n := range q.Items[:min(len(q.Items), named)] {
		rows = append(rows, []string{"source", ShownAt(q.Source, q.Items[n].Source)})
	}
	if more := len(q.Items) - named; more > 0 {
		rows = append(rows, []string{"", "and " + Plural(int64(more), "source") + " more"})
	}
	return rows
}
