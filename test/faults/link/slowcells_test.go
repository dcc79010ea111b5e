//go:build linux

package link_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// A slowCell is a load on a slow link, with its bars.
type slowCell struct {
	what  string
	kbits int
	short bool // part of the short form
	run   func(x *slowCase)
}

// A slowCase is one run of a slowCell.
type slowCase struct {
	slowCell
	*wires
	seed uint64
	r    *rand.Rand
	form string // shortForm fixes the link: that of the source, with a burst of 32 KiB
}

// slowKinds lists the kinds of load. Each function returns the cells of one kind.
var slowKinds = []func() []slowCell{oneFileCells, smallFilesCells, channelCells, fallingCells}

// slowCells returns the cells of all kinds; with short set, those of the short form.
func slowCells(short bool) (all []slowCell) {
	for _, kind := range slowKinds {
		all = append(all, kind()...)
	}
	if short {
		all = slices.DeleteFunc(all, func(c slowCell) bool { return !c.short })
	}
	return all
}

// overCell runs one cell.
func overCell(t *testing.T, seed uint64, r *rand.Rand, c slowCell, form string) {
	c.run(&slowCase{slowCell: c, wires: lay(t), seed: seed, r: r, form: form})
}

const shortForm = "short"

// A bucket has the burst of a link in bytes, and the maximum time of packets in its buffer.
type bucket struct{ burst, latency string }

var buckets = []bucket{{"4kb", "1500ms"}, {"32kb", "1500ms"}, {"32kb", "300ms"}, {"128kb", "1500ms"}}

// narrow makes the link of a process slow. The seed of the case decides the burst.
func (x *slowCase) narrow(who string) {
	x.t.Helper()
	b := x.bucket()
	x.shape(who, x.kbits, b.burst, b.latency)
	x.t.Logf("%s: %d kbit/s of %s, burst %s, latency %s", x.what, x.kbits, who, b.burst, b.latency)
}

// either returns source or destination, by the seed.
func (x *slowCase) either() string {
	if x.form == shortForm {
		return source
	}
	return []string{source, destination}[x.r.IntN(2)]
}

// bucket returns the bucket of the link, by the seed.
func (x *slowCase) bucket() bucket {
	if x.form == shortForm {
		return buckets[1]
	}
	return buckets[x.r.IntN(len(buckets))]
}

// slack returns the permitted time of a load as a multiple of the ideal time.
func (x *slowCase) slack() float64 {
	if x.kbits <= 64 {
		return 1.5
	}
	return 1.3
}

// worth returns the number of bytes that the link carries in a time.
func (x *slowCase) worth(d time.Duration) int64 {
	return int64(d.Seconds() * float64(x.kbits) * 1000 / 8)
}

// start starts a network with identities.
func (x *slowCase) start(setup network.Setup) *story {
	x.t.Helper()
	s := &story{t: x.t, r: x.r, w: x.wires}
	if setup.Wrap == nil {
		setup.Wrap = x.wrap()
	}
	setup.Ferry, setup.Agents, setup.Listen, setup.Direct = campaign.Ferry(x.t), []string{source, destination}, x.listen(), "tls"
	s.n = network.Up(x.t, setup)
	return s
}

// A cost is the measured cost of a load.
type cost struct {
	took    time.Duration
	resumes int64
	again   int64
}

// send sends files and waits for the end of the transfer. meanwhile, if not nil, runs during the transfer.
func (x *slowCase) send(s *story, lane string, files int, all int64, meanwhile func()) (c cost) {
	x.t.Helper()
	j := &network.Job{From: source, To: destination, Seed: x.seed * 100, In: "in/0", Out: "out/0", Count: files, Size: max(all/int64(files), 3), Flags: []string{"--lane", lane}}
	s.n.Make(j)
	start := time.Now()
	sent := s.n.Resubmit(j)
	if meanwhile != nil {
		meanwhile()
	}
	sent.WaitFor(toCross)
	c.took = time.Since(start)
	j.ID = sent.ID()
	p := s.n.Status(j.ID)
	c.resumes, c.again = p.Resumes, p.BytesResent
	s.n.Judge(nil, j)
	return c
}

// anyResumes is the bar for a load that may resume any number of times.
const anyResumes = 1 << 30

// judge compares the cost of a load with the bars: the time for its bytes, the part of the bytes that may be sent
// again, and the number of resumes.
func (x *slowCase) judge(c cost, all int64, ideal *time.Duration, part float64, resumes int64) {
	x.t.Helper()
	most := x.slack()*hostSlack()*ideal.Seconds() + float64(each)*8/float64(x.kbits*1000)
	x.t.Logf("%s at %d kbit/s: %d bytes took %.1f s, ideal %.1f s (%.2f), at most %.1f s; resumes %d; %d bytes again (%.0f %%)", x.what, x.kbits, all, c.took.Seconds(), ideal.Seconds(),
		c.took.Seconds()/ideal.Seconds(), most, c.resumes, c.again, 100*float64(c.again)/float64(all))
	if c.took.Seconds() > most {
		x.t.Errorf("the load took %.1f s; the bar is %.1f s", c.took.Seconds(), most)
	}
	if c.resumes > resumes {
		x.t.Errorf("the load resumed %d times; the bar is %d", c.resumes, resumes)
	}
	if float64(c.again) > part*float64(all) {
		x.t.Errorf("%d bytes of %d were sent again; the bar is %.0f %%", c.again, all, 100*part)
	}
}

