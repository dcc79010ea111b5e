//go:build linux

package link_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// A storedCell is one case of stored delivery over a slow link.
type storedCell struct {
	kind string
	rate int    // kbit/s
	side string // agent with the slow link
}

// The kinds of cells.
const (
	storedPlain   = "one file"
	storedAway    = "the destination starts when everything is stored"
	storedBeside  = "a fast transfer beside it"
	storedThree   = "three stored transfers"
	storedChannel = "over a channel"
	storedFall    = "the rate falls from 2 Mbit/s to 64 kbit/s"
)

const (
	storedWorth  = 20 * time.Second // of the link, that a cell sends
	besideWorth  = 5 * time.Second  // of the link, that the fast transfer sends beside it
	fallsFrom    = 2000             // kbit/s
	fallsTo      = 64
	fallsAfter   = 3 * time.Second
	storedSlack  = 1.3 // times the ideal time
	slowestSlack = 1.5 // the same on 64 kbit/s
	lineSlack    = 1.3 // times the payload, that the link carries
	// storedChatter is the number of bytes a second that the link carries besides the payload: questions and answers of
	// the control connection (750), and headers of their packets. On 64 kbit/s, 160,000 bytes had 166,700 bytes of
	// stored data, 7,000 of a third connection, 21,000 of the control connection, and 27,000 of packet headers, in 28
	// s. No data were sent again.
	storedChatter = 1 << 10

	// fileShare is the part of the bytes on the link that is the file's: 910,000 bytes of a file had 941,000 with the
	// heads of messages and of TLS, and 990,000 with the headers of their packets.
	fileShare = 0.92

	// starts is the number of bytes on an agent's link at the agent's start: three handshakes, its questions and their
	// answers.
	starts = 20 << 10
)

var storedRates = []int{64, 128, 256, 512, 1000, 2000}

// storedCells returns all cells. Those of the short form come first.
func storedCells() (all []storedCell) {
	all = []storedCell{
		{storedPlain, 64, destination}, {storedPlain, 2000, destination}, {storedAway, 256, destination}, {storedBeside, 512, destination},
		{storedThree, 1000, destination}, {storedPlain, 128, source}, {storedChannel, 128, source}, {storedBeside, 64, destination},
	}
	for _, rate := range storedRates {
		all = append(all, storedCell{storedPlain, rate, source}, storedCell{storedPlain, rate, destination}, storedCell{storedAway, rate, destination},
			storedCell{storedBeside, rate, source}, storedCell{storedBeside, rate, destination}, storedCell{storedThree, rate, destination})
	}
	for _, side := range []string{source, destination} {
		all = append(all, storedCell{storedChannel, 128, side}, storedCell{storedFall, fallsFrom, side})
	}
	return all
}

// TestCampaignSlowStored sends stored files over slow links. They arrive in about the time of their bytes, no data are
// sent twice, and other transfers continue beside them (INV-10).
func TestCampaignSlowStored(t *testing.T) {
	cells := storedCells()
	campaign.Run(t, campaign.Spec{Name: "slow-stored", Unit: "loads", Full: len(cells), Short: 7, Root: true, Tools: []string{"ip", "tc", "nsenter", "bridge"},
		What: "stored delivery; the source's or the destination's link carries 64 kbit/s to 2 Mbit/s; one file and three transfers, the destination up or away, a fast transfer beside it, over a channel, and a rate that falls"},
		func(t *testing.T, c *campaign.C) {
			c.Beside(t, 8, func(t *testing.T, seed uint64, _ *rand.Rand) {
				storedOverLine(t, seed, cells[int(seed-1)%len(cells)])
			})
		})
}

// worth returns the number of bytes that a link carries in a time.
func worth(kbits int, d time.Duration) int64 { return int64(d.Seconds() * float64(kbits) * 1000 / 8) }

