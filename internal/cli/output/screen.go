package output

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

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

// ranks are the columns of tables that a narrow screen does without, the first ones first.
var ranks = []string{"ALIASES", "MODE", "HOST", "UP SINCE", "TRANSFER", "RECEIVING", "WAITING", "SENDING", "JOB", "BYTES", "FILES", "SUBMITTED",
	"SIZE", "FAILED", "FROM", "TO", "DIGEST", "AGENT", "TIME"}

// Least widths: of a last column that is cut, and of the front part of a cut ID.
const (
	leastLast = 12
	shortID   = 12
)

var wholeID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Table writes rows with aligned columns. Text from other programs reaches the terminal without its control characters.
// On a narrow screen table leaves out columns by rank, cuts IDs to their ends, which commands accept for an ID, and
// cuts the last column.
func Table(w io.Writer, rows [][]string) { ScreenOf(w).Table(w, rows) }

// Table writes rows as the function Table does.
func (s Screen) Table(w io.Writer, rows [][]string) {
	for _, r := range rows {
		for i, c := range r {
			r[i] = s.Text(c)
		}
	}

	if len(rows) == 0 || rows[0][0] != strings.ToUpper(rows[0][0]) {
		s.Width = 0 // no columns with headings, but names and descriptions: the terminal wraps them
	}

	if s.Width > 0 {
		rows = s.fitted(rows)
	}

	widths := columnWidths(rows)
	for _, r := range rows {
		var line strings.Builder
		for i, c := range r {
			if room := s.Width - 1 - sum(widths, i); i == len(r)-1 && s.Width > 0 {
				c = Cut(c, max(room, 0))
			}
			line.WriteString(s.Paint(c))
			if i < len(r)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// columnWidths are the widths of the columns, in characters.
func columnWidths(rows [][]string) map[int]int {
	widths := map[int]int{}
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
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

// fits reports whether a table does, the last column cut if need be.
func (s Screen) fits(rows [][]string) bool {
	widths, last := columnWidths(rows), len(rows[0])-1
	return sum(widths, last)+min(widths[last], leastLast) < s.Width
}

// fitted is a table without the columns that a narrow screen does without.
func (s Screen) fitted(rows [][]string) [][]string {
	for _, name := range ranks {
		at := slices.Index(rows[0], name)
		if s.fits(rows) {
			return rows
		}
		if at < 0 || len(rows[0]) == 1 {
			continue
		}
		for n := range rows {
			rows[n] = slices.Delete(rows[n], at, at+1)
		}
	}

	if !s.fits(rows) {
		for _, r := range rows {
			for i, c := range r {
				if wholeID.MatchString(c) {
					r[i] = c[len(c)-shortID:]
				}
			}
		}
	}
	return rows
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
		if utf8.RuneCountInString(line) < s.Width || len(texts) < 2 {
			return Cut(line, max(s.Width-1, 1))
		}
		parts[worst].Text = ""
	}
}
