package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// measured runs the short form of a scenario and returns its report.
func measured(t *testing.T, e *Env, name string) *Report {
	t.Helper()
	list, err := Find([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	var got *Report
	if err := Run(t.Context(), e, list, func(r *Report) error { got = r; return nil }); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(e.Dir)
	if err != nil || len(left) != 0 {
		t.Errorf("%d entries are left in the working directory: %v", len(left), err)
	}
	return got
}

// TestScenariosRun runs scenarios that only need Ferry, at the smallest sizes. It checks their reports, and never their
// times. SCENARIOS=all runs all of them, as a step of .ci/run does. Without it the quickest ones run.
func TestScenariosRun(t *testing.T) {
	list := []string{"resume", "text", "record"}
	switch of := os.Getenv("SCENARIOS"); of {
	case "":
	case "all":
		list = append(list, "latency", "matrix", "agents", "tuning", "channel")
	default:
		t.Fatalf("SCENARIOS=%s is unknown; it is all or nothing", of)
	}
	for _, name := range list {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			if name == "latency" {
				e.Disk = t.TempDir()
			}
			r := measured(t, e, name)
			if name == "channel" {
				channelRan(t, r)
				return
			}
			if len(r.Tables) < 2 && name != "resume" || len(r.Charts) == 0 || len(r.Bars) == 0 || len(r.Notes) == 0 {
				t.Errorf("%d tables, %d charts, %d bars, %d notes", len(r.Tables), len(r.Charts), len(r.Bars), len(r.Notes))
			}
			for _, table := range r.Tables {
				if len(table.Rows) == 0 {
					t.Errorf("table %q is empty", table.Title)
				}
				if figures(table) == 0 && r.Scenario != "tuning" {
					t.Errorf("table %q has no figure", table.Title)
				}
			}
			for _, c := range r.Charts {
				if len(c.Lines) == 0 {
					t.Errorf("chart %q is empty", c.Title)
				}
			}
			written(t, r)
		})
	}
}

// TestDocumentIsMeasured measures a few works of the document in each shape of a network, at the smallest sizes.
func TestDocumentIsMeasured(t *testing.T) {
	t.Parallel()
	only := []string{"client, text, IBM-1047 to UTF-8, 1 MB files, 10 at once, none, chunk 64 KiB"}
	if os.Getenv("SCENARIOS") == "all" {
		only = append(only, "bindings, binary, 1 MB files, 1 at once, plain to FB 80", "cluster, binary, 10 MB files, 1 at once, none, stored", "client, binary, 10 MB files, 1 at once, compress auto",
			"bindings, binary, 10 MB files, 5 at once", "client, binary, 10 MB files, 1 at once, 1 processors")
	}
	for _, name := range only {
		doc, err := MakeDocument(t.Context(), newEnv(t), time.Minute, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		figures := 0
		for _, p := range doc.Parts {
			for _, c := range p.Chapters {
				for _, chart := range c.Charts {
					for _, l := range chart.Lines {
						if l.Name != "IBM" {
							figures += len(l.Points)
						}
					}
				}
				for _, table := range c.Tables {
					for _, row := range table.Rows {
						for n, cell := range row {
							if table.Columns[n].Name == "rate" && cell.Figure != nil {
								figures++
							}
						}
					}
				}
			}
		}
		if figures == 0 {
			t.Errorf("%s: the document has no figure of Ferry", name)
		}
		if err := WriteDocument(t.TempDir(), doc); err != nil {
			t.Error(err)
		}
	}
}

// TestBeforeRuns runs the scenario before with one program in both places.
func TestBeforeRuns(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.Before = e.Ferry
	r := measured(t, e, "before")
	if len(r.Tables) != 1 || len(r.Tables[0].Rows) != 8 || figures(r.Tables[0]) == 0 || len(r.Bars) != 4 {
		t.Errorf("%d tables and %d bars: %+v", len(r.Tables), len(r.Bars), r.Tables)
	}
	written(t, r)
}

// TestBeforeNeedsAProgram: without --before the error explains how to get one.
func TestBeforeNeedsAProgram(t *testing.T) {
	e := newEnv(t)
	if _, err := runBefore(t.Context(), e); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("%v", err)
	}
	e.Before = filepath.Join(t.TempDir(), "none")
	if _, err := runBefore(t.Context(), e); err == nil {
		t.Error("a program that is not there was measured")
	}
}

// figures returns the number of figures of a table.
func figures(t Table) (n int) {
	for _, row := range t.Rows {
		for _, c := range row {
			if c.Figure != nil {
				n++
			}
		}
	}
	return n
}

// written writes a report and reads it back.
func written(t *testing.T, r *Report) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	if err := Write(dir, []*Report{r}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{FileHTML, FileMarkdown, r.Scenario + "-01.svg"} {
		if i, err := os.Stat(filepath.Join(dir, name)); err != nil || i.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	back, err := ReadReports(filepath.Join(dir, FileJSON))
	if err != nil || len(back) != 1 {
		t.Fatalf("%d reports came back: %v", len(back), err)
	}
	a, _ := json.Marshal(r)
	b, _ := json.Marshal(back[0])
	if string(a) != string(b) {
		t.Error("the report came back changed")
	}
}
