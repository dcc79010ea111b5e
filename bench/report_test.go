package bench

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

func TestFigureIsMedianLeastAndMost(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Figure
	}{
		{nil, Figure{}},
		{[]float64{4}, Figure{4, 4, 4, 1}},
		{[]float64{9, 1, 5}, Figure{5, 1, 9, 3}},
		{[]float64{4, 1, 3, 2}, Figure{2.5, 1, 4, 4}},
	} {
		if got := NewFigure(c.values...); got != c.want {
			t.Errorf("NewFigure(%v) is %+v, not %+v", c.values, got, c.want)
		}
	}
	values := []float64{3, 1, 2}
	if NewFigure(values...); values[0] != 3 {
		t.Error("NewFigure has sorted its argument")
	}
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	values := []float64{50, 15, 40, 20, 35} // the usual example of the definition
	for p, want := range map[float64]float64{0: 15, 5: 15, 30: 20, 40: 20, 50: 35, 99: 50, 100: 50} {
		if got := Percentile(values, p); got != want {
			t.Errorf("percentile %v is %v, not %v", p, got, want)
		}
	}
	if Percentile(nil, 50) != 0 {
		t.Error("a percentile of nothing is not 0")
	}
}

func TestBarsHaveADirection(t *testing.T) {
	for _, c := range []struct {
		bar             Bar
		passed, reached bool
		verdict         string
	}{
		{AtLeast("x", "", 0.9, 1, 2), false, false, "missed"},
		{AtLeast("x", "", 1, 1, 2), true, false, "passed"},
		{AtLeast("x", "", 2, 1, 2), true, true, "passed, aim reached"},
		{AtMost("x", "", 21, 20, 5), false, false, "missed"},
		{AtMost("x", "", 20, 20, 5), true, false, "passed"},
		{AtMost("x", "", 5, 20, 5), true, true, "passed, aim reached"},
		{AtMost("x", "", 5, 20, 5).Lacking("it was not run"), false, false, "not measured: it was not run"},
	} {
		if c.bar.Passed != c.passed || c.bar.Reached != c.reached || c.bar.Verdict() != c.verdict {
			t.Errorf("%+v: %q", c.bar, c.bar.Verdict())
		}
	}
}

// hostile is a text that must not become markup anywhere.
const hostile = `<img src="http://elsewhere.example/x"> & "quoted" | 'it'`

func exampleReport() *Report {
	r := &Report{V: ReportVersion, Scenario: "example", What: "What " + hostile, Started: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Seconds: 12.5, Rounds: 3, Warmups: 1,
		Host: Host{OS: "linux", Arch: "amd64", Kernel: "6.1", CPU: hostile, Cores: 2, Memory: 1 << 30, Load: 0.5, Go: "go1.26", Version: "1.2.3"}}
	t := Table{Title: "Times " + hostile, Columns: []Column{{Name: "case"}, {Name: "time", Unit: "s", Digits: 2}}, Notes: []string{"note " + hostile}}
	t.Add(Text("%s", hostile), Of(NewFigure(1, 2, 4)))
	t.Add(Text("theirs"), One(7.125))
	t.Add(Text("not ours"), Text(NoCounterpart))
	r.Tables = []Table{t}
	r.Charts = []Chart{
		{Title: "lines " + hostile, Kind: Lines, X: "chunk " + hostile, Y: "MB/s", LogX: true, Lines: []Line{
			{Name: "a " + hostile, Points: []Point{At(64, NewFigure(1, 2, 3)), At(128, NewFigure(4))}}, {Name: "b", Points: []Point{{X: 64, Y: 9}}}}},
		{Title: "bars", Kind: Bars, X: "size", Y: "s", Categories: []string{"1 MB", hostile}, Lines: []Line{
			{Name: "c", Points: []Point{{X: 0, Y: 1}, {X: 1, Y: 2, Min: 1, Max: 3}}}}},
		{Title: "empty", Kind: Lines},
	}
	r.Bars = []Bar{AtLeast("rate "+hostile, "MB/s", 3, 2, 4), AtMost("ratio", "", 2, 1, 0.5), AtMost("other", "", 0, 1, 1).Lacking("no " + hostile)}
	r.Note("A note %s.", hostile)
	return r
}

func TestReportGoesThroughJSON(t *testing.T) {
	r := exampleReport()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadReport(data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r, back) {
		t.Errorf("the report came back as\n%+v, not\n%+v", back, r)
	}
}

