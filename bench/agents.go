package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ferry/bench/published"
	"ferry/internal/transfer"
)

// agentsScenario measures many agents at once.
func agentsScenario() Scenario {
	return Scenario{Name: "agents", Run: runAgents,
		What: "100 to 500 agents on one queue manager, half of them sources, each pair with one transfer of ten files; and thousands of idle agents."}
}

// agentsPerProcess is the number of agents that share a process, as IBM's shared a machine.
const agentsPerProcess = 50

// crowdMemory is each agent's limit of in-flight data: 500 agents share one host, which holds the copies, too.
const crowdMemory = "8M"

// crowdSpare is the memory in bytes that must stay free. A host with less slows to a standstill instead of failing.
const crowdSpare = 1 << 30

// crowdNice is the difference in niceness between the crowd and the goroutine that verifies and removes its copies.
// That work needs a tenth of the processor time, and would not get it among so many. 25 GB of copies fill the memory of
// most hosts.
const crowdNice = 10

// filesPerTransfer is the number of files that each pair moves.
const filesPerTransfer = 10

// A crowd is a run of the busy part of the scenario.
type crowd struct {
	env    *Env
	net    *Network
	counts []int            // of agents
	sets   map[int]*FileSet // by size in units
	dest   string
	rounds int // number of directories made so far
}

// crowdSizes are the sizes of files in MB.
var crowdSizes = []int{1, 10}

func runAgents(ctx context.Context, e *Env) (*Report, error) {
	r := &Report{}
	if err := runCrowd(ctx, e, r); err != nil {
		return nil, err
	}
	if err := runIdle(ctx, e, r); err != nil {
		return nil, err
	}
	return r, nil
}

func runCrowd(ctx context.Context, e *Env, r *Report) error {
	return withCrowd(ctx, e, func(c *crowd, series []Series) { c.report(series, r) })
}

// withCrowd measures all numbers of agents, and calls use with the series.
func withCrowd(ctx context.Context, e *Env, use func(*crowd, []Series)) error {
	dir, remove, err := e.Scratch("agents")
	if err != nil {
		return err
	}
	defer remove()

	c := &crowd{env: e, counts: []int{100, 200, 300, 400, 500}, sets: map[int]*FileSet{}, dest: filepath.Join(dir, "copies")}
	unit := int64(1 << 20)
	if e.Short {
		c.counts, unit = []int{4, 20}, 8<<10
	}

	source := filepath.Join(dir, "source")
	for _, size := range crowdSizes {
		if c.sets[size], err = MakeFiles(filepath.Join(source, fmt.Sprintf("files%d", size)), filesPerTransfer, int64(size)*unit, Random); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.dest, 0o755); err != nil {
		return unwritable(c.dest, err)
	}

	most := slices.Max(c.counts)
	cfg := NetworkConfig{Dir: filepath.Join(dir, "network"), Nice: crowdNice, Agents: append(group(RoleSource, most/2, agentsPerProcess, source), group(RoleDestination, most/2, agentsPerProcess, c.dest)...)}
	if c.net, err = e.StartNetwork(ctx, cfg); err != nil {
		return err
	}
	defer c.net.Close()

	series, err := e.Interleave(ctx, c.cases())
	if err != nil {
		return err
	}

	use(c, series)
	return nil
}

// group declares count agents of a role, with at most perProcess in a process.
func group(role Role, count, perProcess int, root string) (all []AgentConfig) {
	for i := 0; i < count; i += perProcess {
		a := AgentConfig{Role: role, Root: root, Flags: []string{"--memory", crowdMemory}}
		for k := i; k < min(count, i+perProcess); k++ {
			a.Names = append(a.Names, string(agentName(role, k)))
		}
		all = append(all, a)
	}
	return all
}

// agentName returns the name of the k-th agent of a role.
func agentName(role Role, k int) transfer.AgentName {
	letter := "S"
	if role == RoleDestination {
		letter = "D"
	}
	return transfer.AgentName(fmt.Sprintf("%s%05d", letter, k))
}

// Names of the additional figures of a sample with many agents, in seconds.
const (
	extraAverage = "average"
	extraLongest = "longest"
	extraQueued  = "queued" // number of transfers by the queue lane
)

func (c *crowd) cases() (all []Case) {
	for _, size := range crowdSizes {
		for _, n := range c.counts {
			all = append(all, Case{Name: fmt.Sprintf("%d agents, ten files of %d MB", n, size), Run: func(ctx context.Context) (Sample, error) {
				return c.run(ctx, n/2, c.sets[size])
			}})
		}
	}
	return all
}

