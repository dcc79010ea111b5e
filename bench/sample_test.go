package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/bench/published"
	"ferry/internal/transfer"
)

func TestRoundsAreInterleaved(t *testing.T) {
	var order []string
	run := func(name string) Case {
		n := 0
		return Case{Name: name, Run: func(context.Context) (Sample, error) {
			order = append(order, name)
			n++
			return Sample{Wall: time.Duration(n) * time.Second, Bytes: 8e6}, nil
		}}
	}
	cases := []Case{run("a"), {Name: "none", Lacks: "not available"}, run("b")}
	series, err := Interleave(t.Context(), 3, 1, cases, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(order) != 8 || order[0] == order[1] || order[0] != order[3] || order[1] != order[2] || order[4] == order[5] || order[4] != order[7] {
		t.Errorf("they ran in the order %v; each round has all of them, and every second one is the one before it backwards", order)
	}
	if w := series[0].Wall(); w != (Figure{3, 2, 4, 3}) {
		t.Errorf("the figure is %+v: the warm-up belongs to it, or a round does not", w)
	}
	if r := series[2].Rate(); r.Max != 4 || r.Min != 2 {
		t.Errorf("the rates are %+v", r)
	}
	if c := series[1].Cell(series[1].Wall()); series[1].Case != "none" || c.Text != "not available" || c.Figure != nil {
		t.Errorf("a case that was not run is shown as %+v", c)
	}
}

func TestAnErrorEndsTheRounds(t *testing.T) {
	runs := 0
	bad := Case{Name: "the bad case", Run: func(context.Context) (Sample, error) {
		runs++
		return Sample{}, transfer.Errorf(transfer.KindNoSpace, "there is no space")
	}}
	_, err := Interleave(t.Context(), 3, 0, []Case{bad}, nil)
	if runs != 1 || transfer.KindOf(err) != transfer.KindNoSpace || !strings.Contains(err.Error(), "the bad case: there is no space") {
		t.Errorf("%d runs, %v", runs, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := Interleave(ctx, 1, 0, []Case{bad}, nil); err == nil || err.Error() != "enough" || runs != 1 {
		t.Errorf("an ended run: %d runs, %v", runs, err)
	}
}

func TestFiguresByRole(t *testing.T) {
	s := Series{Samples: []Sample{
		{Wall: time.Second, Bytes: 2_000_000, CPU: map[Role]time.Duration{RoleSource: 500 * time.Millisecond, RoleManager: time.Second}, Peak: map[Role]int64{RoleSource: 20 << 20, RoleDestination: 30 << 20}},
		{Bytes: 0},
	}}
	if f := s.CPU(RoleSource); f.Max != 0.5 || f.Min != 0 {
		t.Errorf("CPU is %+v", f)
	}
	if f := s.CPUPerKB(RoleSource); f.Max != 250 {
		t.Errorf("CPU for each KB is %+v", f)
	}
	if f := costPerKB(s); f.Max != 750 {
		t.Errorf("CPU of all for each KB is %+v", f)
	}
	if b := peakBar([]Series{s}); b.Value != 30 || !b.Reached {
		t.Errorf("the bar of memory is %+v", b)
	}
	if b := peakBar(nil); b.Passed || b.Missing == "" {
		t.Errorf("a bar without a measurement is %+v", b)
	}
}

func TestRatioBarsNeedBothSides(t *testing.T) {
	one, two := Series{Samples: []Sample{{Wall: time.Second, Bytes: 1e6}}}, Series{Samples: []Sample{{Wall: 2 * time.Second, Bytes: 1e6}}}
	if b := ratioBar("x", two, one, 2, 1); b.Value != 2 || !b.Passed || b.Reached {
		t.Errorf("%+v", b)
	}
	more := Series{Samples: []Sample{{Wall: 2 * time.Second, Bytes: 2e6}}}
	if b := ratioBar("x", more, one, 1, 1); b.Value != 1 {
		t.Errorf("twice the bytes in twice the time: %+v", b)
	}
	for _, lacking := range []Series{{}, {Lacks: "not available"}} {
		if b := ratioBar("x", one, lacking, 2, 1); b.Passed || b.Missing == "" {
			t.Errorf("%+v", b)
		}
	}
}

func TestScenariosAreFoundByName(t *testing.T) {
	all := Scenarios()
	seen := map[string]bool{}
	for _, s := range all {
		if !scenarioName.MatchString(s.Name) || s.Name == "all" || seen[s.Name] || s.Run == nil || !strings.HasSuffix(s.What, ".") {
			t.Errorf("scenario %q is not well described: %q", s.Name, s.What)
		}
		seen[s.Name] = true
	}
	if found, err := Find([]string{"matrix", "latency"}); err != nil || len(found) != 2 || found[0].Name != "matrix" {
		t.Errorf("%v, %v", found, err)
	}
	if found, err := Find([]string{"all"}); err != nil || len(found) != len(all) {
		t.Errorf("all are %d of %d, %v", len(found), len(all), err)
	}
	_, err := Find([]string{"latecny"})
	if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), "did you mean latency?") {
		t.Errorf("a misspelt name: %v", err)
	}
}

func TestScenarioChecksWhatItNeeds(t *testing.T) {
	err := Scenario{Name: "x", Tools: []string{"no-such-program-of-this-name"}}.Check()
	if err == nil || transfer.KindOf(err).Code() != 1 || !strings.Contains(err.Error(), "no-such-program-of-this-name") {
		t.Errorf("a missing program: %v", err)
	}
	ran := false
	list := []Scenario{
		{Name: "first", Run: func(context.Context, *Env) (*Report, error) { ran = true; return &Report{}, nil }},
		{Name: "second", Tools: []string{"no-such-program-of-this-name"}},
	}
	if err := Run(t.Context(), &Env{}, list, func(*Report) error { return nil }); err == nil || ran {
		t.Errorf("the first scenario ran: %v, although the second cannot: %v", ran, err)
	}
}

func TestShortFormPassesNoBar(t *testing.T) {
	one := Scenario{Name: "one", What: "One.", Run: func(context.Context, *Env) (*Report, error) {
		return &Report{Bars: []Bar{AtLeast("x", "", 9, 1, 1)}}, nil
	}}
	for _, short := range []bool{false, true} {
		var got *Report
		e := &Env{Rounds: 3, Warmups: 1, Short: short, Version: "v"}
		if err := Run(t.Context(), e, []Scenario{one}, func(r *Report) error { got = r; return nil }); err != nil {
			t.Fatal(err)
		}
		if got.Bars[0].Passed == short || got.Scenario != "one" || got.What != "One." || got.Rounds != 3 || got.V != ReportVersion || got.Host.Version != "v" || got.Short != short {
			t.Errorf("short %v: %+v", short, got)
		}
	}
}

func TestTuningChoosesOnlyWhatIsWorthIt(t *testing.T) {
	s := &sweep{name: "chunk", values: []int{64, 256, 512}, normal: 256}
	at := func(size, value int, rate float64) trial {
		return trial{sweep: s, lane: QueueLane, size: size, value: value, series: Series{Samples: []Sample{{Wall: time.Second, Bytes: int64(rate * 1e6)}}}}
	}
	for _, c := range []struct {
		trials []trial
		choice string
		gain   float64
	}{
		{[]trial{at(1, 64, 50), at(1, 256, 99), at(1, 512, 100)}, "256", 0},
		{[]trial{at(1, 64, 50), at(1, 256, 80), at(1, 512, 100)}, "512", 25},
		{[]trial{at(1, 64, 100), at(1, 256, 50), at(100, 64, 200), at(100, 256, 400)}, "256", 0},
		{[]trial{at(1, 64, 100), at(1, 256, 50), at(100, 64, 390), at(100, 256, 400)}, "64", 31.67},
	} {
		tune := &tuning{trials: c.trials}
		row := tune.choose(s, QueueLane)
		if row[2].Text != c.choice || row[4].Figure == nil || fmt.Sprintf("%.2f", row[4].Figure.Median) != fmt.Sprintf("%.2f", c.gain) {
			t.Errorf("chose %s with a gain of %+v, not %s with %v", row[2].Text, row[4].Figure, c.choice, c.gain)
		}
	}
}

func TestTotalIsTheSameWithAllSizes(t *testing.T) {
	for _, c := range []struct {
		env         Env
		unit, total int64
	}{
		{Env{Total: 200 << 20}, 1 << 20, 200 << 20},
		{Env{Total: 399 << 20}, 1 << 20, 300 << 20},
		{Env{Total: 2 << 20, Short: true}, 10485, 2097000},
		{Env{Total: 1 << 20, Short: true}, 5242, 1048400},
	} {
		unit, total, err := c.env.sizes()
		if err != nil || unit != c.unit || total != c.total || total%(100*unit) != 0 {
			t.Errorf("%+v: %d in files of %d, %v", c.env, total, unit, err)
		}
	}
	if _, _, err := (&Env{Total: 99 << 20}).sizes(); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("99 MB have room for a file of 100 MB: %v", err)
	}
}

