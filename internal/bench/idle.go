package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// idlePerProcess is how many idle agents share a process.
const idlePerProcess = 500

// An idleCrowd is what a number of idle agents came to.
type idleCrowd struct {
	agents    int
	start     time.Duration // until all were ready
	watched   time.Duration
	manager   int64                  // bytes resident at the queue manager
	agentsRSS int64                  // and at all processes of agents
	cpu       map[Role]time.Duration // in the time watched
}

// runIdle measures thousands of agents with nothing to do.
func runIdle(ctx context.Context, e *Env, r *Report) error {
	counts, watch := []int{0, 2000, 10_000}, time.Minute
	if e.Short {
		counts, watch = []int{0, 20}, 500*time.Millisecond
	}
	t := Table{Title: "Idle agents on one queue manager", Columns: []Column{{Name: "agents"}, {Name: "until all are ready", Unit: "s", Digits: 1},
		{Name: "memory of the queue manager", Unit: "MiB"}, {Name: "there for each agent", Unit: "KiB"}, {Name: "memory of the agents' processes", Unit: "MiB"}, {Name: "of each agent", Unit: "KiB"},
		{Name: "CPU queue manager", Unit: "%", Digits: 2}, {Name: "CPU coordination", Unit: "%", Digits: 2}, {Name: "CPU agents", Unit: "%", Digits: 2}}}
	var none, last idleCrowd
	for _, n := range counts {
		if why := crowded(n, last); why != "" {
			t.Add(One(float64(n)), Text("not run: %s", why), Cell{}, Cell{}, Cell{}, Cell{}, Cell{}, Cell{}, Cell{})
			continue
		}
		c, err := idle(ctx, e, n, watch)
		if err != nil {
			return err
		}
		if n == 0 {
			none = c
		}
		last = c
		t.Add(c.row(none)...)
	}
	r.Tables = append(r.Tables, t)
	r.Note("Idle agents share processes of %d. Percentages are of one processor, over %s.", idlePerProcess, watch)
	return nil
}

func (c idleCrowd) row(none idleCrowd) []Cell {
	each := func(bytes int64) Cell {
		if c.agents == 0 {
			return Cell{}
		}
		return One(float64(bytes) / float64(c.agents) / 1024)
	}
	percent := func(r Role) Cell { return One(100 * c.cpu[r].Seconds() / c.watched.Seconds()) }
	return []Cell{One(float64(c.agents)), One(c.start.Seconds()), One(float64(c.manager) / (1 << 20)), each(c.manager - none.manager),
		One(float64(c.agentsRSS) / (1 << 20)), each(c.agentsRSS), percent(RoleManager), percent(RoleCoordination), percent(RoleSource)}
}

// Shares of what a host has that a crowd may take, and what an agent takes
// before any was measured.
const (
	filesPerAgent = 16 // descriptors: two connections, the ledger, locks, roots
	memoryShare   = 2  // one half
)

// crowded says why so many agents cannot be run here, reckoned from what the
// last number of them took.
func crowded(n int, last idleCrowd) string {
	limit, err := openFiles()
	if err != nil {
		return err.Error()
	}
	for _, x := range []struct {
		what string
		need int64
	}{{"the queue manager", int64(n) * 2}, {"a process of agents", min(int64(n), idlePerProcess) * filesPerAgent}} {
		if n > 0 && uint64(x.need) > limit {
			return fmt.Sprintf("%s would need %d open files, and the limit is %d", x.what, x.need, limit)
		}
	}
	free := memoryFree()
	if last.agents > 0 && free > 0 {
		if need := (last.manager + last.agentsRSS) / int64(last.agents) * int64(n); need > free/memoryShare {
			return fmt.Sprintf("they would take about %.1f GiB of memory, and half of what is free is %.1f GiB", float64(need)/(1<<30), float64(free/memoryShare)/(1<<30))
		}
	}
	return ""
}

// memoryFree is what Linux reckons could be had without swapping, in bytes; 0
// where it is not known.
func memoryFree() int64 {
	for line := range strings.Lines(proc("/proc/meminfo")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemAvailable:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// idle runs so many agents and watches them for a while.
func idle(ctx context.Context, e *Env, n int, watch time.Duration) (idleCrowd, error) {
	c := idleCrowd{agents: n}
	dir, remove, err := e.Scratch("idle")
	if err != nil {
		return c, err
	}
	defer remove()
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return c, unwritable(root, err)
	}
	start := time.Now()
	net, err := e.StartNetwork(ctx, NetworkConfig{Dir: filepath.Join(dir, "network"), Agents: group(RoleSource, n, idlePerProcess, root)})
	if err != nil {
		return c, err
	}
	defer net.Close()
	c.start = time.Since(start)
	s, err := net.Meter.Measure(func() (Sample, error) {
		t := time.NewTimer(watch)
		defer t.Stop()
		select {
		case <-t.C:
			return Sample{}, net.Alive()
		case <-ctx.Done():
			return Sample{}, context.Cause(ctx)
		}
	})
	if err != nil {
		return c, transfer.Errorf(transfer.KindOf(err), "%d idle agents: %w", n, err)
	}
	c.watched, c.cpu, c.manager = s.Wall, s.CPU, s.Peak[RoleManager]
	for _, pid := range net.Meter.Pids(RoleSource) {
		rss, err := peakRSS(pid)
		if err != nil {
			return c, err
		}
		c.agentsRSS += rss
	}
	e.Say("%d idle agents: ready after %.1f s, queue manager %.0f MiB", n, c.start.Seconds(), float64(c.manager)/(1<<20))
	return c, nil
}
