package bench

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// idlePerProcess is the number of idle agents that share a process.
const idlePerProcess = 500

// An idleCrowd has the figures of a number of idle agents.
type idleCrowd struct {
	agents    int
	start     time.Duration // until all were ready
	watched   time.Duration
	manager   int64                  // resident bytes of the queue manager
	agentsRSS int64                  // and of all processes of agents
	state     int64                  // bytes of all state directories
	cpu       map[Role]time.Duration // during the observation
}

// runIdle measures thousands of idle agents. Their ledgers are on disk if there is a directory for that: each takes
// some megabytes.
func runIdle(ctx context.Context, e *Env, r *Report) error {
	counts, watch := []int{0, 100, 2000, 10_000}, time.Minute
	if e.Short {
		counts, watch = []int{0, 20}, 500*time.Millisecond
	}

	t := Table{Title: "Idle agents on one queue manager", Columns: []Column{{Name: "agents"}, {Name: "until all are ready", Unit: "s", Digits: 1},
		{Name: "memory of the queue manager", Unit: "MiB"}, {Name: "there for each agent", Unit: "KiB"}, {Name: "memory of the agents' processes", Unit: "MiB"}, {Name: "of each agent", Unit: "KiB"}, {Name: "state directory of each agent", Unit: "KiB"},
		{Name: "CPU queue manager", Unit: "%", Digits: 2}, {Name: "CPU coordination", Unit: "%", Digits: 2}, {Name: "CPU agents", Unit: "%", Digits: 2}}}
	var none, last idleCrowd
	for _, n := range counts {
		if why := crowded(n, last, cmp.Or(e.Disk, e.Dir)); why != "" {
			t.Add(One(float64(n)), Text("not run: %s", why), Cell{}, Cell{}, Cell{}, Cell{}, Cell{}, Cell{}, Cell{}, Cell{})
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
		One(float64(c.agentsRSS) / (1 << 20)), each(c.agentsRSS), each(c.state), percent(RoleManager), percent(RoleCoordination), percent(RoleSource)}
}

// Limits for a crowd on a host. An agent's descriptors are two connections, its ledger and its lock. The queue manager
// has the other ends of the connections.
const (
	filesPerAgent = 6
	filesAtServer = 2
	filesBeside   = 100 // descriptors of any process beside these
	share         = 0.6 // of the free memory and space
)

// crowded returns the reason why n agents cannot run here, computed from the figures of the last number, or "". dir is
// the directory of their state.
func crowded(n int, last idleCrowd, dir string) string {
	limit, err := openFiles()
	if err != nil {
		return err.Error()
	}

	for _, x := range []struct {
		what string
		need int
	}{{"the queue manager", n*filesAtServer + filesBeside}, {"a process of agents", min(n, idlePerProcess)*filesPerAgent + filesBeside}} {
		if uint64(x.need) > limit {
			return fmt.Sprintf("%s would need %d open files, and the limit is %d", x.what, x.need, limit)
		}
	}

	if last.agents == 0 {
		return ""
	}

	free, err := space(dir)
	if err != nil {
		return err.Error()
	}

	each := func(bytes int64) float64 { return float64(bytes) / float64(last.agents) * float64(n) / (1 << 30) }
	for _, x := range []struct {
		what       string
		need, free float64
	}{{"of space in " + dir, each(last.state), float64(free) / (1 << 30)}, {"of memory", each(last.manager + last.agentsRSS), float64(memoryFree()) / (1 << 30)}} {
		if x.need > share*x.free {
			return fmt.Sprintf("they would take about %.1f GiB %s, and %.1f GiB are free", x.need, x.what, x.free)
		}
	}
	return ""
}

// memoryFree returns the memory available without swapping, by Linux's estimate, in bytes. It is 0 if unknown.
func memoryFree() int64 {
	for line := range strings.Lines(proc("/proc/meminfo")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemAvailable:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// idle runs n agents and watches them for a while.
func idle(ctx context.Context, e *Env, n int, watch time.Duration) (idleCrowd, error) {
	c := idleCrowd{agents: n}
	dir, remove, err := scratch(cmp.Or(e.Disk, e.Dir), "idle")
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

	if c.state, err = used(net.cfg.Dir); err != nil {
		return c, err
	}

	e.Say("%d idle agents: ready after %.1f s, queue manager %.0f MiB", n, c.start.Seconds(), float64(c.manager)/(1<<20))
	return c, nil
}

// used returns the bytes of the files beneath a directory.
func used(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		i, err := d.Info()
		if err == nil {
			sum += i.Size()
		}
		return err
	})
	return sum, err
}