// run makes pairs pairs of agents move the set, all at once.
func (c *crowd) run(ctx context.Context, pairs int, set *FileSet) (Sample, error) {
	c.rounds++
	round := fmt.Sprintf("round%d", c.rounds)
	w := &sweeper{set: set}
	var jobs []Job
	for k := range pairs {
		name := fmt.Sprintf("%s/%d", round, k)
		w.copies = append(w.copies, &swept{dir: filepath.Join(c.dest, name, set.Name()), seen: map[string]bool{}})
		jobs = append(jobs, Job{Source: agentName(RoleSource, k), Dest: agentName(RoleDestination, k), Durability: transfer.DurabilityProcess,
			Sources: []transfer.Path{transfer.Path(set.Name())}, To: transfer.Path(name + "/")})
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := w.start(cancel)
	s, err := c.net.Meter.Measure(func() (Sample, error) {
		var s Sample
		start := time.Now()
		done, err := c.net.Transfers(ctx, jobs, nil)
		s.Wall, s.Extra = time.Since(start), map[string]float64{}
		for _, d := range done {
			if d.Progress != nil {
				s.Bytes, s.Files, s.Lane = s.Bytes+d.Bytes, s.Files+d.Files, d.Lane
				if d.Lane == transfer.LaneQueue {
					s.Extra[extraQueued]++
				}
			}
			s.Extra[extraAverage] += d.Wall.Seconds() / float64(pairs)
			s.Extra[extraLongest] = max(s.Extra[extraLongest], d.Wall.Seconds())
		}
		return s, err
	})
	if e := stop(); e != nil {
		err = e // this error ended the transfers
	}
	if err == nil {
		err = w.complete()
	}

	if e := os.RemoveAll(filepath.Join(c.dest, round)); err == nil && e != nil {
		err = unwritable(c.dest, e)
	}
	return s, err
}

// A sweeper verifies and removes the copies of many transfers, file by file after their commit: all copies together
// would not fit in memory.
type sweeper struct {
	set    *FileSet
	copies []*swept
}

// A swept is the copy of one transfer.
type swept struct {
	dir  string
	seen map[string]bool // names of the set that are verified and removed
}

// sweepEvery is the interval between two sweeps over all copies.
const sweepEvery = 250 * time.Millisecond

// start sweeps until stop is called, which returns the first error. It calls failed with that error at once.
func (w *sweeper) start(failed func(error)) (stop func() error) {
	quit := make(chan struct{})
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(sweepEvery)
		defer t.Stop()
		for err == nil {
			select {
			case <-t.C:
				if err = w.sweep(); err != nil {
					failed(err)
				}
			case <-quit:
				return
			}
		}
	})
	return func() error {
		close(quit)
		wg.Wait()
		return err
	}
}

// enough returns an error if so little memory is free that the host would come to a standstill.
func enough(free int64) error {
	if free == 0 || free >= crowdSpare { // 0: unknown
		return nil
	}
	return transfer.Errorf(transfer.KindNoSpace, "%s of memory are left to this host, too few for so many agents and their copies", transfer.FormatBytes(free)).
		WithHint("choose a --dir on a disk, or a host with more memory")
}

// sweep processes the files committed so far.
func (w *sweeper) sweep() error {
	for _, c := range w.copies {
		if err := enough(memoryFree()); err != nil {
			return err
		}
		for _, name := range w.set.Names {
			path := filepath.Join(c.dir, name)
			if _, err := os.Lstat(path); c.seen[name] || err != nil {
				continue
			}
			if err := w.set.verify(path, name); err != nil {
				return err
			}
			if err := os.Remove(path); err != nil {
				return unwritable(path, err)
			}
			c.seen[name] = true
		}
	}
	return nil
}

// complete sweeps a last time, and returns an error if a file is missing.
func (w *sweeper) complete() error {
	if err := w.sweep(); err != nil {
		return err
	}
	for _, c := range w.copies {
		if len(c.seen) != len(w.set.Names) {
			return transfer.Errorf(transfer.KindDigest, "%d of %d files arrived in %s", len(c.seen), len(w.set.Names), c.dir)
		}
	}
	return nil
}

