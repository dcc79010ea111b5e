package bench

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"ferry/bench/published"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// channelScenario reproduces the stall that IBM's technote on delayed acknowledgements describes. It makes the same
// exchanges over Ferry's own connections.
func channelScenario() Scenario {
	return Scenario{
		Name: "channel",
		What: "Two small writes and a wait for the answer: the stall of delayed acknowledgements, and the same exchange over Ferry's own connections.",
		Run:  runChannel,
	}
}

// channelPatience bounds the wait for one answer over a queue manager.
const channelPatience = 10 * time.Second

func runChannel(ctx context.Context, e *Env) (*Report, error) {
	rounds := 200
	if e.Short {
		rounds = 20
	}

	dir, remove, err := e.Scratch("channel")
	if err != nil {
		return nil, err
	}
	defer remove()

	set, err := MakeFiles(filepath.Join(dir, "sets", "one"), 1, smallFile, Random)
	if err != nil {
		return nil, err
	}

	var small []Case
	var first *Network // of the first way
	for i, w := range smallWays(ctx, e) {
		if w.lacks != "" {
			small = append(small, Case{Name: w.name, Lacks: w.lacks})
			continue
		}
		pair, err := e.StartPair(ctx, PairConfig{Dir: filepath.Join(dir, fmt.Sprint("network", i)), SourceRoot: filepath.Dir(set.Dir), Lane: w.lane, Flags: w.flags})
		if err != nil {
			return nil, err
		}
		defer pair.Close()
		if i == 0 {
			first = pair.Network
		}
		small = append(small, Case{Name: w.name, Run: func(ctx context.Context) (Sample, error) { return smallRounds(ctx, pair, set, w.lane, rounds) }})
	}

	own, err := newOwnRounds(ctx, first)
	if err != nil {
		return nil, err
	}

	defer own.close()

	cases := stallCases(rounds)
	others := len(cases)
	cases = append(cases, own.cases(rounds)...)
	cases = append(cases, small...)
	all, err := e.Interleave(ctx, cases)
	if err != nil {
		return nil, err
	}
	return channelReport(all, others, rounds), nil
}

// A smallWay is a way to move one small file.
type smallWay struct {
	name  string
	lane  Lane
	flags []string // of both agents
	lacks string
}

// smallWays returns the lanes, the queue lane first, and the lanes with Nagle's algorithm for comparison.
func smallWays(ctx context.Context, e *Env) (all []smallWay) {
	delays := e.agentsHave(ctx, "--tcp-delay")
	for _, lane := range []Lane{QueueLane, DirectPlain, DirectTLS} {
		all = append(all, smallWay{name: smallName + lane.Name, lane: lane, lacks: lane.Lacks()})
	}
	for _, lane := range []Lane{QueueLane, DirectPlain} {
		w := smallWay{name: smallName + lane.Name + nagleOn, lane: lane, flags: []string{"--tcp-delay"}, lacks: lane.Lacks()}
		if w.lacks == "" && !delays {
			w.lacks = "not available: this Ferry cannot leave Nagle's algorithm on"
		}
		all = append(all, w)
	}
	return all
}

// Prefixes and suffixes of the names of cases.
const (
	smallName = "Ferry: one file of 1 KiB, submission to known end, "
	nagleOn   = ", Nagle on at the agents"
)

// agentsHave reports whether the agents of the measured Ferry have a flag.
func (e *Env) agentsHave(ctx context.Context, flag string) bool {
	text, err := exec.CommandContext(ctx, e.Ferry, "agent", "run", "--help").Output()
	return err == nil && strings.Contains(string(text), flag)
}

// stallSettings are the combinations of settings of the exchange, the stall first.
var stallSettings = []struct {
	name string
	stall
}{
	{"Nagle on", stall{nagle: true}},
	{"Nagle on, quick-ack at the reader", stall{nagle: true, quickAck: true}},
	{"no-delay", stall{}},
	{"no-delay, quick-ack at the reader", stall{quickAck: true}},
}

