package bench

import (
	"context"
	"path/filepath"
	"runtime"
	"time"

	"ferry/bench/published"
)

func costScenario() Scenario {
	return Scenario{
		Name: "cost",
		What: "The cost of a transfer in processor time, converted to another machine as the z/OS report does it.",
		Run:  runCost,
	}
}

// runCost measures the cost of a kilobyte on each lane, and converts it by the report's own ratio.
func runCost(ctx context.Context, e *Env) (*Report, error) {
	dir, remove, err := e.Scratch("cost")
	if err != nil {
		return nil, err
	}
	defer remove()

	set, err := MakeFiles(filepath.Join(dir, "sets", "files"), 2, e.Total/2, Random)
	if err != nil {
		return nil, err
	}

	var cases []Case
	for _, lane := range []Lane{QueueLane, DirectPlain, DirectTLS} {
		if why := lane.Lacks(); why != "" {
			cases = append(cases, Case{Name: lane.Name, Lacks: why})
			continue
		}
		pair, err := e.StartPair(ctx, PairConfig{Dir: filepath.Join(dir, lane.Name), SourceRoot: filepath.Dir(set.Dir), Lane: lane})
		if err != nil {
			return nil, err
		}
		defer pair.Close()
		cases = append(cases, pair.Case(lane.Name, set, Job{Lane: lane.Lane}, false))
	}

	all, err := e.Interleave(ctx, cases)
	if err != nil {
		return nil, err
	}
	return costReport(all, runtime.NumCPU())
}

// costReport shows the worked example, and the measured costs after the same arithmetic. processors is the number of
// this host's.
func costReport(all []Series, processors int) (*Report, error) {
	example, err := exampleTable()
	if err != nil {
		return nil, err
	}

	ratio, err := ProcessorRatio(Z9, Z10)
	if err != nil {
		return nil, err
	}

	t := Table{Title: "Processor time of a transfer, here and carried", Columns: []Column{
		{Name: "lane"}, {Name: "role"},
		{Name: "here", Unit: "µs/KB", Digits: 3},
		{Name: "on a machine with a processor that does 0.655 of this one's work", Unit: "µs/KB", Digits: 3},
		{Name: "this host busy while it ran", Unit: "%", Digits: 1},
		{Name: "to move 50 MB/s, this host busy", Unit: "%", Digits: 1},
	}}
	for _, s := range all {
		if s.Lacks != "" {
			t.Add(Text("%s", s.Case), Cell{}, Text("%s", s.Lacks), Cell{}, Cell{}, Cell{})
			continue
		}
		for _, role := range FerryRoles {
			cost := s.CPUPerKB(role)
			there := Figure{cost.Median / ratio, cost.Min / ratio, cost.Max / ratio, cost.Rounds}
			busy := s.Figure(func(x Sample) float64 {
				b, _ := Busy(x.CPU[role], x.Wall, processors)
				return b
			})
			// 50 MB are 50,000 KB.
			at50, err := Busy(time.Duration(cost.Median*50_000)*time.Microsecond, time.Second, processors)
			if err != nil {
				return nil, err
			}
			t.Add(Text("%s", s.Case), Text("%s", role), Of(cost), Of(there), Of(busy), One(at50))
		}
	}

	r := &Report{Tables: []Table{example, t}, Bars: []Bar{peakBar(all)}}
	r.Note("The ratio that carries the costs is that of the report's example, so that the arithmetic can be followed. For another machine, it is that machine's throughput for each processor over this one's, from whichever benchmark represents the work: IBM's table does not have this host.")
	r.Note("50 MB/s is the greatest rate that the report has for a single transfer on a network of 1 Gbit/s.")
	r.Note("A KB is 1,000 bytes. Processor time is user and system time of all processes of a role, and is counted by the kernel in hundredths of a second; the kernel's work for the network outside of any process is in none of them.")
	r.Note("Charts 18 to 23 of the report, about the zAAP, have no counterpart. It is a processor of System z for Java alone, and its use is not charged for. Ferry has no work that another kind of processor could take over.")
	return r, nil
}

// exampleTable returns the worked example of the report, computed again.
func exampleTable() (Table, error) {
	ratio, err := ProcessorRatio(Z9, Z10)
	if err != nil {
		return Table{}, err
	}

	carried, err := CarryCost(100, Z10, Z9)
	if err != nil {
		return Table{}, err
	}

	busy, err := Busy(640*time.Millisecond, time.Second, Z10.Processors)
	if err != nil {
		return Table{}, err
	}

	t := Table{Title: "The worked example of the z/OS report, page 47", Columns: []Column{
		{Name: "step"}, {Name: "reckoned", Digits: 4}, {Name: "printed", Digits: 3}}}
	printed := func(id string) Cell {
		p, ok := published.Lookup(id)
		if !ok {
			return Cell{}
		}
		return One(p.Value)
	}
	t.Add(Text("one processor of a %s: %v / %d", Z10.Name, Z10.ITR, Z10.Processors), One(Z10.PerProcessor()), One(1.383))
	t.Add(Text("one processor of a %s: %v / %d", Z9.Name, Z9.ITR, Z9.Processors), One(Z9.PerProcessor()), One(0.907))
	t.Add(Text("the second over the first"), One(ratio), printed("itr-ratio"))
	t.Add(Text("100 µs on the first, in µs on the second: 100 / %.3f", ratio), One(carried), Cell{})
	t.Add(Text("640 ms in a second on %d processors, percent busy", Z10.Processors), One(busy), printed("busy-example"))
	for _, m := range published.Misprints() {
		if m.Source == published.ZOS && m.Page == 47 {
			t.Notes = append(t.Notes, "The report prints \""+m.Printed+"\", meant is "+m.Meant+": "+m.Why+".")
		}
	}
	return t, nil
}
