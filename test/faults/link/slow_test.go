//go:build linux

package link_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// A load is a number of simultaneous transfers of a number of files over a slow link. Their size is the number of bytes
// that the link carries in the time worth.
type load struct {
	what      string
	transfers int
	files     int
	worth     time.Duration
}

var loads = []load{
	{"one file", 1, 1, 30 * time.Second},
	{"100 small files", 1, 100, 10 * time.Second},
	{"12 transfers", 12, 1, 50 * time.Second},
	{"25 transfers", 25, 1, 80 * time.Second},
}

var (
	slowRates = []int{64, 128, 256, 512, 1000, 4000, 10000} // kbit/s
	slowLanes = []string{"direct", "queue"}
)

// A line describes the properties of a link besides its rate.
type line struct {
	what string
	trip time.Duration // round trip
	cut  time.Duration // length of a cut during the transfers
	// slack is the permitted time of a load, as a multiple of the time of its bytes. Protocol, audit and lower headers
	// need a part of the link, and the beginning and end of a transfer some round trips.
	slack float64
	// once is the additional permitted time of a load of 10 s. Submission, OPEN and the last outcomes take it once, for
	// any amount of data. A cut on such a link also costs a time-out, another OPEN, and the data that were not yet
	// durable.
	once time.Duration
}

// each is the number of bytes that a transfer costs once on its source's link, for any amount of data: its request,
// OPEN and outcomes, its audit records, and the answers to commands that follow it. Loads of 1, 12 and 25 transfers
// cost 5.2 KB each, and 25 on 64 kbit/s cost 5.3 KB without headers. On 64 kbit/s twelve transfers need 8 s for that.
const each = 5 << 10

var lines = []line{
	{what: "healthy", slack: 1.3, once: 3 * time.Second},
	{what: "far away", trip: 300 * time.Millisecond, slack: 1.5, once: 3 * time.Second},
	{what: "cut", cut: 5 * time.Second, slack: 1.5, once: 11 * time.Second},
}

// gridCells is the number of combinations of loads, lines, rates and lanes.
var gridCells = len(slowRates) * len(slowLanes) * len(loads) * len(lines)

// TestCampaignSlowLines sends over links of any rate. Every transfer ends in about the time that its bytes need, and on
// a healthy link no data are sent twice (INV-10).
func TestCampaignSlowLines(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "slow-lines", What: "the source's or the destination's link carries 64 kbit/s to 10 Mbit/s, by both lanes, with 1, 12 and 25 transfers and with 100 small files; without more, with a round trip of 300 ms, and with a cut of 5 s; lines that carry 4 to 128 KiB at once before their rate holds, a slow channel, and rates that fall and rise",
		Unit: "loads", Full: gridCells + len(slowCells(false)), Short: len(slowCells(true)), Root: true, Tools: []string{"ip", "tc", "nsenter", "bridge"}},
		func(t *testing.T, c *campaign.C) {
			if c.Short {
				c.Beside(t, cellsBeside, func(t *testing.T, seed uint64, r *rand.Rand) {
					all := slowCells(true)
					overCell(t, seed, r, all[int(seed-1)%len(all)], shortForm)
				})
				return
			}
			c.Beside(t, cellsBeside, overSlow)
		})
}

// TestCampaignSlowChannels sends over a slow channel between queue managers, with the same bars.
func TestCampaignSlowChannels(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "slow-channels", What: "each agent is beside its own queue manager; the channel of the source's or the destination's carries 1 Mbit/s with a round trip of 300 ms, and 25 transfers at once",
		Unit: "loads", Full: 4, Root: true, Tools: []string{"ip", "tc", "nsenter", "bridge"}},
		func(t *testing.T, c *campaign.C) {
			c.Beside(t, 4, func(t *testing.T, seed uint64, r *rand.Rand) {
				w := lay(t)
				rate, who := 1000, []string{source, destination}[seed%2]
				w.delayed(who, 300*time.Millisecond)
				w.slow(who, rate)
				overLine(t, seed, r, &slowStory{wires: w, rate: rate, lane: "queue", who: who, load: loads[3], line: line{what: "a channel far away", slack: 1.3, once: 3 * time.Second},
					setup: network.Setup{Wrap: w.wrapBeside(), Shape: network.ShapeChannels}})
			})
		})
}

// A slowStory is the input of overLine.
type slowStory struct {
	*wires
	rate  int // kbit/s
	lane  string
	who   string // agent with the slow link
	load  load
	line  line
	setup network.Setup
}