// stallCases returns the exchange with every combination of settings, the stall first.
func stallCases(rounds int) (cases []Case) {
	for _, c := range stallSettings {
		cases = append(cases, Case{Name: c.name, Lacks: stallLacks, Run: func(ctx context.Context) (Sample, error) {
			times, err := c.run(ctx, rounds)
			return roundsSample(times), err
		}})
	}
	return cases
}

// smallRounds moves one small file several times, one after the other. That includes every exchange of the protocol
// between two agents: a stall in one of them would show.
func smallRounds(ctx context.Context, p *Pair, set *FileSet, lane Lane, rounds int) (Sample, error) {
	times, err := timeRounds(ctx, rounds, func(ctx context.Context) error {
		p.copies++
		j := Job{Source: SourceAgent, Dest: DestAgent, Lane: lane.Lane, Durability: transfer.DurabilityProcess}
		jobs, _ := set.Copies(j, p.DestRoot, fmt.Sprintf("copy%d", p.copies), false)
		_, err := p.Transfer(ctx, jobs[0])
		return err
	})
	return roundsSample(times), err
}

// channelReport makes the report of the cases. The first case is the stall, and those from the number own on are
// Ferry's.
func channelReport(all []Series, own, rounds int) *Report {
	r := &Report{}
	t := Table{Title: "One exchange: two writes, then a wait for the answer", Columns: []Column{
		{Name: "connection"}, {Name: "median", Unit: "ms", Digits: 3}, {Name: "p99", Unit: "ms", Digits: 3}, {Name: "longest", Unit: "ms", Digits: 3}}}
	chart := Chart{Title: "Median time of one exchange", Kind: Bars, X: "connection", Y: "ms", Lines: []Line{{Name: "median"}}}
	for _, s := range all {
		t.Add(Text("%s", s.Case), s.Cell(s.Extra(extraP50)), s.Cell(s.Extra(extraP99)), s.Cell(s.Extra(extraMax)))
		if s.Lacks == "" {
			chart.Lines[0].Points = append(chart.Lines[0].Points, At(float64(len(chart.Categories)), s.Extra(extraP50)))
			chart.Categories = append(chart.Categories, s.Case)
		}
	}

	r.Tables, r.Charts = []Table{t}, []Chart{chart}
	stalled := AtLeast("the stall is there: one exchange with Nagle on", "ms", all[0].Extra(extraP50).Median, 30, 40)
	if all[0].Lacks != "" {
		stalled = stalled.Lacking(all[0].Lacks)
	}

	r.Bars = append(r.Bars, stalled)
	for _, s := range all[own:] {
		if strings.HasSuffix(s.Case, nagleOn) {
			continue // Ferry does not use this setting
		}
		bar := AtMost("no stall: "+s.Case, "ms", s.Extra(extraP50).Median, 20, 5)
		if s.Lacks != "" {
			bar = bar.Lacking(s.Lacks)
		}
		r.Bars = append(r.Bars, bar)
	}

	size, _ := published.Lookup("segment")
	delay, _ := published.Lookup("delay")
	rate, _ := published.Lookup("stalled-rate")
	r.Note("Each measurement is %d exchanges after %d that are not counted: a new connection is acknowledged at once.", rounds, stallWarmups)
	r.Note("IBM's technote found %.0f ms and more between two writes of %.0f bytes, at most %.0f KB a second. There the writer's buffer held no more than one write, so that it could not write on before the acknowledgement; on Linux the acknowledgement is put off for 40 ms at least.",
		delay.Value, size.Value, rate.Value)
	r.Note("A transfer of one file is many exchanges, and the agents write several ledger records in between. One stall among them would take it past 40 ms.")
	return r
}

