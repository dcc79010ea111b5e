package bench

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// took returns a series of one sample with 1 GB in the given seconds.
func took(name string, seconds float64) Series {
	return Series{Case: name, Samples: []Sample{{Wall: time.Duration(seconds * float64(time.Second)), Bytes: 1e9}}}
}

// exampleTextRun returns a run with text taking 1.5 times as long as binary.
func exampleTextRun(t *testing.T) *textRun {
	t.Helper()
	texts, err := MakeTexts(t.TempDir()+"/whole", 1, 1000, []Form{FormUTF8, FormEBCDIC}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &textRun{whole: texts}
	for _, lane := range textLanes {
		for _, c := range []struct {
			name    string
			seconds float64
		}{{caseBinary, 2}, {caseToUTF8, 3}, {caseToEBCDIC, 2.5}, {caseSame, 2.08}, {caseCRLF, 2.2}, {caseTwoBinary, 2}, {caseTwoText, 3}, {caseTwoAtOnce, 1.6}, {caseTurnBinary, 3}, {caseTurnText, 3.12}} {
			r.series = append(r.series, took(onLane(c.name, lane), c.seconds))
		}
	}
	r.series = append(r.series, took(ftpCases[0], 4), took(ftpCases[1], 2.4), took(converterCase(toUTF8), 0.5), took(converterCase(toEBCDIC), 1.25))
	return r
}

func TestTextBars(t *testing.T) {
	report := exampleTextRun(t).report(1000)
	report.Scenario = "text"
	if err := report.check(); err != nil {
		t.Fatal(err)
	}
	want := []struct {
		value  float64
		passed bool
	}{
		{1.5, false}, {1.25, true}, {1.04, true}, // queue lane: to UTF-8, to EBCDIC, without a change
		{1.5, true}, {1.25, true}, {1.04, true}, // direct lane
		{1.25, true}, {1.25, true}, // two at once
		{2000, true}, {800, false}, // the converter
		{0.8, false}, {0.8, false}, // FTP: the faster direction counts
		{0, false}, // memory
	}
	if len(report.Bars) != len(want) {
		t.Fatalf("%d bars, not %d", len(report.Bars), len(want))
	}
	for i, w := range want {
		if b := report.Bars[i]; b.Passed != w.passed || b.Value < w.value-0.001 || b.Value > w.value+0.001 {
			t.Errorf("%s: %v, %s; want %v", b.Name, b.Value, b.Verdict(), w.value)
		}
	}
	rows := report.Tables[0].Rows
	if len(rows) != len(textCases)+2 || rows[10][3].Figure.Median != 1.04 || rows[1][3].Figure.Median != 1.5 || rows[8][3].Figure.Median != 0.8 {
		t.Errorf("the table has %d rows: %+v", len(rows), rows[1])
	}
	if rows[4][1].Text != "it was not run" {
		t.Errorf("a case that was not run is shown as %+v", rows[4])
	}
}

// Without vsftpd or a lane its bars do not pass, and there is no substitute.
func TestTextBarsWithoutSomething(t *testing.T) {
	r := exampleTextRun(t)
	r.series = slices.DeleteFunc(r.series, func(s Series) bool {
		return strings.HasPrefix(s.Case, "vsftpd") || strings.HasSuffix(s.Case, DirectPlain.Name)
	})
	report := r.report(1000)
	for i, b := range report.Bars {
		lacking := i >= 3 && i <= 5 || i == 7 || i >= 10
		if lacking != (b.Missing != "") || lacking && b.Passed {
			t.Errorf("bar %d, %s: %s", i, b.Name, b.Verdict())
		}
	}
}

// Pages stand beside the reports if these have the same, and only then.
func TestTextStandsBesideTheReports(t *testing.T) {
	s := took("x", 10) // 100 MB/s
	at := cell{text: toUTF8, ten: true, size: 10, checksum: "none", lane: QueueLane, chunk: 512}
	row := publishedText(at, s)
	// 2.2.4.1 has 89.34 s, and 2.2.4.3 64.69 s of binary, both for 2,048 MB.
	if !close3(row[0], 2048/89.34) || !close3(row[1], 100/(2048/89.34)) || !close3(row[2], 89.34/64.69) || row[3].Figure == nil || row[4].Figure == nil {
		t.Errorf("%+v", row)
	}
	for _, other := range []cell{{text: toEBCDIC, size: 10, checksum: "none", lane: QueueLane, chunk: 512}, {text: toUTF8, size: 10, checksum: "none", lane: DirectPlain, chunk: 256}} {
		if row := publishedText(other, s); row[0].Text != "none" || row[3].Text != "none" {
			t.Errorf("%s stands beside %+v", other.name(), row)
		}
	}
	at.checksum = "xxh3"
	if row := publishedText(at, s); row[0].Text != "none" || row[2].Figure != nil || row[3].Figure == nil {
		t.Errorf("a checksum that the Windows report does not have stands beside %+v", row)
	}
	for _, short := range []bool{false, true} {
		seen := map[cell]bool{}
		for _, c := range matrixCells(short) {
			if seen[c] {
				t.Errorf("%s is there twice", c.name())
			}
			seen[c] = true
		}
	}
}

// close3 reports whether a cell's figure is a value, to about three digits.
func close3(c Cell, want float64) bool {
	return c.Figure != nil && c.Figure.Median > want*0.9995 && c.Figure.Median < want*1.0005
}

func TestRecordTables(t *testing.T) {
	r := &recordRun{unit: 1 << 20, total: 1000, sizes: []int{1, 10}}
	for _, route := range routes {
		for _, size := range r.sizes {
			for _, text := range []bool{false, true} {
				s := took("x", 2)
				s.Samples[0].CPU = map[Role]time.Duration{RoleSource: time.Second, RoleDestination: time.Second}
				if text {
					s = took("x", 5)
					s.Samples[0].CPU = map[Role]time.Duration{RoleSource: time.Second, RoleDestination: time.Duration(size+2) * time.Second}
				}
				r.trials = append(r.trials, &recordTrial{route: route, size: size, text: text, lane: QueueLane, series: s})
			}
		}
	}
	report := r.report()
	report.Scenario = "record"
	if err := report.check(); err != nil {
		t.Fatal(err)
	}
	rows := report.Tables[0].Rows
	if len(rows) != len(routes)*4 || rows[1][6].Figure.Median != 2.5 || rows[0][6].Figure != nil || rows[1][7].Figure.Median != 3 {
		t.Errorf("%d rows: %+v", len(rows), rows[1])
	}
	beside := report.Tables[2].Rows
	if len(beside) != len(recordClaims) {
		t.Fatalf("%d of %d claims stand in the table", len(beside), len(recordClaims))
	}
	last := beside[len(beside)-1]
	if f := last[3].Figure; f == nil || f.Min != 3 || f.Max != 12 || last[2].Text != "2 to 4" || last[4].Text != "not measured" {
		t.Errorf("%+v", last)
	}
}

// The copies of each route are compared with the expected effect of its pages and records.
func TestRoutesSayWhatArrives(t *testing.T) {
	for _, r := range routes {
		for _, text := range []bool{false, true} {
			j, becomes := r.job(text, QueueLane)
			if j.Lacks() != "" || text != (j.Mode == "text") {
				t.Errorf("%s: %q, mode %q", r.name, j.Lacks(), j.Mode)
			}
			if to := j.Content.ToRecords.IsZero(); to != strings.HasSuffix(r.name, " plain") {
				t.Errorf("%s: the request wants records: %v", r.name, !to)
			}
			if from := j.Content.FromRecords.IsZero(); from != strings.HasPrefix(r.name, "plain ") {
				t.Errorf("%s: the request has records: %v", r.name, !from)
			}
			same := becomes == r.from
			if want := r.fromPage == r.toPage || !text && !strings.Contains(r.name, "VB"); same != want {
				t.Errorf("%s, %s: %s becomes %s", r.name, dataText(text), r.from, becomes)
			}
		}
	}
}
