package follow

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"ferry/internal/cli/output"
	"ferry/internal/client/view"
	"ferry/internal/transfer"
)

// A View shows a transfer while it runs and when it has ended.
type View struct {
	cmd    *cobra.Command
	json   bool
	Quiet  bool
	bar    bool // stderr is a terminal
	drawn  bool
	last   transfer.State
	reason string
	rate   meter
}

// A meter measures the rate of a transfer over its last seconds.
type meter struct {
	samples []sample
	last    float64 // the last rate; 0: none yet
}

// A sample is the number of bytes at a time.
type sample struct {
	at    time.Time
	bytes int64
}

// Times of a rate: the longest and the shortest that it is measured over.
const (
	rateOver  = 10 * time.Second
	rateLeast = time.Second
)

// take returns the bytes in a second at a time. While the transfer does not run, the rate stays as it was.
func (m *meter) take(p *transfer.Progress, now time.Time) float64 {
	bytes := p.BytesSoFar()
	if n := len(m.samples); p.State != transfer.Running || n > 0 && bytes < m.samples[n-1].bytes {
		m.samples = nil
	}
	if p.State != transfer.Running {
		return m.last
	}
	m.samples = append(m.samples, sample{now, bytes})
	for len(m.samples) > 2 && now.Sub(m.samples[1].at) >= rateOver {
		m.samples = m.samples[1:]
	}
	if first := m.samples[0]; now.Sub(first.at) >= rateLeast {
		m.last = float64(bytes-first.bytes) / now.Sub(first.at).Seconds()
	}
	return m.last
}

// NewView returns the view of a command; asJSON and quiet are its flags.
func NewView(cmd *cobra.Command, asJSON, quiet bool) *View {
	v := &View{cmd: cmd, json: asJSON, Quiet: quiet}
	if f := output.FileOf(cmd.ErrOrStderr()); f != nil {
		v.bar = term.IsTerminal(int(f.Fd())) && !asJSON && !quiet
	}
	return v
}

// Notice prints a message to stderr, unless it was the last one.
func (v *View) Notice(format string, args ...any) {
	text := output.Printable(fmt.Sprintf(format, args...))
	if v.Quiet || text == v.reason {
		return
	}
	v.reason = text
	v.Clear()
	fmt.Fprintf(v.cmd.ErrOrStderr(), "ferry: %s\n", text)
}

// Clear removes the bar from the screen.
func (v *View) Clear() {
	if v.drawn {
		fmt.Fprint(v.cmd.ErrOrStderr(), "\r\x1b[K")
		v.drawn = false
	}
}

// Show shows the progress of the transfer.
func (v *View) Show(p *transfer.Progress) {
	if v.json {
		if !v.Quiet {
			output.JSON(v.cmd, view.ProgressOf(p))
		}
		return
	}

	if p.Reason != nil && (p.State == transfer.Waiting || p.State == transfer.Parked) {
		place := ""
		if p.Place > 0 && p.Reason.Kind == transfer.KindBusy {
			place = fmt.Sprintf(" (place %d in its queue)", p.Place)
		}
		v.Notice("%s: %s%s", p.State, p.Reason, place)
	} else if v.last == transfer.Waiting && p.State == transfer.Running {
		v.Notice("running again")
	}

	v.last = p.State
	if v.bar && !p.State.Final() {
		v.draw(p)
	}
}

// draw writes the bar.
func (v *View) draw(p *transfer.Progress) {
	s := output.ScreenOf(v.cmd.ErrOrStderr())
	fmt.Fprint(v.cmd.ErrOrStderr(), "\r\x1b[K"+bar(s, p, v.rate.take(p, time.Now())))
	v.drawn = true
}

// doing is a state as a person would say it.
func doing(p *transfer.Progress) string {
	switch {
	case p.State == transfer.Settling:
		return "finishing"
	case p.State == transfer.Negotiating && p.Epoch > 0:
		return "recovering"
	case p.State == transfer.Negotiating:
		return "starting"
	}
	return string(p.State)
}

// bar returns one line about a running transfer: its phase, percent, time left, rate, bytes, files, the current file.
// On a narrow screen percent, rate and time left stay longest.
func bar(s output.Screen, p *transfer.Progress, rate float64) string {
	done := p.BytesSoFar()
	var meter, percent, eta, speed, wire, name string
	if rate > 0 && (p.State == transfer.Running || p.State == transfer.Settling) {
		speed = transfer.FormatBytes(int64(rate)) + "/s"
	}
	files, bytes := fmt.Sprintf("%d files", p.Files), transfer.FormatBytes(done)
	if p.Walked {
		files = fmt.Sprintf("%d/%d files", p.Files, p.FilesTotal)
	}

	if p.Walked && p.BytesTotal > 0 {
		part := float64(done) / float64(p.BytesTotal)
		meter, percent = gauge(part, 16), fmt.Sprintf("%3.0f%%", 100*part)
		bytes += "/" + transfer.FormatBytes(p.BytesTotal)
		if rate > 0 && done < p.BytesTotal {
			eta = "ETA " + clockTime(float64(p.BytesTotal-done)/rate)
		}
	}

	if p.Compress != "" && p.Compress != transfer.CompressNone {
		wire = transfer.FormatBytes(p.BytesWire) + " on the wire"
	}

	if p.Current != "" {
		name = baseName(p.Current)
	}

	state := output.Part{Text: doing(p), Rank: 5}
	if p.State != transfer.Running {
		state.Rank = 0
	}
	return s.Line([]output.Part{state, {Text: meter, Rank: 6}, {Text: percent, Rank: 0}, {Text: eta, Rank: 2}, {Text: speed, Rank: 1}, {Text: bytes, Rank: 3}, {Text: files, Rank: 4}, {Text: wire, Rank: 7}, {Text: output.Cut(name, 40), Rank: 8}})
}

