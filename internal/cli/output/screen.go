package output

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/term"
)

// A Screen has the known properties of the output's terminal.
type Screen struct {
	Width int  // columns; 0: it is no terminal, and text is not cut
	color bool // states are coloured
	ASCII bool // it shows ASCII alone
}

// ScreenOf returns the screen of an output; one without a width where that is no terminal.
func ScreenOf(w io.Writer) Screen {
	f := FileOf(w)
	if f == nil || !term.IsTerminal(int(f.Fd())) {
		return Screen{}
	}
	s := Screen{Width: 80, color: obeysSequences(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", ASCII: !unicodeLocale()}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		s.Width = w
	}
	return s
}

// unicodeLocale reports whether the environment says that text is UTF-8.
func unicodeLocale() bool {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return true
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// Text makes a line printable, and replaces the characters that the screen cannot show by '?'.
func (s Screen) Text(line string) string {
	line = Printable(line)
	if !s.ASCII {
		return line
	}
	return strings.Map(func(r rune) rune {
		if r > 0x7e {
			return '?'
		}
		return r
	}, line)
}

// colors are the colours of states: green is well, yellow waits or is in part, red is not well.
var colors = map[string]string{
	"successful": "32", "arrived": "32", "READY": "32", "ACTIVE": "32",
	"partial": "33", "waiting": "33", "parked": "33", "DEGRADED": "33", "skipped": "33", "STOPPING": "33",
	"failed": "31", "cancelled": "31", "withdrawn": "31", "UNREACHABLE": "31",
}

// Paint colours a state, if the screen has colours.
func (s Screen) Paint(word string) string {
	if c := colors[word]; s.color && c != "" {
		return "\x1b[" + c + "m" + word + "\x1b[0m"
	}
	return word
}

// cheap and dear are the columns of tables that a narrow screen does without, the first ones first. Paths are narrowed
// before the dear ones go.
var (
	cheap = []string{"ALIASES", "MODE", "HOST", "UP SINCE", "RECEIVING", "WAITING", "SENDING", "RENEWED FROM", "ISSUED", "TRIGGERS", "REFUSED", "LEADS",
		"BY", "CLUSTER", "CONNECTIONS", "SUCCESSFUL", "JOB", "OWNER", "DIGEST", "BYTES", "SIZE", "FILES", "SUBMITTED", "MADE", "VERSION", "NATS", "CONDITION", "MATCH", "LAST"}
	dear = []string{"FAILED", "TRANSFER", "FROM", "TO", "AGENT", "TIME"}
)

// paths are the columns that are narrowed: their text keeps its end.
var paths = []string{"FROM", "TO", "FILE", "PATH", "DIRECTORY", "URL", "IDENTITY", "FOR"}

// reasons are the last columns that are wrapped. Where they have no room, they go on lines of their own.
var reasons = []string{"REASON", "PROBLEM", "RULE", "DETAILS"}

// Least widths of columns, and of the last part of an ID.
const (
	leastLast   = 12 // the last column, which is cut
	leastPath   = 16
	leastReason = 30 // a wrapped column beside others
	indent      = 4  // of a reason on lines of its own
	shortID     = 8
)

var wholeID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Table writes rows with aligned columns. Text from other programs reaches the terminal without its control characters.
// On a narrow screen Table cuts IDs to their ends, which commands accept for an ID. Then it leaves out columns by rank and
// narrows paths. It wraps the last column if that has reasons, and cuts any other.
func Table(w io.Writer, rows [][]string) { ScreenOf(w).Table(w, rows) }

// Table writes rows as the function Table does.
func (s Screen) Table(w io.Writer, rows [][]string) {
	for _, r := range rows {
		for i, c := range r {
			r[i] = s.Text(c)
		}
	}

	headed := len(rows) > 0 && rows[0][0] == strings.ToUpper(rows[0][0])
	if s.Width > 0 && headed {
		rows = s.fitted(rows)
	}

	widths := columnWidths(rows)
	for n, r := range rows {
		var line strings.Builder
		for i, c := range r[:max(len(r)-1, 0)] {
			line.WriteString(s.Paint(c))
			line.WriteString(strings.Repeat(" ", widths[i]-Columns(c)+2))
		}
		if len(r) == 0 {
			fmt.Fprintln(w)
			continue
		}
		front, last := line.String(), r[len(r)-1]
		at := sum(widths, len(r)-1)
		switch room := s.Width - 1 - at; {
		case s.Width == 0, last == "", Columns(last) <= room:
			fmt.Fprintln(w, strings.TrimRight(front+s.Paint(last), " "))
		case !headed && room < leastReason: // the terminal wraps it
			fmt.Fprintln(w, front+last)
		case !headed:
			s.wrapped(w, front, at, Wrap(last, room, false))
		case slices.Contains(reasons, rows[0][len(r)-1]) && room >= leastReason:
			s.wrapped(w, front, at, Wrap(last, room, true))
		case slices.Contains(reasons, rows[0][len(r)-1]) && n > 0:
			fmt.Fprintln(w, strings.TrimRight(front, " "))
			s.wrapped(w, strings.Repeat(" ", indent), indent, Wrap(last, max(s.Width-1-indent, 1), true))
		case slices.Contains(paths, rows[0][len(r)-1]):
			fmt.Fprintln(w, strings.TrimRight(front+s.ending(last, max(room, 0)), " "))
		default:
			fmt.Fprintln(w, strings.TrimRight(front+s.Paint(Cut(last, max(room, 0))), " "))
		}
	}
}

// wrapped writes lines behind a front, the later ones beneath the first one.
func (s Screen) wrapped(w io.Writer, front string, at int, lines []string) {
	for _, l := range lines {
		fmt.Fprintln(w, front+l)
		front = strings.Repeat(" ", at)
	}
}

// columnWidths are the widths of the columns of a table.
func columnWidths(rows [][]string) map[int]int {
	widths := map[int]int{}
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], Columns(c))
		}
	}
	return widths
}