// storedOverLine runs one cell.
func storedOverLine(t *testing.T, seed uint64, c storedCell) {
	w := lay(t)
	setup := network.Setup{Ferry: campaign.Ferry(t), Agents: []string{source, destination}, Listen: w.listen(), Direct: "tls", Wrap: w.wrap()}
	if c.kind == storedChannel {
		setup.Wrap, setup.Shape = w.wrapBeside(), network.ShapeChannels
	}
	w.slow(c.side, c.rate)
	n := network.Up(t, setup)

	all := worth(c.rate, storedWorth)
	if c.kind == storedFall {
		all = worth(fallsFrom, fallsAfter) + worth(fallsTo, storedWorth)
	}
	count := 1
	if c.kind == storedThree {
		count = 3
	}
	var jobs []*network.Job
	add := func(name string, size int64, flags ...string) *network.Job {
		j := &network.Job{From: source, To: destination, Seed: seed*100 + uint64(len(jobs)), In: "in/" + name, Out: "out/" + name, Count: 1, Size: size, Flags: flags}
		n.Make(j)
		jobs = append(jobs, j)
		return j
	}
	for k := range count {
		add(fmt.Sprint(k), all/int64(count), "--delivery", "stored")
	}
	var fast *network.Job
	if c.kind == storedBeside {
		fast = add("fast", worth(c.rate, besideWorth), "--lane", "queue")
		all += fast.Size
	}

	carried := func() int64 {
		if c.side == source {
			return w.sentBy(source)
		}
		return w.sentTo(c.side)
	}
	if c.kind == storedAway {
		n.Stop(destination)
	}
	before, start := carried(), time.Now()
	var sent []*network.Sending
	for _, j := range jobs {
		sent = append(sent, n.Resubmit(j))
	}
	if c.kind == storedAway {
		for _, x := range sent {
			id := x.ID()
			n.UntilEvery("everything is stored", 50*time.Millisecond, func() bool {
				p := n.Status(id)
				return p.State == "waiting" && p.Reason != nil && strings.HasPrefix(p.Reason.Text, "sent:")
			})
		}
		before, start = carried(), time.Now()
		n.Launch(destination)
	}

	ideal := time.Duration(float64(all) * 8 / float64(c.rate) * float64(time.Millisecond))
	slack, most := storedSlack, all/50
	if c.kind == storedFall {
		wait(fallsAfter)
		w.slow(c.side, fallsTo)
		left := max(0, float64(all)-fileShare*float64(carried()-before))
		ideal = time.Since(start) + time.Duration(left*8/fallsTo*float64(time.Millisecond))
		slack, most = fallen, all*15/100
	}
	if c.rate == 64 {
		slack = slowestSlack
	}

	var besideTook time.Duration
	if fast != nil {
		sent[len(sent)-1].WaitFor(toCross)
		besideTook = time.Since(start)
	}
	for _, x := range sent {
		x.WaitFor(toCross)
	}
	took, bytes := time.Since(start), carried()-before

	var resumes, again int64
	for k, j := range jobs {
		j.ID = sent[k].ID()
		p := n.Status(j.ID)
		resumes, again = resumes+p.Resumes, again+p.BytesResent
	}
	t.Logf("%d kbit/s of %s, %s: %.1f s, ideal %.1f s (%.2f); resumes %d, again %d of %d bytes; the line carried %.2f times the payload; the fast transfer took %.1f s",
		c.rate, c.side, c.kind, took.Seconds(), ideal.Seconds(), took.Seconds()/ideal.Seconds(), resumes, again, all, float64(bytes)/float64(all), besideTook.Seconds())
	if again > most || resumes > 0 && c.kind != storedFall {
		t.Errorf("%d resumes and %d bytes sent again; %d bytes may be", resumes, again, most)
	}
	once := int64(len(jobs) * each)
	if c.kind == storedAway {
		once += starts
	}
	fixed := time.Duration(once*8/int64(c.rate)) * time.Millisecond
	if limit := time.Duration(slack*hostSlack()*float64(ideal)) + fixed; took > limit {
		t.Errorf("it took %.1f s, and may take %.1f s", took.Seconds(), limit.Seconds())
	}
	if limit := lineSlack*float64(all) + float64(once) + storedChatter*took.Seconds(); float64(bytes) > limit {
		t.Errorf("the line carried %d bytes, and may carry %.0f", bytes, limit)
	}
	if limit := 3*besideWorth + fixed; besideTook > limit {
		t.Errorf("the fast transfer took %.1f s, and may take %.1f s", besideTook.Seconds(), limit.Seconds())
	}
	n.Judge(nil, jobs...)
}
