package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"ferry/internal/transfer"
)

// tuningScenario measures the effect of each setting.
func tuningScenario() Scenario {
	return Scenario{Name: "tuning", Run: runTuning,
		What: "The gain of each setting: chunk, window, frame and checkpoint, compression, transfers at once, processors; and the best settings here."}
}

// A sweep varies one setting and leaves the others at their defaults.
type sweep struct {
	name     string
	axis     string // title of a chart's X axis
	values   []int
	normal   int      // the default
	names    []string // names of the values, if they are not numbers
	log      bool     // a logarithmic axis
	sizes    []int    // of files, in MB
	content  string
	full     bool // durability full, if syncs matter
	set      func(j *Job, v int)
	text     bool // text mode, from UTF-8 to EBCDIC
	atOnce   bool // the value is the number of transfers
	confined bool // the value is the number of processors
}

// label returns a value for display.
func (s *sweep) label(v int) string {
	if s.names != nil {
		return s.names[v]
	}
	return fmt.Sprint(v)
}

var compressions = []string{"none", "fast", "high", "auto"}

// sweeps returns all sweeps.
func sweeps() []*sweep {
	d := transfer.DefaultSettings()
	sizes := []int{1, 10, 100}
	compress := func(j *Job, v int) { j.Compress = compressions[v] }
	return []*sweep{
		{name: "chunk", axis: "chunk size, KiB", values: []int{64, 128, 256, 512, 1024}, normal: d.ChunkSize >> 10, log: true, sizes: sizes,
			set: func(j *Job, v int) { j.Settings.ChunkSize = v << 10 }},
		{name: "window", axis: "window size, chunks", values: []int{1, 5, 10, 20, 40}, normal: d.WindowSize, log: true, sizes: sizes,
			set: func(j *Job, v int) { j.Settings.WindowSize = v }},
		{name: "frame", axis: "frame size, windows", values: []int{1, 2, 5, 10, 20}, normal: d.FrameSize, log: true, sizes: sizes,
			set: func(j *Job, v int) { j.Settings.FrameSize = v }},
		{name: "checkpoint", axis: "checkpoint interval, frames", values: []int{1, 2, 4, 8}, normal: d.CheckpointInterval, log: true, sizes: sizes, full: true,
			set: func(j *Job, v int) { j.Settings.CheckpointInterval = v }},
		{name: "compression of prose", axis: "compression", values: []int{0, 1, 2, 3}, names: compressions, sizes: []int{10}, content: Prose, set: compress},
		{name: "compression of random bytes", axis: "compression", values: []int{0, 1, 2, 3}, names: compressions, sizes: []int{10}, set: compress},
		{name: "transfers at once", axis: "transfers at once", values: []int{1, 2, 5, 10, 15, 20, 25}, normal: 1, sizes: []int{1, 10}, atOnce: true},
		{name: "transfers at once, text", axis: "transfers at once", values: []int{1, 2, 5, 10, 15, 20, 25}, normal: 1, sizes: []int{1, 10}, text: true, atOnce: true},
		{name: "processors", axis: "processors", values: processorCounts(), normal: runtime.NumCPU(), sizes: sizes, confined: true},
		{name: "processors, text", axis: "processors", values: processorCounts(), normal: runtime.NumCPU(), sizes: sizes, text: true, confined: true},
	}
}

// processorCounts returns 1, 2, 4 … up to the number of this host.
func processorCounts() (all []int) {
	for n := 1; n < runtime.NumCPU(); n *= 2 {
		all = append(all, n)
	}
	return append(all, runtime.NumCPU())
}

// A trial is one case of a sweep.
type trial struct {
	sweep  *sweep
	lane   Lane
	size   int
	value  int
	series Series
}

// A tuning is a run of the scenario.
type tuning struct {
	env    *Env
	dir    string
	unit   int64 // bytes of 1 MB
	total  int64 // of one measurement
	sets   map[string]*FileSet
	pairs  map[int]*Pair // by the number of processors; 0: all
	trials []trial
}

// tuningLanes are the lanes of the sweeps.
var tuningLanes = []Lane{QueueLane, DirectPlain}

