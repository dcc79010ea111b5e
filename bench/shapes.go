package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ferry/bench/published"
	"ferry/internal/transfer"
)

// shapesScenario compares shapes of a network, as the z/OS report compares channels, cluster channels
// and shared queues.
func shapesScenario() Scenario {
	return Scenario{Name: "shapes", Run: runShapes,
		What: "The queue lane in four shapes: one queue manager, two with a channel, a cluster of three; fast delivery, and stored delivery on queues of one queue manager and of a cluster."}
}

// A shape is a network of some queue managers.
type shape struct {
	name      string
	cluster   bool
	bindings  bool
	delivery  string
	published string // ID of the remark beside it; empty: none
}

var shapes = []shape{
	{name: "one queue manager, fast", delivery: transfer.DeliveryFast},
	{name: "sender and receiver channel, fast", bindings: true, delivery: transfer.DeliveryFast},
	{name: "cluster of three, fast", cluster: true, delivery: transfer.DeliveryFast},
	{name: "one queue manager, stored on private queues", delivery: transfer.DeliveryStored, published: "normal-private"},
	{name: "cluster of three, stored on replicated queues", cluster: true, delivery: transfer.DeliveryStored, published: "normal-shared"},
}

// shapeSizes are the sizes of files, in units of 1 MB.
var shapeSizes = []int{1, 10, 100}

// A shaping is a run of the scenario.
type shaping struct {
	sets   map[int]*FileSet
	at     map[string]int // number of the series, by shape, size, and whether ten at once
	series []Series
	r      *Report
}

func shapeKey(s shape, size int, ten bool) string {
	return fmt.Sprintf("%s, %s, %d MB files", s.name, transfersText(ten), size)
}

func runShapes(ctx context.Context, e *Env) (*Report, error) {
	dir, remove, err := e.Scratch("shapes")
	if err != nil {
		return nil, err
	}
	defer remove()
	unit, total, err := e.sizes()
	if err != nil {
		return nil, err
	}

	x := &shaping{sets: map[int]*FileSet{}, at: map[string]int{}, r: &Report{}}
	source := filepath.Join(dir, "source")
	for _, size := range shapeSizes {
		bytes := int64(size) * unit
		if x.sets[size], err = MakeFiles(filepath.Join(source, fmt.Sprintf("files%d", size)), int(total/bytes), bytes, Random); err != nil {
			return nil, err
		}
	}

	pairs := map[[2]bool]*Pair{}
	var cases []Case
	for _, s := range shapes {
		at := [2]bool{s.cluster, s.bindings}
		if pairs[at] == nil {
			p, err := e.StartPair(ctx, PairConfig{Dir: filepath.Join(dir, fmt.Sprintf("network%d", len(pairs))), SourceRoot: source, Lane: QueueLane, Bindings: s.bindings, Cluster: s.cluster})
			if err != nil {
				return nil, err
			}
			defer p.Close()
			pairs[at] = p
		}
		for _, ten := range []bool{false, true} {
			for _, size := range shapeSizes {
				if e.Short && (ten || size == 10) {
					continue
				}
				key := shapeKey(s, size, ten)
				x.at[key] = len(cases)
				cases = append(cases, pairs[at].Case(key, x.sets[size], Job{Checksum: "none", Durability: transfer.DurabilityProcess, Lane: transfer.LaneQueue, Delivery: s.delivery}, ten))
			}
		}
	}
	if x.series, err = e.Interleave(ctx, cases); err != nil {
		return nil, err
	}
	x.report()
	return x.r, nil
}

func (x *shaping) of(s shape, size int, ten bool) Series {
	if at, ok := x.at[shapeKey(s, size, ten)]; ok {
		return x.series[at]
	}
	return Series{Lacks: "not run in the short form"}
}

