package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"ferry/internal/place/location"
	"ferry/internal/transfer"
)

// printable keeps a message on one line, because names may contain any character.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// cut shortens a line to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}

// failure describes a failed item. An outcome from the network may lack a reason.
func failure(o *transfer.Outcome) string {
	if o.Err == nil {
		return o.Path.String()
	}
	return printable(o.Err.Error())
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// age describes the time since a heartbeat.
func age(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(time.Second).String() + " ago"
}

func or(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

func settingsText(s transfer.Settings) string {
	if s.ChunkSize == 0 {
		return "-" // not negotiated yet
	}
	return fmt.Sprintf("%s, %d, %d, %d", transfer.FormatBytes(int64(s.ChunkSize)), s.WindowSize, s.FrameSize, s.CheckpointInterval)
}

func words[T ~string](all []T) string {
	text := make([]string, len(all))
	for n, w := range all {
		text[n] = string(w)
	}
	return strings.Join(text, ", ")
}

func because(e *transfer.Error) string {
	if e == nil {
		return ""
	}
	return ": " + printable(e.Error())
}

// ended describes the end of an item in a word.
func ended(o *transfer.Outcome) string {
	switch {
	case o.OK():
		return "arrived"
	case o.Skipped():
		return "skipped"
	}
	return "failed"
}

// at is a path at an agent.
func at(agent transfer.AgentName, p transfer.Path) string {
	if agent == "" {
		return p.String()
	}
	return string(agent) + ":" + p.String()
}

// shown returns a location of a request in the form of the command line.
func shown(l transfer.Location) string {
	return transfer.Path(location.Format(l)).String()
}

// shownAt is shown with the agent.
func shownAt(agent transfer.AgentName, l transfer.Location) string {
	if agent == "" {
		return shown(l)
	}
	return string(agent) + ":" + shown(l)
}

// person returns a readable form of a principal's token.
func person(token string) string {
	p, err := transfer.ParsePath(token)
	if err != nil || token == "" {
		return cmp.Or(token, "somebody")
	}
	return string(p)
}

// requestRows show the contents of a request.
func requestRows(q *transfer.Request) (rows [][]string) {
	if q == nil {
		return nil
	}
	return append(sourceRows(q), []string{"destination", shownAt(q.Destination, q.Dest)}, []string{"job", printable(or(q.Job, "-"))})
}

// sourceRows show the sources of a request.
func sourceRows(q *transfer.Request) (rows [][]string) {
	if q == nil {
		return nil
	}
	const named = 20
	for n := range q.Items[:min(len(q.Items), named)] {
		rows = append(rows, []string{"source", shownAt(q.Source, q.Items[n].Source)})
	}
	if more := len(q.Items) - named; more > 0 {
		rows = append(rows, []string{"", "and " + plural(int64(more), "source") + " more"})
	}
	return rows
}
