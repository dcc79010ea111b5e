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

// ReportVersion is the version of a report in JSON. Fields may be added. A change of a field's meaning raises the
// version.
const ReportVersion = 1

// A Report has the results of one scenario: all the data of every form of output.
type Report struct {
	V        int       `json:"v"`
	Scenario string    `json:"scenario"`
	What     string    `json:"what"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"` // duration of the scenario
	Short    bool      `json:"short"`   // the short form: a check that it works, not a measurement
	Rounds   int       `json:"rounds"`
	Warmups  int       `json:"warmups"`
	Host     Host      `json:"host"`
	Tables   []Table   `json:"tables,omitempty"`
	Charts   []Chart   `json:"charts,omitempty"`
	Bars     []Bar     `json:"bars,omitempty"`
	Notes    []string  `json:"notes,omitempty"` // whole sentences
}

// Note adds a sentence that readers of the figures must know.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// A Host describes the host of a scenario.
type Host struct {
	OS      string  `json:"os"`
	Arch    string  `json:"arch"`
	Kernel  string  `json:"kernel,omitempty"`
	CPU     string  `json:"cpu,omitempty"` // name that the processor reports
	Cores   int     `json:"cores"`         // number available to this process
	Memory  int64   `json:"memory_bytes,omitempty"`
	Load    float64 `json:"load"` // mean number of runnable tasks in the minute before the run
	Go      string  `json:"go"`
	Version string  `json:"ferry"`
}

// A Figure summarises several rounds of one measurement, in the unit of its column. All three values are finite.
type Figure struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

// NewFigure returns the figure of some values, or the zero Figure of none. The median of an even number of values is
// the mean of the middle two.
func NewFigure(values ...float64) Figure {
	if len(values) == 0 {
		return Figure{}
	}
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Figure{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1], Rounds: n}
}

// Percentile returns the least of the values that at least p percent of the values do not exceed, by the nearest rank.
// p is from 0 to 100. It returns 0 without values.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	k := int(math.Ceil(p / 100 * float64(len(v))))
	return v[min(max(k, 1), len(v))-1]
}

// A Cell is one cell of a table: a figure, or a text. The zero Cell is empty.
type Cell struct {
	Figure *Figure `json:"figure,omitempty"`
	Text   string  `json:"text,omitempty"`
}

// NoCounterpart is the text of a cell in a row that IBM measured and Ferry cannot run yet.
const NoCounterpart = "no counterpart yet"

// Text returns a cell with a text.
func Text(format string, args ...any) Cell { return Cell{Text: fmt.Sprintf(format, args...)} }

// Of returns a cell with a figure. A figure of no rounds gives an empty cell.
func Of(f Figure) Cell {
	if f.Rounds == 0 {
		return Cell{}
	}
	return Cell{Figure: &f}
}

// One returns a cell with a figure that was measured, or published, once.
func One(v float64) Cell { return Of(NewFigure(v)) }

// A Column is one column of a table. Its figures are displayed with Digits digits after the point; JSON has all of
// them.
type Column struct {
	Name   string `json:"name"`
	Unit   string `json:"unit,omitempty"` // of its figures, such as "s" or "MB/s"
	Digits int    `json:"digits,omitempty"`
}

// A Table has rows with one cell for each column.
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

// A Chart has one or more lines. In a chart of bars, the point's X is the number of its category.
type Chart struct {
	Title      string   `json:"title"`
	Kind       string   `json:"kind"`
	X          string   `json:"x"` // name of the axis, with its unit
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

// A Point is one value of a chart, with the least and the greatest measured value if there were several rounds.
// Otherwise both are 0.
type Point struct {
	X   float64 `json:"x"`
	Y   float64 `json:"y"`
	Min float64 `json:"min,omitempty"`
	Max float64 `json:"max,omitempty"`
}

// At returns the point of a figure.
func At(x float64, f Figure) Point { return Point{X: x, Y: f.Median, Min: f.Min, Max: f.Max} }

// A Bar is a value that must reach a limit to pass: at least, or at most. Beyond the limit it has an aim in the same
// direction.
type Bar struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit,omitempty"` // empty for a ratio
	Value   float64 `json:"value"`
	AtMost  bool    `json:"at_most,omitempty"` // the limit is the greatest value that passes, not the least
	Limit   float64 `json:"limit"`
	Aim     float64 `json:"aim"`
	Passed  bool    `json:"passed"`
	Reached bool    `json:"reached"`           // the aim is reached
	Missing string  `json:"missing,omitempty"` // reason why there is no value; such a bar does not pass
}

// AtLeast returns a bar that passes from limit upwards.
func AtLeast(name, unit string, value, limit, aim float64) Bar {
	return Bar{Name: name, Unit: unit, Value: value, Limit: limit, Aim: aim, Passed: value >= limit, Reached: value >= aim}
}

// AtMost returns a bar that passes from limit downwards.
func AtMost(name, unit string, value, limit, aim float64) Bar {
	return Bar{Name: name, Unit: unit, Value: value, AtMost: true, Limit: limit, Aim: aim, Passed: value <= limit, Reached: value <= aim}
}

// Lacking returns the bar without its value, with the reason.
func (b Bar) Lacking(why string) Bar {
	b.Value, b.Passed, b.Reached, b.Missing = 0, false, false, why
	return b
}

// maxReport bounds the input of ReadReport in bytes.
const maxReport = 64 << 20

// ReadReport reads a report from JSON. It refuses one of a later version, or with a table that is not rectangular.
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

// scenarioName matches the name of a scenario. A report that is read must have one, because it becomes part of the
// names of files.
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
