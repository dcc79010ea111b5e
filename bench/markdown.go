package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Show formats the figure with digits digits after the point: the median, and the least and the greatest if there was
// more than one round.
func (f Figure) Show(digits int) string {
	show := func(v float64) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	if f.Rounds < 2 {
		return show(f.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", show(f.Median), show(f.Min), show(f.Max))
}

// show formats a cell of a column.
func (c Cell) show(col Column) string {
	if c.Figure == nil {
		return c.Text
	}
	s := c.Figure.Show(col.Digits)
	if c.Text != "" {
		s += " " + c.Text
	}
	return s
}

// heading returns a column's name with its unit.
func (c Column) heading() string {
	if c.Unit == "" {
		return c.Name
	}
	return c.Name + ", " + c.Unit
}

// Verdict returns the result of a bar in words.
func (b Bar) Verdict() string {
	switch {
	case b.Missing != "":
		return "not measured: " + b.Missing
	case b.Reached:
		return "passed, aim reached"
	case b.Passed:
		return "passed"
	}
	return "missed"
}

// Shown returns the bar's value for display.
func (b Bar) Shown() string {
	if b.Missing != "" {
		return "-"
	}
	return quantity(b.Value, b.Unit)
}

// Limits returns the bar's limit and aim, with the direction.
func (b Bar) Limits() (limit, aim string) {
	way := "at least "
	if b.AtMost {
		way = "at most "
	}
	return way + quantity(b.Limit, b.Unit), way + quantity(b.Aim, b.Unit)
}

func quantity(v float64, unit string) string {
	s := strconv.FormatFloat(v, 'g', 4, 64)
	if unit != "" {
		s += " " + unit
	}
	return s
}

// facts returns the lines about the place and the settings of a report.
func (r *Report) facts() [][2]string {
	h := r.Host
	f := [][2]string{
		{"started", r.Started.UTC().Format(time.RFC3339) + fmt.Sprintf(", took %.0f s", r.Seconds)},
		{"rounds", fmt.Sprintf("%d measured after %d of warm-up", r.Rounds, r.Warmups)},
		{"host", strings.TrimSpace(fmt.Sprintf("%s/%s %s", h.OS, h.Arch, h.Kernel))},
		{"processors", strings.TrimSpace(fmt.Sprintf("%d %s", h.Cores, h.CPU))},
		{"memory", fmt.Sprintf("%.1f GiB", float64(h.Memory)/(1<<30))},
		{"load before", fmt.Sprintf("%.2f", h.Load)},
		{"built with", h.Go},
		{"ferry", h.Version},
	}
	if r.Short {
		f = append(f, [2]string{"form", "short: a check that it works; its figures mean nothing"})
	}
	return f
}

// Markdown writes reports one after another.
func Markdown(reports []*Report) string {
	var b strings.Builder
	for _, r := range reports {
		fmt.Fprintf(&b, "## %s\n\n%s\n\n", plain(r.Scenario), plain(r.What))
		for _, f := range r.facts() {
			fmt.Fprintf(&b, "- %s: %s\n", f[0], plain(f[1]))
		}
		b.WriteString("\n")
		r.markdownBars(&b)
		for _, t := range r.Tables {
			t.markdown(&b)
		}
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "- %s\n", plain(n))
		}
		if len(r.Notes) > 0 {
			b.WriteString("\n")
		}
	}
	return b.String()
}

func (r *Report) markdownBars(b *strings.Builder) {
	if len(r.Bars) == 0 {
		return
	}
	b.WriteString("| bar | value | to pass | aim | verdict |\n|---|---|---|---|---|\n")
	for _, x := range r.Bars {
		limit, aim := x.Limits()
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", plain(x.Name), x.Shown(), limit, aim, plain(x.Verdict()))
	}
	b.WriteString("\n")
}

func (t *Table) markdown(b *strings.Builder) { t.write(b, "###") }

// write writes a table below a heading of a level.
func (t *Table) write(b *strings.Builder, level string) {
	fmt.Fprintf(b, "%s %s\n\n|", level, plain(t.Title))
	for _, c := range t.Columns {
		fmt.Fprintf(b, " %s |", plain(c.heading()))
	}

	b.WriteString("\n|" + strings.Repeat("---|", len(t.Columns)) + "\n")
	for _, row := range t.Rows {
		b.WriteString("|")
		for i, c := range row {
			fmt.Fprintf(b, " %s |", plain(c.show(t.Columns[i])))
		}
		b.WriteString("\n")
	}

	b.WriteString("\n")
	for _, n := range t.Notes {
		fmt.Fprintf(b, "- %s\n", plain(n))
	}

	if len(t.Notes) > 0 {
		b.WriteString("\n")
	}
}

// plain keeps text on one line and within its cell.
func plain(s string) string {
	return strings.NewReplacer("\n", " ", "\r", " ", "|", `\|`, "<", "&lt;").Replace(s)
}