// timeRounds measures rounds, after some that do not count.
func timeRounds(ctx context.Context, rounds int, round func(context.Context) error) ([]time.Duration, error) {
	var times []time.Duration
	for i := range stallWarmups + rounds {
		start := time.Now()
		if err := round(ctx); err != nil {
			return nil, err
		}
		if i >= stallWarmups {
			times = append(times, time.Since(start))
		}
	}
	return times, nil
}

// ownRounds has exchanges over connections like those of Ferry's agents: one side asks, the other answers, each with
// a connection of its own.
type ownRounds struct {
	asker, answerer *qmgr.Conn
	there, here     string // subjects of the data exchange
	answers         chan struct{}
	stops           []func()
}

func newOwnRounds(ctx context.Context, n *Network) (*ownRounds, error) {
	o := &ownRounds{answers: make(chan struct{}, 1)}
	var err error
	connect := func(name string) *qmgr.Conn {
		var c *qmgr.Conn
		if err == nil {
			c, err = n.Connect(ctx, n.URL, name)
		}
		if err == nil {
			o.stops = append(o.stops, c.Close)
		}
		return c
	}
	o.asker, o.answerer = connect("asks"), connect("answers")
	if err != nil {
		o.close()
		return nil, err
	}

	o.there, o.here = "ferry.data.ANSWERER.ASKER", "ferry.data.ASKER.ANSWERER"
	if err := o.listen(ctx); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// cases returns the exchanges through a queue manager.
func (o *ownRounds) cases(rounds int) (cases []Case) {
	for _, c := range []struct {
		name  string
		round func(context.Context) error
	}{
		{"Ferry: an agent is asked and answers, through the queue manager", o.ping},
		{"Ferry: two messages on the data connection and an answer, through the queue manager", o.data},
	} {
		cases = append(cases, Case{Name: c.name, Run: func(ctx context.Context) (Sample, error) {
			times, err := timeRounds(ctx, rounds, c.round)
			return roundsSample(times), err
		}})
	}
	return cases
}

// listen answers every second message, and waits until that works.
func (o *ownRounds) listen(ctx context.Context) error {
	var got atomic.Int64
	stop, err := o.answerer.SubscribeData(o.there+".>", func(qmgr.Message) {
		if got.Add(1)%2 == 0 {
			o.answerer.PublishData(o.here+".answer", make([]byte, stallAnswer))
		}
	})
	if err != nil {
		return err
	}

	o.stops = append(o.stops, stop)
	if stop, err = o.asker.SubscribeData(o.here+".>", func(qmgr.Message) { o.answers <- struct{}{} }); err != nil {
		return err
	}

	o.stops = append(o.stops, stop)
	// A round trip on every connection shows that the queue manager has the subscriptions.
	for _, c := range []*qmgr.Conn{o.asker, o.answerer} {
		if err := c.Healthy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ping pings the source agent, as `ferry agent ping` does.
func (o *ownRounds) ping(ctx context.Context) error {
	ask := wire.Ask{V: wire.Version, Kind: wire.AskPing}
	data, err := o.asker.Request(ctx, wire.AskAgent(SourceAgent, o.asker.Self()), wire.Marshal(ask), channelPatience)
	if err != nil {
		return err
	}
	answer, err := wire.DecodeAnswer(data)
	if err == nil && answer.Error != nil {
		err = answer.Error
	}
	return err
}

// data sends two messages on the data connection and waits for the answer.
func (o *ownRounds) data(ctx context.Context) error {
	for _, n := range []int{stallFirst, stallSecond} {
		if err := o.asker.PublishData(o.there+".message", make([]byte, n)); err != nil {
			return err
		}
	}

	select {
	case <-o.answers:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(channelPatience):
		return transfer.Errorf(transfer.KindTimeout, "two messages on the data connection were not answered in %s", channelPatience)
	}
}

func (o *ownRounds) close() {
	for i := len(o.stops) - 1; i >= 0; i-- {
		o.stops[i]()
	}
	o.stops = nil
}
