package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"ferry/internal/transfer"
)

// latencyScenario measures the time for one small file.
func latencyScenario() Scenario {
	return Scenario{Name: "latency", Run: runLatency,
		What: "One file of 1 KiB, from submission until it is known to be committed, one after another; and the time to start a process."}
}

// Names of the additional figures of a latency sample, in milliseconds.
const (
	extraP50 = "p50"
	extraP99 = "p99"
	extraMin = "min"
	extraMax = "max"
)

// smallFile is the size in bytes of the file for measurements of latency.
const smallFile = 1 << 10

// autoLane is the lane of a transfer that does not ask for one.
var autoLane = Lane{Name: "lane auto", Lane: transfer.LaneAuto}

// A latency is a run of the scenario.
type latency struct {
	env   *Env
	set   *FileSet
	dir   string
	times int // transfers in one measurement, by a submitter that stays connected
	runs  int // commands in one measurement
}

func runLatency(ctx context.Context, e *Env) (*Report, error) {
	dir, remove, err := e.Scratch("latency")
	if err != nil {
		return nil, err
	}
	defer remove()

	l := &latency{env: e, dir: dir, times: 200, runs: 15}
	if e.Short {
		l.times, l.runs = 10, 2
	}

	if l.set, err = MakeFiles(filepath.Join(dir, "source", "one"), 1, smallFile, Random); err != nil {
		return nil, err
	}

	memory, err := e.StartPair(ctx, PairConfig{Dir: filepath.Join(dir, "network"), SourceRoot: filepath.Dir(l.set.Dir)})
	if err != nil {
		return nil, err
	}
	defer memory.Close()

	cases := l.submitted(memory, "on memory", "")
	disk, closeDisk, err := l.onDisk(ctx)
	if err != nil {
		return nil, err
	}
	defer closeDisk()

	if disk != nil {
		cases = append(cases, l.submitted(disk, "on disk", "")...)
	} else {
		cases = append(cases, l.submitted(memory, "on disk", "not run: no --disk was given")...)
	}

	n := len(cases)
	series, err := e.Interleave(ctx, append(cases, l.commands(memory)...))
	if err != nil {
		return nil, err
	}
	return l.report(series[:n], series[n:]), nil
}

// onDisk starts a pair with ledgers, queues and copies on disk, if there is a directory for it.
func (l *latency) onDisk(ctx context.Context) (*Pair, func(), error) {
	if l.env.Disk == "" {
		return nil, func() {}, nil
	}

	dir, remove, err := l.env.ScratchOnDisk("latency")
	if err != nil {
		return nil, nil, err
	}

	p, err := l.env.StartPair(ctx, PairConfig{Dir: dir, SourceRoot: filepath.Dir(l.set.Dir)})
	if err != nil {
		remove()
		return nil, nil, err
	}
	return p, func() { p.Close(); remove() }, nil
}

// submitted returns the cases of a submitter that stays connected.
func (l *latency) submitted(p *Pair, where, lacks string) (all []Case) {
	for _, durability := range []string{transfer.DurabilityProcess, transfer.DurabilityFull} {
		for _, lane := range []Lane{autoLane, QueueLane, DirectTLS} {
			c := Case{Name: fmt.Sprintf("%s, durability %s, %s", lane.Name, durability, where), Lacks: lacks}
			if c.Lacks == "" {
				c.Lacks = lane.Lacks()
			}
			c.Run = func(ctx context.Context) (Sample, error) {
				return l.repeat(ctx, p, Job{Durability: durability, Lane: lane.Lane})
			}
			all = append(all, c)
		}
	}
	return all
}

