//go:build linux

// Package forgeries_test is a campaign of forged messages (package forge) to agents with transfers in progress.
package forgeries_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/place/local/localtest"
	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/faults/forge"
	"ferry/test/flow/network"
)

func TestMain(m *testing.M) { os.Exit(campaign.Main(m)) }

const (
	atOnce     = 20        // transfers in progress
	inACase    = 20000     // messages of one case
	inAShort   = 1000      // messages of the short form
	mostMemory = 300 << 20 // of an agent: data in flight and its needs without an attack
)

// TestCampaignForgeries sends forged messages to busy agents.
func TestCampaignForgeries(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "forgeries", Unit: "messages", Full: 100_000, Short: inAShort,
		What: "messages with a field out of its range, spoken by somebody else, repeated, or in the wrong state, and strangers at the direct ports, while 20 transfers run"},
		func(t *testing.T, c *campaign.C) {
			for seed, done := c.Seed, 0; done < c.Count; seed++ {
				most := min(inACase, c.Count-done)
				if !t.Run(fmt.Sprint(seed), func(t *testing.T) { attack(t, seed, campaign.Rand(seed), most) }) {
					t.Logf("this case again: make test-faults CAMPAIGN=forgeries SEED=%d COUNT=%d", seed, most)
					return
				}
				done += most
				c.Add(most)
			}
		})
}

// An attacked is one case.
type attacked struct {
	*network.Network
	t      *testing.T
	r      *rand.Rand
	seed   uint64
	forger *forge.Forger
	wire   *network.Wire
	jobs   []*network.Job
	runs   []*network.Sending
	bait   map[string][]byte // by path: files that must exist at the end
	kinds  map[string]int    // number of forgeries sent, by kind
	quick  atomic.Int64      // answers that came before the true ones, or might have
}

func attack(t *testing.T, seed uint64, r *rand.Rand, most int) {
	agents := []string{"ALPHA", "BETA", "GAMMA"}
	a := &attacked{t: t, r: r, seed: seed, bait: map[string][]byte{}, kinds: map[string]int{}, Network: network.Up(t, network.Setup{
		Ferry: campaign.Ferry(t), Agents: agents})}
	pids := map[string]int{}
	for _, who := range append(agents, network.QM) {
		pids[who] = a.Pid(who)
	}
	a.wire = a.Wire(nats.NoEcho())
	a.forger = forge.New(r, append(forge.Replies(), forge.Asks()...)...)
	a.forger.Agents, a.forger.Strangers = agents, []string{"MALLORY", "MAL.LORY", "GAMMA"}
	a.forger.Quick = func(m forge.Forgery) { // in a goroutine of the connection
		a.wire.Post(m.Subject, m.Reply, m.Data)
		a.quick.Add(1)
	}
	a.forger.Bait = map[string][]transfer.Outcome{}
	a.lay("ALPHA")
	a.lay("BETA")
	for _, subjects := range []string{"ferry.reply.>", "ferry.data.>"} {
		a.wire.Hear(subjects, a.forger.Hear)
	}
	for range atOnce {
		a.begin()
	}
	a.say(most)
	for n, s := range a.runs {
		a.jobs[n].ID = s.ID()
		s.Wait().Ends("successful", 0)
	}
	a.Judge(nil, a.jobs...)
	for name, was := range a.bait {
		if now, err := os.ReadFile(name); err != nil || string(now) != string(was) {
			t.Errorf("%s, which nobody sent, is not what it was: %v", name, err)
		}
	}
	for who, pid := range pids {
		if a.Pid(who) != pid {
			t.Errorf("%s has ended and begun again", who)
		}
	}
	for _, who := range agents {
		if peak := a.PeakRSS(who); peak > mostMemory {
			t.Errorf("%s has taken %s", who, transfer.FormatBytes(peak))
		} else {
			t.Logf("%s has taken %s", who, transfer.FormatBytes(peak))
		}
	}
	t.Logf("%6d x a quick accept", a.quick.Load())
	for _, k := range slices.Sorted(maps.Keys(a.kinds)) {
		t.Logf("%6d x %s", a.kinds[k], k)
	}
}

// lay creates files beneath an agent's root that no transfer sends. The forger reports that they have arrived.
func (a *attacked) lay(agent string) {
	a.t.Helper()
	for n := range 3 {
		name := filepath.Join(a.Root(agent), fmt.Sprintf("precious%d", n))
		a.bait[name] = []byte(name)
		must(a.t, os.WriteFile(name, a.bait[name], 0o644))
		var st syscall.Stat_t
		must(a.t, syscall.Stat(name, &st))
		a.forger.Bait[agent] = append(a.forger.Bait[agent], transfer.Outcome{Type: transfer.ItemFile, Path: "/nowhere", Source: transfer.Path(name), Size: st.Size,
			Version: localtest.VersionOf(a.t, name)})
	}
}

// begin starts one more transfer: many small files, or a few files in small chunks, so that forgeries can arrive during
// the transfer.
func (a *attacked) begin() {
	a.t.Helper()
	n := len(a.jobs)
	j := &network.Job{From: "ALPHA", To: "BETA", In: fmt.Sprint("in", n), Out: fmt.Sprint("out", n), Seed: a.seed + uint64(n), Count: 60, Size: 3000, Delete: n%2 == 0}
	if n%4 > 0 {
		j.Count, j.Size, j.Flags = 3, 3<<19, []string{"--chunk-size", "4096", "--window", "1", "--frame", "2"}
	}
	switch n % 5 {
	case 1:
		j.From, j.To = "BETA", "ALPHA"
	case 2:
		j.From = "GAMMA"
	}
	a.jobs, a.runs = append(a.jobs, j), append(a.runs, a.Begin(j))
}

// running returns the number of transfers in progress.
func (a *attacked) running() (n int) {
	for _, s := range a.runs {
		if s.Running() {
			n++
		}
	}
	return n
}

// Rate of the forgeries, and of the strangers at the direct ports.
const (
	step      = 15 // messages at once
	pause     = 10 * time.Millisecond
	knocks    = 100 // steps from one visit of strangers to the next
	strangers = 300 // at each direct port
)

// say sends as many forgeries as most while transfers run. It replaces each finished transfer by a new one.
func (a *attacked) say(most int) {
	a.t.Helper()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	stop := func() {}
	defer func() { stop() }()
	for said, steps := 0, 0; said < most; steps++ {
		if a.running() < atOnce {
			a.begin()
		}
		for range min(step, most-said) {
			if m, ok := a.forger.Next(); ok {
				a.wire.Post(m.Subject, m.Reply, m.Data)
				what, _, _ := strings.Cut(m.What, " with ")
				a.kinds[what]++
				said++
			}
		}
		a.wire.Flush()
		if steps%knocks == knocks/4 {
			stop()
			stop = a.knock()
		}
		<-tick.C
	}
}

// knock opens connections to all direct ports, more of them than an agent greets at once.
func (a *attacked) knock() (stop func()) {
	var stops []func()
	for _, d := range a.forger.Doors() {
		stops = append(stops, forge.Knock(d, strangers))
	}
	return func() {
		for _, s := range stops {
			s()
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