// steady sends files over a link of constant rate. Their bytes need the given time.
func (x *slowCase) steady(lane string, files int, worth time.Duration, setup network.Setup, who string) {
	x.t.Helper()
	x.narrow(who)
	all := x.worth(worth)
	x.judge(x.send(x.start(setup), lane, files, all, nil), all, &worth, 0.02, 0)
}

// oneFileCells returns cells of one file that needs 20 s, by both lanes.
func oneFileCells() (all []slowCell) {
	for _, lane := range slowLanes {
		for _, kbits := range []int{64, 128, 256, 512, 1000, 2000} {
			all = append(all, slowCell{what: "one file, lane " + lane, kbits: kbits, short: lane == "queue" && kbits >= 64 && kbits <= 256, run: func(x *slowCase) {
				x.steady(lane, 1, 20*time.Second, network.Setup{}, x.either())
			}})
		}
	}
	return all
}

// smallFilesCells returns cells of 100 small files, by both lanes.
func smallFilesCells() (all []slowCell) {
	for _, lane := range slowLanes {
		for _, kbits := range []int{64, 256} {
			all = append(all, slowCell{what: "100 small files, lane " + lane, kbits: kbits, short: lane == "queue", run: func(x *slowCase) {
				x.steady(lane, 100, 20*time.Second, network.Setup{}, x.either())
			}})
		}
	}
	return all
}

// channelCells returns cells of one file over the channel of the source's queue manager, and of the destination's.
func channelCells() (all []slowCell) {
	for _, who := range []string{source, destination} {
		all = append(all, slowCell{what: "one file, channel of " + who, kbits: 128, short: who == source, run: func(x *slowCase) {
			x.steady("queue", 1, 20*time.Second, network.Setup{Wrap: x.wrapBeside(), Shape: network.ShapeChannels}, who)
		}})
	}
	return all
}

// The rate of a link before it falls, and the times before and after the fall.
const (
	highRate   = 2000 // kbit/s
	beforeFall = 6 * time.Second
	lowFor     = 20 * time.Second
)

// fallingCells returns links with a rate that falls during the file. In one half of them the rate rises again.
func fallingCells() (all []slowCell) {
	for _, lane := range slowLanes {
		for _, rises := range []bool{false, true} {
			what := "the rate falls"
			if rises {
				what = "the rate falls and rises"
			}
			all = append(all, slowCell{what: what + ", lane " + lane, kbits: 64, short: !rises, run: func(x *slowCase) { x.falls(lane, rises) }})
		}
	}
	return all
}

func (x *slowCase) falls(lane string, rises bool) {
	who, b := x.either(), x.bucket()
	high := int64(beforeFall.Seconds() * highRate * 1000 / 8)
	x.shape(who, highRate, b.burst, b.latency)
	s := x.start(network.Setup{})
	all := high + x.worth(lowFor)
	if rises {
		all += high
	}
	x.t.Logf("%s: the line of %s, burst %s, latency %s", x.what, who, b.burst, b.latency)
	before, start := x.sentTo(destination), time.Now()
	var ideal time.Duration
	x.judge(x.send(s, lane, 1, all, func() {
		s.n.UntilEvery("the part before the fall has been carried", 20*time.Millisecond, func() bool { return x.sentTo(destination)-before >= high })
		x.shape(who, x.kbits, b.burst, b.latency)
		ideal = time.Since(start) + lowFor
		if rises {
			wait(lowFor)
			x.shape(who, highRate, b.burst, b.latency)
			ideal += beforeFall
		}
	}), all, &ideal, 0.15, anyResumes)
}

// sentTo returns the number of bytes that a process has received over its link.
func (w *wires) sentTo(who string) int64 { return w.counted(who, "tx_bytes") }

// shape limits the data that a process sends and receives: the rate, the burst in bytes, and the maximum waiting time
// of a packet.
func (w *wires) shape(who string, kbits int, burst, latency string) {
	w.t.Helper()
	p := w.ports[who]
	tbf := fmt.Sprintf("tbf rate %dkbit burst %s latency %s", kbits, burst, latency)
	run(w.t, "tc -n "+p.name+" qdisc replace dev "+p.inside+" root "+tbf)
	run(w.t, "tc qdisc replace dev "+p.outside+" root "+tbf)
}

// cellsBeside is the number of cells that run at once: they mostly wait.
const cellsBeside = 12

// overSlow runs a case of the campaign by its seed: the grid of loads and lines first, then the cells.
func overSlow(t *testing.T, seed uint64, r *rand.Rand) {
	all := slowCells(false)
	if n := int(seed-1) % (gridCells + len(all)); n >= gridCells {
		overCell(t, seed, r, all[n-gridCells], "")
		return
	}
	overSlowLine(t, seed, r)
}