func TestTuningStandsBesideTheReport(t *testing.T) {
	for _, c := range claims {
		if _, ok := published.Lookup(c.id); !ok {
			t.Errorf("the report says nothing of %q", c.id)
		}
	}
	chunk, window, checkpoint := &sweep{name: "chunk"}, &sweep{name: "window"}, &sweep{name: "checkpoint"}
	at := func(s *sweep, size, value int, rate, cpu float64) trial {
		return trial{sweep: s, lane: QueueLane, size: size, value: value, series: Series{Samples: []Sample{{
			Wall: time.Second, Bytes: int64(rate * 1e6), CPU: map[Role]time.Duration{RoleSource: time.Duration(cpu * rate * 1e6)}}}}}
	}
	tune := &tuning{trials: []trial{at(chunk, 1, 256, 100, 1), at(chunk, 1, 512, 120, 1), at(window, 100, 10, 400, 1), at(window, 100, 20, 500, 1), at(window, 100, 40, 300, 1),
		at(checkpoint, 1, 1, 100, 6), at(checkpoint, 1, 8, 100, 4.5)}}
	want := map[string]float64{"chunk-512-small-files": 20, "window-best-large-files": 20, "checkpoint-8-small-files": 1.5, "rate-single": 500}
	for _, c := range claims {
		got, ok := c.of(tune, QueueLane)
		if v, there := want[c.id]; there != ok || there && fmt.Sprintf("%.3f", got) != fmt.Sprintf("%.3f", v) {
			t.Errorf("%s is %v, %v, not %v", c.id, got, ok, v)
		}
		if _, ok := c.of(tune, DirectPlain); ok {
			t.Errorf("%s: a lane that was not measured has a figure", c.id)
		}
	}
	if rows := tune.beside().Rows; len(rows) != len(claims) {
		t.Errorf("%d rows for %d statements", len(rows), len(claims))
	}
}

func TestBusyHostsAreNamed(t *testing.T) {
	for load, want := range map[float64]bool{0: false, 1.9: false, 2.1: true, 20: true} {
		if got := (Host{Cores: 4, Load: load}).busy(); got != want {
			t.Errorf("a load of %v on four processors: busy %v", load, got)
		}
	}
}