func (x *shaping) report() {
	for _, ten := range []bool{false, true} {
		t := Table{Title: "Shapes of a network, queue lane, binary, no checksum, " + transfersText(ten),
			Columns: []Column{{Name: "shape"}, {Name: "file", Unit: "MB"}, {Name: "time", Unit: "s", Digits: 3}, {Name: "rate", Unit: "MB/s"}, {Name: "of one queue manager, fast", Digits: 2}, {Name: "published", Digits: 2}}}
		c := Chart{Title: "Rate by shape and size of file, " + transfersText(ten), Kind: Bars, X: "size of each file", Y: "MB/s"}
		for _, size := range shapeSizes {
			c.Categories = append(c.Categories, fmt.Sprintf("%d MB", size))
		}
		for _, s := range shapes {
			l := Line{Name: s.name}
			for n, size := range shapeSizes {
				series := x.of(s, size, ten)
				part := Cell{}
				if fast := x.of(shapes[0], size, ten); series.Lacks == "" && fast.Lacks == "" && fast.Rate().Median > 0 {
					part = One(series.Rate().Median / fast.Rate().Median)
					l.Points = append(l.Points, At(float64(n), series.Rate()))
				}
				t.Add(Text("%s", s.name), One(float64(size)), series.Cell(series.Wall()), Of(series.Rate()), part, s.theirs())
			}
			if len(l.Points) > 0 {
				c.Lines = append(c.Lines, l)
			}
		}
		x.r.Tables = append(x.r.Tables, t)
		if len(c.Lines) > 0 {
			x.r.Charts = append(x.r.Charts, c)
		}
	}
	x.r.Note("The z/OS report's charts 1 to 13 are drawn without figures, so that nothing of them can stand beside these rates; of charts 25 and 26 its text gives how much less NPMSPEED(NORMAL) carried.")
	x.r.Note("Fast delivery is in memory; stored delivery goes to the disk of the queue manager, in a cluster to three disks of this one host, and is synced there by each. All processes share this host's processors: with two queue managers the data is copied twice.")
}

// theirs returns the part of the rate that the report measured with NPMSPEED(NORMAL).
func (s shape) theirs() Cell {
	r, ok := published.Lookup(s.published)
	if !ok {
		return Text("none")
	}
	return One(1 - r.Value/100)
}

// upTogether starts a network with a cluster of three queue managers. Agents connect to any of them.
func (n *Network) upTogether(ctx context.Context) error {
	const members = 3
	var listen, routes [members]string
	for k := range members {
		var err error
		if listen[k], err = FreePort(); err != nil {
			return err
		}
		if routes[k], err = FreePort(); err != nil {
			return err
		}
	}
	n.URL = "nats://" + listen[0]
	for k := range members {
		name := fmt.Sprintf("QM%d", k+1)
		args := []string{"up", "--name", name, "--listen", listen[k], "--dir", n.state(name), "--cluster", "BENCH", "--cluster-listen", routes[k], "--log-level", "warn"}
		for other := range members {
			if other != k {
				args = append(args, "--route", routes[other])
			}
		}
		if k > 0 {
			token, err := n.tokenSoon(ctx, name)
			if err != nil {
				return err
			}
			defer os.Remove(token)
			args = append(args, "--authority", "none", "--join", token)
		}
		if err := n.launch(name, RoleManager, "queue manager", 1, append(args, n.cfg.Manager...)); err != nil {
			return err
		}
	}
	if err := n.ready(ctx, n.procs...); err != nil {
		return err
	}
	if err := n.consent(ctx); err != nil {
		return err
	}
	for k, a := range n.cfg.Agents {
		urls := slices.Concat(listen[k%members:], listen[:k%members])
		args := append(append([]string{"agent", "run"}, a.Names...), "--network", "nats://"+strings.Join(urls, ",nats://"), "--dir", n.state(a.Names[0]), "--root", a.Root, "--log-level", "warn")
		if err := n.launch(a.Names[0], a.Role, "agent ", len(a.Names), append(args, a.Flags...)); err != nil {
			return err
		}
	}
	return n.ready(ctx, n.procs...)
}

// tokenSoon is token for a queue manager that was just started.
func (n *Network) tokenSoon(ctx context.Context, name string) (string, error) {
	for {
		token, err := n.token(ctx, name)
		if err == nil || ctx.Err() != nil {
			return token, err
		}
		if alive := n.Alive(); alive != nil {
			return "", alive
		}
	}
}