func (c *crowd) report(series []Series, r *Report) {
	average := map[int]map[int]Series{}
	i := 0
	for _, size := range crowdSizes {
		average[size] = map[int]Series{}
		t := Table{Title: fmt.Sprintf("Each pair one transfer of ten files of %d MB, all at once", size), Columns: []Column{
			{Name: "agents"}, {Name: "transfers"}, {Name: "moved", Unit: "MB"}, {Name: "average time of a transfer", Unit: "s", Digits: 2}, {Name: "longest", Unit: "s", Digits: 2},
			{Name: "by the queue lane"},
			{Name: "rate of all", Unit: "MB/s"}, {Name: "CPU queue manager", Unit: "s", Digits: 2}, {Name: "CPU coordination", Unit: "s", Digits: 2},
			{Name: "CPU sources", Unit: "s", Digits: 2}, {Name: "CPU destinations", Unit: "s", Digits: 2}, {Name: "peak queue manager", Unit: "MiB"},
			{Name: "peak of 50 agents", Unit: "MiB"}, {Name: "published average", Unit: "s", Digits: 2}, {Name: "published CPU, queue manager", Unit: "%", Digits: 1}, {Name: "published CPU, coordination", Unit: "%", Digits: 1}}}
		for _, n := range c.counts {
			s := series[i]
			i++
			average[size][n] = s
			row := []Cell{One(float64(n)), One(float64(n / 2)), Of(s.Figure(func(x Sample) float64 { return float64(x.Bytes) / 1e6 })),
				Of(s.Extra(extraAverage)), Of(s.Extra(extraLongest)), Of(s.Extra(extraQueued)), Of(s.Rate()), Of(s.CPU(RoleManager)), Of(s.CPU(RoleCoordination)), Of(s.CPU(RoleSource)), Of(s.CPU(RoleDestination)),
				Of(s.Peak(RoleManager)), Of(s.Figure(agentPeak))}
			t.Add(append(row, publishedAgents(n, size)...)...)
		}
		r.Tables = append(r.Tables, t)
	}

	r.Charts = append(r.Charts, c.chart(average))
	c.bars(average, r)
	r.Note("Every agent has a connection of its own, %d of them in each process, and %s for data in flight; all of the largest number run throughout, so that the numbers can be measured in turn.", agentsPerProcess, crowdMemory)
	r.Note("Sources share one set of files, which is only read. A copy is verified and removed file by file while the rest still moves, by the process that measures: that takes processor time from the transfers, and is not in any role's.")
	r.Note("The published times are of text mode on eleven machines, with files of the same sizes; its processors are not comparable, its growth with the number of agents is.")
}

// publishedAgents returns the cells of IBM's measurement with as many agents.
func publishedAgents(agents, fileMB int) []Cell {
	for _, p := range published.AgentRows() {
		if p.Agents == agents && p.FileMB == fileMB {
			return []Cell{One(p.AverageSeconds), One(p.Manager), One(p.Coordinator)}
		}
	}
	return []Cell{{}, {}, {}}
}

func (c *crowd) chart(average map[int]map[int]Series) Chart {
	chart := Chart{Title: "Average time of a transfer by number of agents", Kind: Lines, X: "agents", Y: "s"}
	for _, size := range crowdSizes {
		l := Line{Name: fmt.Sprintf("Ferry, ten files of %d MB", size)}
		p := Line{Name: fmt.Sprintf("published, ten files of %d MB", size)}
		for _, n := range c.counts {
			l.Points = append(l.Points, At(float64(n), average[size][n].Extra(extraAverage)))
			if cell := publishedAgents(n, size)[0]; cell.Figure != nil {
				p.Points = append(p.Points, At(float64(n), *cell.Figure))
			}
		}
		chart.Lines = append(chart.Lines, l, p)
	}
	return chart
}

func (c *crowd) bars(average map[int]map[int]Series, r *Report) {
	least, most := slices.Min(c.counts), slices.Max(c.counts)
	var peak float64
	for _, size := range crowdSizes {
		few, many := average[size][least], average[size][most]
		peak = max(peak, many.Figure(agentPeak).Max/float64(min(agentsPerProcess, most/2)))
		r.Bars = append(r.Bars,
			AtMost(fmt.Sprintf("average time of a transfer, %d agents over %d, ten files of %d MB", most, least, size), "",
				many.Extra(extraAverage).Median/few.Extra(extraAverage).Median, 5.5, 5.0),
			AtLeast(fmt.Sprintf("rate of all, %d agents over %d, ten files of %d MB", most, least, size), "", many.Rate().Median/few.Rate().Median, 1, 1))
	}
	r.Bars = append(r.Bars, AtMost("peak memory of a process of agents, by the number of its agents", "MiB", peak, 150, 80))
}
