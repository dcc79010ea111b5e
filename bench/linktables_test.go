package bench

import (
	"strings"
	"testing"
	"time"
)

func TestGigabitBars(t *testing.T) {
	slow := ran("Ferry, direct lane, plain, MD5", 100)
	slow.Samples[0].Wall = 1030 * time.Millisecond
	all := []Series{
		ran("iperf3", 120), ran("Ferry, direct lane, plain", 119.4), {Case: "Ferry, direct lane, TLS", Lacks: "not available"}, ran("Ferry, queue lane", 108),
		ran("Ferry, direct lane, plain, no checksum", 100), slow, ran("Ferry, queue lane, no checksum", 100), ran("Ferry, queue lane, MD5", 100),
	}
	bars := gigabitBars(all)
	want := []struct {
		value           float64
		passed, reached bool
	}{{0.995, true, true}, {0, false, false}, {0.9, false, false}, {0, false, false}, {1.03, true, false}, {1, true, true}}
	for i, w := range want {
		b := bars[i]
		if d := b.Value - w.value; d > 1e-9 || d < -1e-9 || b.Passed != w.passed || b.Reached != w.reached || (w.value == 0) != (b.Missing != "") {
			t.Errorf("%+v; want %+v", b, w)
		}
	}
}

func TestPathBars(t *testing.T) {
	all := []Series{ran("iperf3", 12), ran("Ferry, direct lane, plain, self-found", 11.7), ran("Ferry, queue lane, self-found", 9), ran("Ferry, queue lane, fixed: 256 KiB x 10 x 5", 12)}
	bars := pathBars(200*time.Millisecond, all)
	if !bars[0].Reached || bars[1].Missing == "" || bars[2].Passed || bars[2].Value != 0.75 || !strings.Contains(bars[0].Name, "200ms") {
		t.Errorf("%+v", bars)
	}
}

func TestLinkTable(t *testing.T) {
	r := Report{Scenario: "link", Tables: []Table{linkTable("x", []Series{ran("iperf3", 120), ran("a", 60), {Case: "b", Lacks: "no"}})}}
	if err := r.check(); err != nil {
		t.Error(err)
	}
	rows := r.Tables[0].Rows
	if rows[1][3].Figure.Median != 0.5 || rows[2][3].Figure != nil || rows[2][1].Text != "no" {
		t.Errorf("%+v", rows)
	}
}
