package bench

import (
	"math"
	"testing"
	"time"
)

func TestCostReport(t *testing.T) {
	// 1,000 KB in a second with 200 ms of processor time at the source: 200 µs a KB.
	x := Sample{Wall: time.Second, Bytes: 1_000_000, CPU: map[Role]time.Duration{RoleSource: 200 * time.Millisecond}}
	r, err := costReport([]Series{{Case: "lane", Samples: []Sample{x, x, x}}, {Case: "other", Lacks: "not there"}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	r.Scenario = "cost"
	if err := r.check(); err != nil {
		t.Error(err)
	}
	row := r.Tables[1].Rows[0]
	for i, want := range map[int]float64{2: 200, 3: 200 / ((2.72 / 3) / (4.15 / 3)), 4: 10, 5: 500} {
		if row[i].Figure == nil || math.Abs(row[i].Figure.Median-want) > 1e-6 {
			t.Errorf("column %d has %+v; want %v", i, row[i], want)
		}
	}
	last := r.Tables[1].Rows[len(r.Tables[1].Rows)-1]
	if len(r.Tables[1].Rows) != len(FerryRoles)+1 || last[2].Text != "not there" {
		t.Errorf("a case that was not run is not shown as such: %+v", last)
	}
	for i, row := range r.Tables[0].Rows {
		if row[2].Figure != nil && math.Abs(row[1].Figure.Median-row[2].Figure.Median) > 0.005 {
			t.Errorf("row %d of the example: %v, printed %v", i, row[1].Figure.Median, row[2].Figure.Median)
		}
	}
}