func runTuning(ctx context.Context, e *Env) (*Report, error) {
	dir, remove, err := e.Scratch("tuning")
	if err != nil {
		return nil, err
	}
	defer remove()

	t := &tuning{env: e, dir: dir, sets: map[string]*FileSet{}, pairs: map[int]*Pair{}}
	if t.unit, t.total, err = e.sizes(); err != nil {
		return nil, err
	}

	defer func() {
		for _, p := range t.pairs {
			p.Close()
		}
	}()

	var cases []Case
	for _, s := range sweeps() {
		more, err := t.cases(ctx, s)
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}

	series, err := e.Interleave(ctx, cases)
	if err != nil {
		return nil, err
	}

	for i := range t.trials {
		t.trials[i].series = series[i]
	}
	return t.report(), nil
}

// cases returns the cases of one sweep. The short form has the least and the greatest value and the smallest files.
func (t *tuning) cases(ctx context.Context, s *sweep) (all []Case, err error) {
	values, sizes := s.values, s.sizes
	if t.env.Short {
		values, sizes = []int{values[0], values[len(values)-1]}, sizes[:1]
	}

	for _, lane := range tuningLanes {
		for _, size := range sizes {
			set, err := t.files(size, s)
			if err != nil {
				return nil, err
			}
			for _, v := range values {
				if s.atOnce && v > len(set.Names) {
					continue
				}
				c, err := t.one(ctx, s, lane, set, v)
				if err != nil {
					return nil, err
				}
				c.Name = fmt.Sprintf("%s %s, %d MB files, %s", s.name, s.label(v), size, lane.Name)
				t.trials = append(t.trials, trial{sweep: s, lane: lane, size: size, value: v})
				all = append(all, c)
			}
		}
	}
	return all, nil
}

func (t *tuning) one(ctx context.Context, s *sweep, lane Lane, set *FileSet, v int) (Case, error) {
	j := Job{Durability: transfer.DurabilityProcess, Lane: lane.Lane}
	if s.full {
		j.Durability = transfer.DurabilityFull
	}

	if s.set != nil {
		s.set(&j, v)
	}

	if s.text {
		j = j.AsText(pageUTF8, pageEBCDIC)
	}

	processors := 0
	if s.confined {
		processors = v
	}

	p, err := t.pair(ctx, processors)
	if err != nil {
		return Case{}, err
	}

	c := p.Case("", set, j, false)
	if s.atOnce {
		c.Run = func(ctx context.Context) (Sample, error) { return p.MoveSpread(ctx, set, j, v) }
	}
	return c, nil
}

// pair returns the pair with a number of processors, the same for all cases.
func (t *tuning) pair(ctx context.Context, processors int) (*Pair, error) {
	if p := t.pairs[processors]; p != nil {
		return p, nil
	}
	p, err := t.env.StartPair(ctx, PairConfig{Dir: filepath.Join(t.dir, fmt.Sprintf("network%d", processors)),
		SourceRoot: filepath.Join(t.dir, "source"), Lane: DirectPlain, Processors: processors})
	if err == nil {
		t.pairs[processors] = p
	}
	return p, err
}

// files returns the set of a size for a sweep, the same for all cases.
func (t *tuning) files(size int, s *sweep) (*FileSet, error) {
	content := s.content
	if content == "" {
		content = Random
	}

	if s.text {
		content = "Text"
	}

	name := fmt.Sprintf("%s%d", strings.ToLower(content), size)
	if set := t.sets[name]; set != nil {
		return set, nil
	}

	bytes := int64(size) * t.unit
	dir, count := filepath.Join(t.dir, "source", name), int(t.total/bytes)
	if s.text {
		texts, err := MakeTexts(dir, count, bytes, []Form{FormUTF8}, []Form{FormEBCDIC})
		if err != nil {
			return nil, err
		}
		t.sets[name] = texts.Set(FormUTF8, FormEBCDIC)
		return t.sets[name], nil
	}

	set, err := MakeFiles(dir, count, bytes, content)
	if err == nil {
		t.sets[name] = set
	}
	return set, err
}