// sum is the width of the first n columns.
func sum(widths map[int]int, n int) (all int) {
	for i := range n {
		all += widths[i] + 2
	}
	return all
}

// excess returns by how many columns a table is too wide, with its last column wrapped or cut if need be.
func (s Screen) excess(rows [][]string) int {
	widths, last := columnWidths(rows), len(rows[0])-1
	if slices.Contains(reasons, rows[0][last]) {
		return sum(widths, last) - 1 - s.Width
	}
	return sum(widths, last) + min(widths[last], leastLast) + 1 - s.Width
}

// fitted is a table without the columns that a narrow screen does without.
func (s Screen) fitted(rows [][]string) [][]string {
	if widths := columnWidths(rows); sum(widths, len(rows[0])) <= s.Width {
		return rows
	}
	if last := len(rows[0]) - 1; last > 0 && slices.Contains(reasons, rows[0][last]) && columnWidths(rows[1:])[last] == 0 {
		rows = without(rows, last)
	}
	if s.excess(rows) <= 0 {
		return rows
	}
	shortenIDs(rows)
	rows = s.leaveOut(rows, cheap)
	s.narrow(rows)
	return s.leaveOut(rows, dear)
}

// leaveOut leaves out columns of these names until the table fits.
func (s Screen) leaveOut(rows [][]string, names []string) [][]string {
	for _, name := range names {
		if at := slices.Index(rows[0], name); at >= 0 && len(rows[0]) > 1 && s.excess(rows) > 0 {
			rows = without(rows, at)
		}
	}
	return rows
}

func without(rows [][]string, at int) [][]string {
	for n := range rows {
		if at < len(rows[n]) {
			rows[n] = slices.Delete(rows[n], at, at+1)
		}
	}
	return rows
}

// narrow narrows the columns of paths, the widest first, until the table fits or each has its least width.
func (s Screen) narrow(rows [][]string) {
	widths := columnWidths(rows)
	for left := s.excess(rows); left > 0; left-- {
		widest := -1
		for i := range len(rows[0]) - 1 {
			if slices.Contains(paths, rows[0][i]) && widths[i] > leastPath && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for _, r := range rows[1:] {
		for i, c := range r[:max(len(r)-1, 0)] {
			if slices.Contains(paths, rows[0][i]) {
				r[i] = s.ending(c, widths[i])
			}
		}
	}
}

// ending shortens a path to a number of columns. The agent and the end of the path stay.
func (s Screen) ending(path string, columns int) string {
	if Columns(path) <= columns {
		return path
	}
	gap := "…"
	if s.ASCII {
		gap = "~"
	}
	front := ""
	if agent, _, found := strings.Cut(path, ":"); found && Columns(agent)+1 <= columns/2 {
		front = agent + ":"
	}
	text := []rune(path)
	for len(text) > 0 && Columns(front)+1+Columns(string(text)) > columns {
		text = text[1:]
	}
	return front + gap + string(text)
}

// shortenIDs cuts IDs to their ends, as far as these tell the IDs of the table apart.
func shortenIDs(rows [][]string) {
	ids := map[string]bool{}
	for _, r := range rows {
		for _, c := range r {
			if wholeID.MatchString(c) {
				ids[c] = true
			}
		}
	}
	length := shortID
	for ; length < 36; length++ {
		ends := map[string]bool{}
		for id := range ids {
			ends[id[len(id)-length:]] = true
		}
		if len(ends) == len(ids) {
			break
		}
	}
	for _, r := range rows {
		for i, c := range r {
			if ids[c] {
				r[i] = c[len(c)-length:]
			}
		}
	}
}

// A Part is a piece of a line that is left out where there is no room; the least rank
// stays longest.
type Part struct {
	Text string
	Rank int
}

// Line joins the parts that a screen has room for.
func (s Screen) Line(parts []Part) string {
	for {
		var texts []string
		worst := -1
		for n, p := range parts {
			if p.Text == "" {
				continue
			}
			texts = append(texts, p.Text)
			if worst < 0 || p.Rank > parts[worst].Rank {
				worst = n
			}
		}
		line := s.Text(strings.Join(texts, "  "))
		if Columns(line) < s.Width || len(texts) < 2 {
			return Cut(line, max(s.Width-1, 1))
		}
		parts[worst].Text = ""
	}
}
