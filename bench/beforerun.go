package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"ferry/internal/transfer"
)

func beforeScenario() Scenario {
	return Scenario{Name: "before", Run: runBefore,
		What: "The same files with this ferry and with the program of an earlier commit, which --before names, by turns and by their command lines."}
}

// A beforeCase is one workload on one lane.
type beforeCase struct {
	workload
	lane string
}

func (c beforeCase) title() string { return fmt.Sprintf("%s, %s lane", c.name, c.lane) }

// beforeCases returns the small workload, the one of many files, and the one file, by the direct lane and by the queue
// lane.
func beforeCases(short bool) []beforeCase {
	w := peerWorkloads(short)
	return []beforeCase{{w[2], transfer.LaneDirect}, {w[1], transfer.LaneDirect}, {w[0], transfer.LaneDirect}, {w[0], transfer.LaneQueue}}
}

// beforeRounds is the number of measurements of a case in a round: the programs differ by less than a host from one
// minute to the next.
const beforeRounds = 2

// A version is one of the two programs and its network.
type version struct {
	name string
	pair *Pair
}

// title names the case of a workload with this program.
func (v version) title(c beforeCase) string { return c.title() + ", " + v.name }

func runBefore(ctx context.Context, e *Env) (*Report, error) {
	if e.Before == "" {
		return nil, transfer.Errorf(transfer.KindUsage, "the program of an earlier commit is not named").
			WithHint("give --before PROGRAM, or run `make bench SCENARIOS=before`, which builds it")
	}
	dir, remove, err := e.Scratch("before")
	if err != nil {
		return nil, err
	}
	defer remove()

	sets := filepath.Join(dir, "sets")
	if err := os.Mkdir(sets, 0o755); err != nil {
		return nil, unwritable(sets, err)
	}
	versions := []version{{name: "this ferry"}, {name: "the earlier one"}}
	for i, program := range []string{e.Ferry, e.Before} {
		of := *e
		of.Ferry = program
		insecure, err := hasInsecure(ctx, program)
		if err != nil {
			return nil, err
		}
		if versions[i].pair, err = of.StartPair(ctx, PairConfig{Dir: filepath.Join(dir, fmt.Sprint("network", i)), SourceRoot: sets, Lane: DirectPlain, Manager: insecure, Commands: true}); err != nil {
			return nil, err
		}
		defer versions[i].pair.Close()
	}

	made := map[string]*FileSet{}
	var cases []Case
	for _, c := range beforeCases(e.Short) {
		if made[c.dir] == nil {
			if made[c.dir], err = MakeFiles(filepath.Join(sets, c.dir), c.files, c.size, Random); err != nil {
				return nil, err
			}
		}
		for _, v := range versions {
			cases = append(cases, Case{Name: v.title(c), Run: func(ctx context.Context) (Sample, error) { return v.pair.command(ctx, made[c.dir], c.lane) }})
		}
	}
	rounds := e.Rounds
	if !e.Short {
		rounds *= beforeRounds
	}
	series, err := Interleave(ctx, rounds, e.Warmups, cases, e.Say)
	if err != nil {
		return nil, err
	}
	r := &Report{Rounds: rounds}
	reportBefore(r, versions, beforeCases(e.Short), series)
	return r, nil
}

// hasInsecure returns the flag that starts a network without identities, or none for a program without identities.
func hasInsecure(ctx context.Context, program string) ([]string, error) {
	help, err := exec.CommandContext(ctx, program, "up", "--help").Output()
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "%s is not a ferry program: %w", program, err).WithHint("give --before the path of one")
	}
	if !bytes.Contains(help, []byte("--insecure")) {
		return nil, nil
	}
	return []string{"--insecure"}, nil
}

// command measures `ferry send` of a set from its start to its exit, verifies the copy and removes it.
func (p *Pair) command(ctx context.Context, s *FileSet, lane string) (Sample, error) {
	p.copies++
	to := fmt.Sprintf("copy%d", p.copies)
	x, err := p.Meter.Measure(func() (Sample, error) {
		c := p.sending(ctx, "--lane", lane, "-r", fmt.Sprintf("%s:%s", SourceAgent, s.Name()), fmt.Sprintf("%s:%s/", DestAgent, to))
		_, wall, err := runSend(c)
		x := Sample{Wall: wall, Bytes: s.Bytes(), Files: int64(len(s.Names)), Lane: lane}
		if err == nil {
			x.Extra = map[string]float64{ofCommand: (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()}
		}
		return x, err
	})
	if err != nil {
		return x, err
	}
	copied := filepath.Join(p.DestRoot, to)
	if err := s.Verify(filepath.Join(copied, s.Name())); err != nil {
		return x, err
	}
	return x, os.RemoveAll(copied)
}

// ofCommand names the processor time of the command itself.
const ofCommand = "command"

// allCPU returns the processor time of the command and all processes of the network, in seconds.
func allCPU(s Series) Figure {
	return s.Figure(func(x Sample) float64 {
		t := x.Extra[ofCommand]
		for _, d := range x.CPU {
			t += d.Seconds()
		}
		return t
	})
}

// reportBefore makes the table, the chart and the bars. versions has this program first.
func reportBefore(r *Report, versions []version, cases []beforeCase, series []Series) {
	t := Table{Title: "This ferry and the earlier one, in memory, without identities",
		Columns: []Column{{Name: "work"}, {Name: "with"}, {Name: "time", Unit: "s", Digits: 3}, {Name: "rate", Unit: "MB/s", Digits: 0},
			{Name: "processor time of all", Unit: "s", Digits: 3}, {Name: "speed over the earlier one's", Digits: 2}, {Name: "processor time, the earlier one's over this", Digits: 2}}}
	c := Chart{Title: t.Title, Kind: Bars, X: "work", Y: "MB/s", Lines: []Line{{Name: versions[0].name}, {Name: versions[1].name}}}
	for k, w := range cases {
		var of [2]Series
		for i, v := range versions {
			n := slices.IndexFunc(series, func(s Series) bool { return s.Case == v.title(w) })
			of[i] = series[n]
		}
		speed := of[1].Wall().Median / of[0].Wall().Median
		for i, v := range versions {
			ratio, cpu := Cell{}, Cell{}
			if i == 0 {
				ratio, cpu = One(speed), One(allCPU(of[1]).Median/allCPU(of[0]).Median)
			}
			t.Add(Text("%s", w.title()), Text("%s", v.name), Of(of[i].Wall()), Of(of[i].Rate()), Of(allCPU(of[i])), ratio, cpu)
			c.Lines[i].Points = append(c.Lines[i].Points, At(float64(k), of[i].Rate()))
		}
		c.Categories = append(c.Categories, w.title())
		r.Bars = append(r.Bars, AtLeast("speed over the earlier ferry's, "+w.title(), "", speed, 1, 1))
	}
	r.Tables, r.Charts = append(r.Tables, t), append(r.Charts, c)
	r.Note("Each program has a network of its own: a queue manager, coordination and two agents, each a process. A measurement is one `ferry send`, from its start to its exit, with default settings and the direct lane in the clear.")
	r.Note("Processor time is that of the command and of all processes of the network, until they rest.")
}
