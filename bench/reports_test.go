package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ferry/bench/published"
)

// shortDocument is the document without figures of Ferry, as Markdown.
func shortDocument(t *testing.T) (*Document, string) {
	t.Helper()
	dir := t.TempDir()
	doc := ShortDocument(Host{Cores: 2, Version: "test"}, time.Now())
	if err := WriteDocument(dir, doc); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, FileDocument))
	if err != nil {
		t.Fatal(err)
	}
	return doc, string(text)
}

// The short form has every table and chart of the reports, in their order, and is marked as not measured.
func TestShortDocumentHasEverything(t *testing.T) {
	doc, text := shortDocument(t)
	tables, charts, conclusions := doc.Tables()
	t.Logf("%d tables, %d charts, %d conclusions, %d bytes", tables, charts, conclusions, len(text))
	if doc.Measured || !strings.Contains(text, "**Not measured.**") {
		t.Error("it is not marked as not measured")
	}
	at := 0
	for _, want := range []string{
		"V7.0.1, 2009", "Table 1", "Table 2", "Table 3", "Table 4", "Table 5", "Table 6",
		"System z, 2009", "Chart 1:", "Chart 4:", "Chart 6:", "Chart 10:", "Chart 12:", "TCP buffers", "Chart 14:", "Charts 18 to 23", "BLKSIZE", "Chart 24:", "Chart 25:", "COMPMSG",
		"Chart 27:", "Chart 28:", "Chart 29:", "Chart 31:", "Chart 32:", "The worked example",
		"Windows, 2018", "2.1.1.1 ", "bindings mode", "Table 6", "2.2.5 Test summary",
		"number of agents, 2018", "2.1.1 100 agents", "2.1.10 500 agents", "3.1 ", "3.2 ",
		"Technote", "Nagle on",
	} {
		next := strings.Index(text[at:], want)
		if next < 0 {
			t.Fatalf("there is no %q behind %.60q", want, text[max(0, at-60):at])
		}
		at += next
	}
	for n := 1; n <= 24; n++ {
		if !strings.Contains(text, "Figure "+strconv.Itoa(n)+": ") {
			t.Errorf("there is no figure %d", n)
		}
	}
	for n := 1; n <= 33; n++ {
		if !strings.Contains(text, "Chart "+strconv.Itoa(n)+":") && (n < 18 || n > 23) {
			t.Errorf("there is no chart %d", n)
		}
	}
	for _, p := range doc.Parts {
		for _, c := range p.Chapters {
			for _, table := range c.Tables {
				if len(table.Rows) == 0 {
					t.Errorf("%s: table %q is empty", c.Title, table.Title)
				}
				for n, row := range table.Rows {
					if len(row) != len(table.Columns) {
						t.Errorf("%s: row %d of table %q has %d cells for %d columns", c.Title, n, table.Title, len(row), len(table.Columns))
					}
				}
			}
			for _, k := range c.Conclusions {
				if k.Verdict != NotMeasured || k.Statement == "" || k.Theirs == "" || k.Ours == "" {
					t.Errorf("%s: a conclusion without a measurement is %+v", c.Title, k)
				}
			}
		}
	}
}

// With a series for each work, no table, chart or conclusion is left without a measurement, but for those without a
// counterpart. So the document asks for all works that it shows.
func TestDocumentAsksForItsWorks(t *testing.T) {
	d := newDrafter(2)
	d.draft()
	works := len(d.wanted)
	t.Logf("%d works", works)
	for n, w := range d.wanted {
		rate := 100 + float64(n%7)
		s := Sample{Wall: time.Second, Bytes: int64(rate * 1e6), CPU: map[Role]time.Duration{RoleSource: 100 * time.Millisecond, RoleDestination: 200 * time.Millisecond, RoleManager: 50 * time.Millisecond, RoleCoordination: time.Millisecond}}
		d.measured[w] = Series{Case: w.name(), Samples: []Sample{s}}
	}
	for _, p := range published.AgentRows() {
		d.crowd[[2]int{p.Agents, p.FileMB}] = Series{Samples: []Sample{{Wall: time.Second, Bytes: 1e6, Extra: map[string]float64{extraAverage: float64(p.Agents)},
			CPU: map[Role]time.Duration{RoleManager: time.Second, RoleCoordination: time.Second / 10}}}}
	}
	for range stallSettings {
		d.stalls = append(d.stalls, Series{Samples: []Sample{{Extra: map[string]float64{extraP50: 1}}}})
	}
	doc := &Document{Measured: true, Parts: d.draft()}
	if len(d.wanted) != works {
		t.Errorf("the second draft asks for %d works, the first one for %d", len(d.wanted), works)
	}
	for _, p := range doc.Parts {
		for _, c := range p.Chapters {
			for _, k := range c.Conclusions {
				if k.Verdict == NotMeasured && k.Ours != NoCounterpart {
					t.Errorf("%s, %s: %+v", p.Title, c.Title, k)
				}
			}
			for _, chart := range c.Charts {
				if len(chart.Lines) == 0 {
					t.Errorf("%s, %s: chart %q has no line", p.Title, c.Title, chart.Title)
				}
			}
			for _, table := range c.Tables {
				for _, row := range table.Rows {
					for _, cell := range row {
						if cell.Text == NotMeasured {
							t.Errorf("%s, %s: table %q has a row without a measurement: %v", p.Title, c.Title, table.Title, row[0].Text)
						}
					}
				}
			}
		}
	}
	if err := WriteDocument(t.TempDir(), doc); err != nil {
		t.Error(err)
	}
}

// A verdict depends on the direction of an effect, and on its size.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		theirs, ours float64
		want         string
	}{
		{1.5, 1.5, Holds}, {1.5, 1.3, Holds}, {1.5, 1.1, HoldsNot}, {1.5, 1, HoldsNot}, {1.5, 0.97, HoldsNot}, {1.5, 0.9, Reversed},
		{0.5, 0.6, Holds}, {0.5, 0.9, HoldsNot}, {0.5, 1.2, Reversed},
		{1, 1.1, Holds}, {1, 0.9, Holds}, {1, 1.5, HoldsNot}, {1, 0.5, HoldsNot},
		{1.5, 0, NotMeasured},
	} {
		if got := verdict(c.theirs, c.ours); got != c.want {
			t.Errorf("there %v and here %v: %s, want %s", c.theirs, c.ours, got, c.want)
		}
	}
	rates := map[int]float64{64: 80, 128: 100, 256: 98, 512: 70}
	at := func(v int) float64 { return rates[v] }
	for theirs, want := range map[int]string{64: Holds, 128: Holds, 256: Holds, 512: HoldsNot} {
		if got := best("", "KiB", theirs, matrixChunks, at); got.Verdict != want {
			t.Errorf("the best value there is %d: %+v", theirs, got)
		}
	}
	if got := best("", "KiB", 64, matrixChunks, func(int) float64 { return 0 }); got.Verdict != NotMeasured {
		t.Errorf("without a measurement: %+v", got)
	}
}
