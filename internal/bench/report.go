package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"ferry/internal/transfer"
)

// ReportVersion is the version of a report in JSON. Fields may be added; one
// that changes its meaning raises the version.
const ReportVersion = 1

// A Report is what one scenario found. Everything that is shown, in whichever
// form, is in it.
type Report struct {
	V        int       `json:"v"`
	Scenario string    `json:"scenario"`
	What     string    `json:"what"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"` // how long the scenario took
	Short    bool      `json:"short"`   // the short form: a check that it works, not a measurement
	Rounds   int       `json:"rounds"`
	Warmups  int       `json:"warmups"`
	Host     Host      `json:"host"`
	Tables   []Table   `json:"tables,omitempty"`
	Charts   []Chart   `json:"charts,omitempty"`
	Bars     []Bar     `json:"bars,omitempty"`
	Notes    []string  `json:"notes,omitempty"` // whole sentences
}

// Note adds a sentence that a reader of the figures must know.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Host is where a scenario ran.
type Host struct {
	OS      string  `json:"os"`
	Arch    string  `json:"arch"`
	Kernel  string  `json:"kernel,omitempty"`
	CPU     string  `json:"cpu,omitempty"` // the processor's own name for itself
	Cores   int     `json:"cores"`         // that this process may use
	Memory  int64   `json:"memory_bytes,omitempty"`
	Load    float64 `json:"load"` // mean number of runnable tasks in the minute before the run
	Go      string  `json:"go"`
	Version string  `json:"ferry"`
}

// A Figure is what several rounds of one measurement came to, in the unit of
// its column. All three are finite.
type Figure struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

// NewFigure is the figure of some values; the zero Figure of none. The median
// of an even number of values is the mean of the middle two.
func NewFigure(values ...float64) Figure {
	if len(values) == 0 {
		return Figure{}
	}
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Figure{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1], Rounds: n}
}

// Percentile is the value at or beneath which p percent of the values are, by
// the nearest rank; p goes from 0 to 100. It is 0 without values.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	k := int(math.Ceil(p / 100 * float64(len(v))))
	return v[min(max(k, 1), len(v))-1]
}

// A Cell is one place of a table: a figure, or text where there is none. The
// zero Cell is empty.
type Cell struct {
	Figure *Figure `json:"figure,omitempty"`
	Text   string  `json:"text,omitempty"`
}

// NoCounterpart is the text of a cell whose row IBM measured and Ferry cannot
// run yet.
const NoCounterpart = "no counterpart yet"

// Text is a cell without a figure.
func Text(format string, args ...any) Cell { return Cell{Text: fmt.Sprintf(format, args...)} }

// Of is a cell with a figure; a figure of no rounds is an empty cell.
func Of(f Figure) Cell {
	if f.Rounds == 0 {
		return Cell{}
	}
	return Cell{Figure: &f}
}

// One is a cell with a figure that was measured, or published, once.
func One(v float64) Cell { return Of(NewFigure(v)) }

// A Column is one column of a table. Digits are those after the point with
// which its figures are shown; JSON has all of them.
type Column struct {
	Name   string `json:"name"`
	Unit   string `json:"unit,omitempty"` // of its figures, such as "s" or "MB/s"
	Digits int    `json:"digits,omitempty"`
}

// A Table has rows of as many cells as it has columns.
type Table struct {
	Title   string   `json:"title"`
	Columns []Column `json:"columns"`
	Rows    [][]Cell `json:"rows"`
	Notes   []string `json:"notes,omitempty"`
}

// Add adds a row.
func (t *Table) Add(row ...Cell) { t.Rows = append(t.Rows, row) }

// Kinds of chart.
const (
	Lines = "lines" // points joined along a numeric X axis
	Bars  = "bars"  // one group of bars for each category
)

// A Chart is drawn from its lines. In a chart of bars, the point's X is the
// number of its category.
type Chart struct {
	Title      string   `json:"title"`
	Kind       string   `json:"kind"`
	X          string   `json:"x"` // what the axis shows, with its unit
	Y          string   `json:"y"`
	LogX       bool     `json:"log_x,omitempty"`
	Categories []string `json:"categories,omitempty"` // of bars
	Lines      []Line   `json:"lines"`
}