// repeat moves the file several times, each time to a new name.
func (l *latency) repeat(ctx context.Context, p *Pair, j Job) (Sample, error) {
	j.Source, j.Dest = SourceAgent, DestAgent
	j.Sources = []transfer.Path{transfer.Path(l.set.Name() + "/" + l.set.Names[0])}
	p.copies++
	round := fmt.Sprintf("round%d", p.copies)
	times := make([]float64, 0, l.times)
	s, err := p.Meter.Measure(func() (Sample, error) {
		var s Sample
		for i := range l.times {
			j.To = transfer.Path(fmt.Sprintf("%s/%d", round, i))
			d, err := p.Transfer(ctx, j)
			if err != nil {
				return s, err
			}
			times = append(times, milliseconds(d.Wall))
			s.Bytes, s.Files, s.Lane = s.Bytes+d.Bytes, s.Files+d.Files, d.Lane
		}
		return s, nil
	})
	if err != nil {
		return s, err
	}

	s.Extra = spread(times)
	for i := range l.times {
		if err := l.set.verify(filepath.Join(p.DestRoot, round, fmt.Sprint(i)), l.set.Names[0]); err != nil {
			return s, err
		}
	}
	return s, os.RemoveAll(filepath.Join(p.DestRoot, round))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// spread returns the percentiles of some times.
func spread(times []float64) map[string]float64 {
	return map[string]float64{extraP50: Percentile(times, 50), extraP99: Percentile(times, 99),
		extraMin: Percentile(times, 0), extraMax: Percentile(times, 100)}
}

// commands returns the cases of a process for each file: the minimal process, a send over the network, and a send in
// one box.
func (l *latency) commands(p *Pair) []Case {
	source := filepath.Join(l.set.Dir, l.set.Names[0])
	return []Case{
		{Name: "ferry version (process start alone)", Run: l.each(func(ctx context.Context, _ string) (time.Duration, error) {
			c := exec.CommandContext(ctx, l.env.Ferry, "version")
			start := time.Now()
			err := c.Run()
			return time.Since(start), err
		}, false)},
		{Name: "ferry send, over the network", Run: l.each(func(ctx context.Context, to string) (time.Duration, error) {
			_, wall, err := p.Send(ctx, "--durability", transfer.DurabilityProcess, "SOURCE:"+source, "DEST:"+to)
			return wall, err
		}, true)},
		{Name: "ferry send, in one box", Run: l.each(func(ctx context.Context, to string) (time.Duration, error) {
			c := exec.CommandContext(ctx, l.env.Ferry, "send", "--json", "--durability", transfer.DurabilityProcess, source, to)
			c.Env = append(p.environment(), "XDG_STATE_HOME="+filepath.Join(l.dir, "onebox"))
			_, wall, err := runSend(c)
			return wall, err
		}, true)},
	}
}

// each runs a command several times, and measures every run. If it makes a copy, each run has a new name.
func (l *latency) each(run func(ctx context.Context, to string) (time.Duration, error), copies bool) func(context.Context) (Sample, error) {
	return func(ctx context.Context) (s Sample, err error) {
		dir, err := os.MkdirTemp(filepath.Join(l.dir, "network", "copies"), "command-")
		if err != nil {
			return s, unwritable(l.dir, err)
		}
		defer os.RemoveAll(dir)
		var times []float64
		start := time.Now()
		for i := range l.runs {
			to := filepath.Join(dir, fmt.Sprint(i))
			wall, err := run(ctx, to)
			if err != nil {
				return s, err
			}
			times = append(times, milliseconds(wall))
			if copies {
				if err := l.set.verify(to, l.set.Names[0]); err != nil {
					return s, err
				}
			}
		}
		s.Wall, s.Files, s.Extra = time.Since(start), int64(l.runs), spread(times)
		return s, nil
	}
}

func (l *latency) report(submitted, commands []Series) *Report {
	r := &Report{}
	times := []Column{{Name: "p50", Unit: "ms", Digits: 2}, {Name: "p99", Unit: "ms", Digits: 2}, {Name: "least", Unit: "ms", Digits: 2}, {Name: "most", Unit: "ms", Digits: 2}}
	t := Table{Title: fmt.Sprintf("One file of 1 KiB, submission to known end, %d in a row from one submitter that stays connected", l.times),
		Columns: append([]Column{{Name: "case"}, {Name: "lane taken"}}, times...)}
	for _, role := range FerryRoles {
		t.Columns = append(t.Columns, Column{Name: "CPU of the " + string(role), Unit: "ms/transfer", Digits: 2})
	}

	chart := Chart{Title: "One file of 1 KiB, submission to known end", Kind: Bars, X: "percentile", Y: "ms", Categories: []string{"p50", "p99"}}
	for _, s := range submitted {
		row := slices.Insert(timesOf(s), 1, Text("%s", taken(s)))
		for _, role := range FerryRoles {
			row = append(row, Of(s.Figure(func(x Sample) float64 { return milliseconds(x.CPU[role]) / float64(max(1, x.Files)) })))
		}
		t.Add(row...)
		if s.Lacks == "" {
			chart.Lines = append(chart.Lines, Line{Name: s.Case, Points: []Point{At(0, s.Extra(extraP50)), At(1, s.Extra(extraP99))}})
		}
	}

	c := Table{Title: fmt.Sprintf("The same with a process for each file, from its start to its exit, %d in a row", l.runs), Columns: append([]Column{{Name: "command"}}, times...)}
	for _, s := range commands {
		c.Add(timesOf(s)...)
	}

	r.Tables, r.Charts = []Table{t, c}, []Chart{chart}
	r.Bars = []Bar{AtMost("1 KiB file, submission to known end, durability process, p50", "ms", submitted[0].Extra(extraP50).Median, 20, 5), peakBar(submitted)}
	r.Note("The end is known to the submitter when the source agent has the destination's final outcome on record, which is later than the commit.")
	r.Note("A percentile is that of one round's transfers; the figure is the median of the rounds. CPU is counted by the kernel in hundredths of a second and divided by the transfers of a round.")
	r.Note("On memory a sync costs next to nothing, so durability full there shows the work, not the wait; on disk it shows both.")
	return r
}

// taken returns the lane of a series' transfers, or "" if none ran.
func taken(s Series) string {
	if len(s.Samples) == 0 {
		return ""
	}
	return s.Samples[len(s.Samples)-1].Lane
}

// timesOf returns the beginning of a row: a series' name and its percentiles.
func timesOf(s Series) []Cell {
	return []Cell{Text("%s", s.Case), s.Cell(s.Extra(extraP50)), Of(s.Extra(extraP99)), Of(s.Extra(extraMin)), Of(s.Extra(extraMax))}
}