func overSlowLine(t *testing.T, seed uint64, r *rand.Rand) {
	n := int(seed-1) % (gridCells + len(slowCells(false)))
	ln := lines[n/(len(slowRates)*len(slowLanes)*len(loads))]
	n %= len(slowRates) * len(slowLanes) * len(loads)
	rate := slowRates[n/len(loads)/len(slowLanes)]
	lane := slowLanes[n/len(loads)%len(slowLanes)]
	l := loads[n%len(loads)]
	who := []string{source, destination}[r.IntN(2)]
	w := lay(t)
	if ln.trip > 0 {
		w.delayed(who, ln.trip)
	}
	w.slow(who, rate)
	overLine(t, seed, r, &slowStory{w, rate, lane, who, l, ln, network.Setup{Wrap: w.wrap()}})
}

// overLine sends a load over a link.
func overLine(t *testing.T, seed uint64, r *rand.Rand, x *slowStory) {
	s := &story{t: t, r: r, w: x.wires}
	rate, lane, who, l, ln := x.rate, x.lane, x.who, x.load, x.line
	x.setup.Ferry, x.setup.Agents, x.setup.Listen, x.setup.Direct = campaign.Ferry(t), []string{source, destination}, s.w.listen(), "tls"
	s.n = network.Up(t, x.setup)
	all := int64(l.worth.Seconds() * float64(rate) * 1000 / 8)
	for k := range l.transfers {
		j := &network.Job{From: source, To: destination, Seed: seed*100 + uint64(k), In: fmt.Sprintf("in/%d", k), Out: fmt.Sprintf("out/%d", k),
			Count: l.files, Size: max(all/int64(l.transfers*l.files), 3), Flags: []string{"--lane", lane}}
		s.n.Make(j)
		s.jobs = append(s.jobs, j)
	}
	before := s.w.sentBy(source)
	start := time.Now()
	for _, j := range s.jobs {
		s.sent = append(s.sent, s.n.Resubmit(j))
	}
	if ln.cut > 0 {
		wait(l.worth / 2)
		bridge := cuts[2]
		bridge.cut(s.w, s.w.ports[who])
		wait(ln.cut)
		bridge.mend(s.w, s.w.ports[who])
	}
	for _, x := range s.sent {
		x.WaitFor(toCross)
	}
	took := time.Since(start)
	var resumes, again int64
	for k, j := range s.jobs {
		j.ID = s.sent[k].ID()
		p := s.n.Status(j.ID)
		resumes, again = resumes+p.Resumes, again+p.BytesResent
	}
	t.Logf("%d kbit/s of %s, %s, %s, %s of %d bytes in all: %.1f s, worth %.1f s (%.2f); resumes %d, again %d bytes; the source sent %d bytes (%.2f)", rate, who, ln.what, lane, l.what, all,
		took.Seconds(), l.worth.Seconds(), took.Seconds()/l.worth.Seconds(), resumes, again, s.w.sentBy(source)-before, float64(s.w.sentBy(source)-before)/float64(all))
	if ln.cut == 0 && (resumes > 0 || again > all/50) {
		t.Errorf("%d resumes and %d bytes sent again on a line that was not cut", resumes, again)
	}
	most := ln.slack*hostSlack()*l.worth.Seconds() + ln.cut.Seconds()
	most += float64(l.transfers*each) * 8 / float64(rate*1000)
	if l.worth <= 10*time.Second {
		most += ln.once.Seconds()
	}
	if took.Seconds() > most {
		t.Errorf("it took %.1f s; the bytes are worth %.1f s, and it may take %.1f s", took.Seconds(), l.worth.Seconds(), most)
	}
	s.n.Judge(nil, s.jobs...)
}

// slow limits the rates of sending and receiving of a process, in kbit/s. The link buffers a second and a half of
// packets, like a modem.
func (w *wires) slow(who string, kbits int) { w.shape(who, kbits, "4kb", "1500ms") }

// sentBy returns the number of bytes that a process has sent over its link.
func (w *wires) sentBy(who string) int64 { return w.counted(who, "rx_bytes") }

// counted returns a counter of the link's end on the bridge.
func (w *wires) counted(who, what string) int64 {
	w.t.Helper()
	text, err := os.ReadFile("/sys/class/net/" + w.ports[who].outside + "/statistics/" + what)
	must(w.t, err)
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	must(w.t, err)
	return n
}