// A Line is one named series of a chart.
type Line struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
}

// A Point is one value of a chart, with the least and the greatest that was
// measured where there were several rounds (both 0 where there were not).
type Point struct {
	X   float64 `json:"x"`
	Y   float64 `json:"y"`
	Min float64 `json:"min,omitempty"`
	Max float64 `json:"max,omitempty"`
}

// At is the point of a figure.
func At(x float64, f Figure) Point { return Point{X: x, Y: f.Median, Min: f.Min, Max: f.Max} }

// A Bar is a value that must be at least, or at most, a limit to pass. Past the
// limit, it has an aim in the same direction.
type Bar struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit,omitempty"` // empty for a ratio
	Value   float64 `json:"value"`
	AtMost  bool    `json:"at_most,omitempty"` // the limit is the greatest value that passes, not the least
	Limit   float64 `json:"limit"`
	Aim     float64 `json:"aim"`
	Passed  bool    `json:"passed"`
	Reached bool    `json:"reached"`           // the aim
	Missing string  `json:"missing,omitempty"` // why there is no value; such a bar is not passed
}

// AtLeast is a bar that is passed from limit upwards.
func AtLeast(name, unit string, value, limit, aim float64) Bar {
	return Bar{Name: name, Unit: unit, Value: value, Limit: limit, Aim: aim, Passed: value >= limit, Reached: value >= aim}
}

// AtMost is a bar that is passed from limit downwards.
func AtMost(name, unit string, value, limit, aim float64) Bar {
	return Bar{Name: name, Unit: unit, Value: value, AtMost: true, Limit: limit, Aim: aim, Passed: value <= limit, Reached: value <= aim}
}

// Lacking is the bar without its value, and why.
func (b Bar) Lacking(why string) Bar {
	b.Value, b.Passed, b.Reached, b.Missing = 0, false, false, why
	return b
}

// maxReport bounds what ReadReport takes, in bytes.
const maxReport = 64 << 20

// ReadReport reads a report as JSON has it. One of a later version, or whose
// tables are not rectangular, is refused.
func ReadReport(data []byte) (*Report, error) {
	if len(data) > maxReport {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the report has %d bytes; the limit is %d", len(data), maxReport)
	}

	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the report is not JSON: %w", err)
	}

	if r.V < 1 || r.V > ReportVersion {
		return nil, transfer.Errorf(transfer.KindVersion, "the report has version %d; this is %d", r.V, ReportVersion).
			WithHint("read it with the Ferry that wrote it, or a later one")
	}

	if !scenarioName.MatchString(r.Scenario) {
		return nil, transfer.Errorf(transfer.KindUsage, "%.40q is no name of a scenario", r.Scenario)
	}
	return &r, r.check()
}

// scenarioName is what the name of a scenario looks like. A report that is read
// has one: it becomes part of the names of files.
var scenarioName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// check refuses a report that the renderers cannot show.
func (r *Report) check() error {
	for _, t := range r.Tables {
		for i, row := range t.Rows {
			if len(row) != len(t.Columns) {
				return transfer.Errorf(transfer.KindInternal, "row %d of table %q has %d cells for %d columns", i, t.Title, len(row), len(t.Columns))
			}
		}
	}

	for _, c := range r.Charts {
		if c.Kind != Lines && c.Kind != Bars {
			return transfer.Errorf(transfer.KindInternal, "chart %q is of kind %q; it is %s or %s", c.Title, c.Kind, Lines, Bars)
		}
		for _, l := range c.Lines {
			for _, q := range l.Points {
				if !drawable(q.X) || !drawable(q.Y) || !drawable(q.Min) || !drawable(q.Max) {
					return transfer.Errorf(transfer.KindInternal, "chart %q has the point %v; each value is 0, or from 1e-9 to 1e15", c.Title, q)
				}
			}
		}
	}
	return nil
}

// drawable reports whether an axis can show a value.
func drawable(v float64) bool { return v == 0 || 1e-9 <= v && v <= 1e15 }