// Left describes the rate of a transfer in its last seconds, and the time left at that rate; "": it is not known. While
// the transfer does not run, both stay as they were.
func Left(p *transfer.Progress) string {
	done := p.BytesSoFar()
	if p.State.Final() || p.Rate <= 0 {
		return ""
	}
	text := transfer.FormatBytes(p.Rate) + "/s"
	if p.Walked && done < p.BytesTotal {
		text += ", " + clockTime(float64(p.BytesTotal-done)/float64(p.Rate))
	}
	if p.State != transfer.Running && p.State != transfer.Settling {
		text += " once it runs again"
	}
	return text
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

// namedFailures is how many failed items Finish names.
const namedFailures = 20

// Finish writes the failures and the last line, and gives the result code.
func (v *View) Finish(p *transfer.Progress) error {
	v.Clear()
	s := p.Summary()
	if p.State == transfer.Parked {
		s.ResultCode = transfer.CodeParked
	}

	stderr := v.cmd.ErrOrStderr()
	named := p.Failures[:min(len(p.Failures), namedFailures)]
	for _, f := range named {
		fmt.Fprintf(stderr, "ferry: %s\n", output.Failure(&f))
	}

	if more := max(p.FilesFailed, int64(len(p.Failures))) - int64(len(named)); more > 0 {
		fmt.Fprintf(stderr, "ferry: %s more failed; `ferry audit show %s` names them\n", output.Plural(more, "item"), p.ID)
	}

	Warn(stderr, p.ID, &p.Counts)
	if !v.Quiet {
		if n := p.FilesSkipped - p.FilesReplaced; n > 0 {
			fmt.Fprintf(stderr, "ferry: skipped %s already at the destination\n", output.Plural(n, "file"))
		}
		if p.FilesReplaced > 0 {
			fmt.Fprintf(stderr, "ferry: left out %s, each replaced before it was read\n", output.Plural(p.FilesReplaced, "file"))
		}
		if p.LinksSkipped > 0 {
			fmt.Fprintf(stderr, "ferry: skipped %s\n", output.Plural(p.LinksSkipped, "symbolic link"))
		}
	}

	if len(p.Failures) == 0 && p.Reason != nil && p.State != transfer.Successful {
		fmt.Fprintf(stderr, "ferry: %s\n", output.Printable(p.Reason.Error()))
	}

	if v.json {
		output.JSON(v.cmd, s)
	} else if !v.Quiet {
		v.summary(p, &s)
	}

	if s.ResultCode != 0 {
		return output.Exit(s.ResultCode)
	}
	return nil
}

// Warn writes the part of a transfer's end that is neither a failure nor as it was asked for.
func Warn(w io.Writer, id transfer.ID, c *transfer.Counts) {
	if c.Warnings > 0 {
		fmt.Fprintf(w, "ferry: could not delete %s; `ferry audit show %s` says why\n", output.Plural(c.Warnings, "source"), id)
	}
	if c.TimesNotKept > 0 {
		fmt.Fprintf(w, "ferry: %s with a modification time before 1677 or after 2262 got the time of arrival; `ferry audit show %s` names them\n", output.Plural(c.TimesNotKept, "item"), id)
	}
}

// summary writes the last line.
func (v *View) summary(p *transfer.Progress, s *transfer.Summary) {
	out := v.cmd.OutOrStdout()
	on, word := output.ScreenOf(out), string(s.State)
	fmt.Fprintln(out, strings.Replace(on.Text(summaryLine(s, p)), word, on.Paint(word), 1))
}

// summaryLine is the end of a transfer in a sentence: with the file's name where there
// was one, and with the rate where the time is long enough to tell one.
func summaryLine(s *transfer.Summary, p *transfer.Progress) string {
	files := output.Plural(s.Files, "file")
	if s.Files == 1 && p.FilesTotal == 1 && p.Current != "" {
		files += " (" + baseName(p.Current) + ")"
	}

	line := fmt.Sprintf("%s %s: %s, %s in %.2f s", s.ID, s.State, files, transfer.FormatBytes(s.Bytes), s.Seconds)
	if s.Seconds >= 0.1 && s.Bytes > 0 {
		line += fmt.Sprintf(" (%s/s)", transfer.FormatBytes(int64(float64(s.Bytes)/s.Seconds)))
	}

	if s.FilesFailed > 0 {
		line += fmt.Sprintf(", %d failed", s.FilesFailed)
	}

	if n := s.FilesSkipped - s.FilesReplaced; n > 0 {
		line += fmt.Sprintf(", %d skipped", n)
	}

	if s.FilesReplaced > 0 {
		line += fmt.Sprintf(", %d replaced", s.FilesReplaced)
	}

	if s.FilesLeftOut > 0 {
		line += fmt.Sprintf(", %d left out", s.FilesLeftOut)
	}

	if s.Lane != "" {
		line += ", " + s.Lane + " lane"
	}

	if s.Compress != "" && s.Compress != transfer.CompressNone {
		line += fmt.Sprintf(", %s on the wire (compression %s)", transfer.FormatBytes(s.BytesWire), s.Compress)
	}

	if s.Resumes > 0 {
		line += fmt.Sprintf(", resumed %s, %s sent again", output.Plural(s.Resumes, "time"), transfer.FormatBytes(s.BytesResent))
	}
	return line
}
