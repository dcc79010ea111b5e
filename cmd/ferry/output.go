package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"ferry/internal/transfer"
)

// printJSON writes one object on a line of stdout.
func printJSON(cmd *cobra.Command, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("internal error: output that cannot be written: " + err.Error())
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n", b)
}

// A view shows a transfer while it runs and when it has ended.
type view struct {
	cmd    *cobra.Command
	json   bool
	quiet  bool
	bar    bool // stderr is a terminal
	drawn  bool
	last   transfer.State
	reason string
	from   time.Time
	begun  int64 // bytes at from, for the rate
}

func newView(cmd *cobra.Command, asJSON, quiet bool) *view {
	v := &view{cmd: cmd, json: asJSON, quiet: quiet, from: time.Now()}
	if f, ok := cmd.ErrOrStderr().(*os.File); ok {
		v.bar = term.IsTerminal(int(f.Fd())) && !asJSON && !quiet
	}
	return v
}

// notice tells something on stderr, once in a row.
func (v *view) notice(format string, args ...any) {
	text := printable(fmt.Sprintf(format, args...))
	if v.quiet || text == v.reason {
		return
	}
	v.reason = text
	v.clear()
	fmt.Fprintf(v.cmd.ErrOrStderr(), "ferry: %s\n", text)
}

func (v *view) clear() {
	if v.drawn {
		fmt.Fprint(v.cmd.ErrOrStderr(), "\r\x1b[K")
		v.drawn = false
	}
}

// show takes a picture of the transfer.
func (v *view) show(p *transfer.Progress) {
	if v.json {
		if !v.quiet {
			printJSON(v.cmd, struct {
				MessageType string `json:"message_type"`
				*transfer.Progress
			}{"progress", p})
		}
		return
	}
	if p.Reason != nil && (p.State == transfer.Waiting || p.State == transfer.Parked) {
		place := ""
		if p.Place > 0 && p.Reason.Kind == transfer.KindBusy {
			place = fmt.Sprintf(" (place %d in its queue)", p.Place)
		}
		v.notice("%s: %s%s", p.State, p.Reason, place)
	} else if v.last == transfer.Waiting && p.State == transfer.Running {
		v.notice("running again")
	}
	v.last = p.State
	if v.bar && !p.State.Final() {
		v.draw(p)
	}
}

// draw writes the bar: files, bytes, rate, time left, current file.
func (v *view) draw(p *transfer.Progress) {
	width := 80
	if f, ok := v.cmd.ErrOrStderr().(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			width = w
		}
	}
	done := bytesSoFar(p)
	secs := time.Since(v.from).Seconds()
	rate := float64(done-v.begun) / max(secs, 0.001)
	line := fmt.Sprintf("%s %d", p.State, p.Files)
	if p.Walked {
		line += fmt.Sprintf("/%d", p.FilesTotal)
	}
	line += fmt.Sprintf(" files  %s", transfer.FormatBytes(done))
	if p.Walked && p.BytesTotal > 0 {
		part := float64(done) / float64(p.BytesTotal)
		line += fmt.Sprintf("/%s %s %3.0f%%", transfer.FormatBytes(p.BytesTotal), gauge(part, 16), 100*part)
		if rate > 0 && done < p.BytesTotal {
			line += "  ETA " + clockTime(float64(p.BytesTotal-done)/rate)
		}
	}
	if p.Compress != "" && p.Compress != transfer.CompressNone {
		line += fmt.Sprintf("  %s on the wire", transfer.FormatBytes(p.BytesWire))
	}
	line += fmt.Sprintf("  %s/s  %s", transfer.FormatBytes(int64(rate)), baseName(p.Current))
	fmt.Fprint(v.cmd.ErrOrStderr(), "\r\x1b[K"+cut(line, width-1))
	v.drawn = true
}

func gauge(part float64, n int) string {
	full := min(int(part*float64(n)), n)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", n-full) + "]"
}

func clockTime(secs float64) string {
	s := int(min(secs, 359999) + 0.5)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

func baseName(p transfer.Path) string {
	s := string(p)
	return transfer.Path(s[strings.LastIndexByte(s, '/')+1:]).String()
}

// cut shortens a line to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}

// finish writes the failures and the last line, and gives the result code.
func (v *view) finish(p *transfer.Progress) error {
	v.clear()
	s := p.Summary()
	if p.State == transfer.Parked {
		s.ResultCode = transfer.CodeParked
	}
	stderr := v.cmd.ErrOrStderr()
	if !v.quiet {
		for _, f := range p.Failures {
			fmt.Fprintf(stderr, "ferry: %s\n", failure(&f))
		}
		if more := p.FilesFailed - int64(len(p.Failures)); more > 0 {
			fmt.Fprintf(stderr, "ferry: %s more failed; `ferry audit show %s` names them\n", plural(more, "item"), p.ID)
		}
		if p.Skipped > 0 {
			fmt.Fprintf(stderr, "ferry: skipped %s\n", plural(p.Skipped, "symbolic link"))
		}
		if p.Warnings > 0 {
			fmt.Fprintf(stderr, "ferry: could not delete %s; `ferry audit show %s` names them\n", plural(p.Warnings, "source"), p.ID)
		}
	}
	if len(p.Failures) == 0 && p.Reason != nil && p.State != transfer.Successful {
		fmt.Fprintf(stderr, "ferry: %s\n", printable(p.Reason.Error()))
	}
	if v.json {
		printJSON(v.cmd, s)
	} else if !v.quiet {
		fmt.Fprintln(v.cmd.OutOrStdout(), printable(summaryLine(&s)))
	}
	if s.ResultCode != 0 {
		return exit(s.ResultCode)
	}
	return nil
}

func summaryLine(s *transfer.Summary) string {
	line := fmt.Sprintf("%s %s: %s, %s in %.2f s", s.ID, s.State, plural(s.Files, "file"), transfer.FormatBytes(s.Bytes), s.Seconds)
	if s.FilesFailed > 0 {
		line += fmt.Sprintf(", %d failed", s.FilesFailed)
	}
	if s.Lane != "" {
		line += ", " + s.Lane + " lane"
	}
	if s.Compress != "" && s.Compress != transfer.CompressNone {
		line += fmt.Sprintf(", %s on the wire (compression %s)", transfer.FormatBytes(s.BytesWire), s.Compress)
	}
	if s.Resumes > 0 {
		line += fmt.Sprintf(", resumed %s, %s sent again", plural(s.Resumes, "time"), transfer.FormatBytes(s.BytesResent))
	}
	return line
}

// failure is what is said of an item that failed. What comes over the network
// may lack a reason.
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

// table writes rows with aligned columns. What others wrote into a cell does not
// reach the terminal as more than text.
func table(w io.Writer, rows [][]string) {
	widths := map[int]int{}
	for _, r := range rows {
		for i, c := range r {
			c = printable(c)
			r[i] = c
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, r := range rows {
		var line strings.Builder
		for i, c := range r {
			line.WriteString(c)
			if i < len(r)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}