func TestReportsThatCannotBeShownAreRefused(t *testing.T) {
	for name, break_ := range map[string]func(*Report){
		"later version": func(r *Report) { r.V++ },
		"no version":    func(r *Report) { r.V = 0 },
		"short row":     func(r *Report) { r.Tables[0].Rows[1] = r.Tables[0].Rows[1][:1] },
		"kind of chart": func(r *Report) { r.Charts[0].Kind = "pie" },
		"name":          func(r *Report) { r.Scenario = "../../x" },
		"below 0":       func(r *Report) { r.Charts[0].Lines[0].Points[0].X = -1 },
		"no number":     func(r *Report) { r.Charts[0].Lines[0].Points[0].Y = 1e300 },
	} {
		r := exampleReport()
		break_(r)
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadReport(data); err == nil {
			t.Errorf("%s: the report is taken", name)
		}
	}
	if _, err := ReadReport([]byte("{")); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("half an object: %v", err)
	}
}

// elsewhere matches markup that would make a page load external parts.
var elsewhere = regexp.MustCompile(`(?i)<(script|link|img|iframe|object|embed|base)\b|@import|url\(|<[a-z][^>]*\s(src|href|action)\s*=\s*["']?[^#"']`)

func TestPageNeedsNothingFromElsewhere(t *testing.T) {
	for _, bad := range []string{`<script>`, `<a href="http://x/">`, `<p style="background:url(x)">`, `<img src=x>`} {
		if !elsewhere.MatchString(bad) {
			t.Errorf("the check lets %s pass", bad)
		}
	}
	page, err := HTML([]*Report{exampleReport(), exampleReport()})
	if err != nil {
		t.Fatal(err)
	}
	if at := elsewhere.FindString(page); at != "" {
		t.Errorf("the page refers to something: %s", at)
	}
	for _, want := range []string{"<title>Ferry: measured</title>", "2.00 (1.00–4.00)", "7.12", NoCounterpart, "at least 2 MB/s", "at most 0.5", "missed", `class="absent"`} {
		if n := strings.Count(page, want); n == 0 {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, "<svg "); n != 6 {
		t.Errorf("the page has %d charts, not 6", n)
	}
}

func TestMarkdownHasEveryRow(t *testing.T) {
	text := Markdown([]*Report{exampleReport()})
	pipes := regexp.MustCompile(`(^|[^\\])\|`)
	rows := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		rows++
		if n := len(pipes.FindAllString(line, -1)); n != 3 && n != 6 { // a table of two columns, and the five of the bars
			t.Errorf("a row has %d bars between its cells: %s", n, line)
		}
	}
	if rows != 5+5 {
		t.Errorf("%d rows, not 10:\n%s", rows, text)
	}
	if strings.Contains(text, "<img") {
		t.Error("text has become markup")
	}
}

// elements counts the elements of an SVG, which must be valid XML.
func elements(t *testing.T, svg string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("the chart is not XML: %v\n%s", err, svg)
		}
		if e, ok := tok.(xml.StartElement); ok {
			n[e.Name.Local]++
		}
	}
}

func TestChartsDrawEveryPoint(t *testing.T) {
	r := exampleReport()
	drawn := func(n int) map[string]int {
		t.Helper()
		svg, err := r.Charts[n].SVG()
		if err != nil {
			t.Fatal(err)
		}
		return elements(t, svg)
	}
	empty := drawn(2)["path"]
	r.Charts[2].Lines = []Line{{Name: "without points"}}
	if n := drawn(2)["path"]; n != empty {
		t.Errorf("a line without points draws %d paths", n-empty)
	}
	all := drawn(0)["path"]
	r.Charts[0].Lines[0].Points[0].Max = 0
	if fewer := drawn(0)["path"]; fewer >= all {
		t.Errorf("the extremes of a point are not drawn: %d paths, and %d without", all, fewer)
	}
	more := drawn(1)["path"]
	r.Charts[1].Lines[0].Points = r.Charts[1].Lines[0].Points[:1]
	if fewer := drawn(1)["path"]; fewer >= more {
		t.Errorf("a bar is not drawn: %d paths with two bars, and %d with one", more, fewer)
	}
}

func FuzzReadReport(f *testing.F) {
	data, err := json.Marshal(exampleReport())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"v":1,"scenario":"x","charts":[{"kind":"bars","lines":[{"points":[{"x":1e308,"y":-1e308}]}]}]}`))
	f.Add([]byte(`{"v":1,"scenario":"x","charts":[{"kind":"lines","log_x":true,"lines":[{"points":[{"x":-1,"y":1e-300},{"x":5e-324,"y":0}]}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadReport(data)
		if err != nil {
			return
		}
		Markdown([]*Report{r})
		page, err := HTML([]*Report{r})
		if err != nil {
			t.Fatal(err)
		}
		if at := elsewhere.FindString(page); at != "" {
			t.Errorf("the page refers to something: %s", at)
		}
	})
}
