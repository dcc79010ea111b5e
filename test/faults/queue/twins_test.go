//go:build linux

package queue_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// TestCampaignTwins starts agents of one name at the same time, with kills of all processes. One of them has the name,
// and its transfers continue undisturbed.
func TestCampaignTwins(t *testing.T) {
	const name = "twins"
	campaign.Run(t, campaign.Spec{Name: name, Unit: "rounds", Full: 200, Short: 3,
		What: "two or three agents of one name started together, on either side of a cut, on a copied ledger, while the queue manager is away or its store is lost"},
		func(t *testing.T, c *campaign.C) {
			rounds(t, c, name, 2, func(t *testing.T, seed uint64, r *rand.Rand, n int) {
				w := &twins{t: t, r: r, Network: network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{"BETA"}, Direct: "off"})}
				w.line = w.Line()
				w.enrol()
				for k := range n {
					w.round(k, int(seed)*roundsPerCase+k)
				}
			})
		})
}

// A twins is one case. Its agents are all called ALPHA.
type twins struct {
	*network.Network
	t     *testing.T
	r     *rand.Rand
	line  *network.Line // some agents connect through it
	k     int
	made  int
	self  string // the identity of all of them
	owner string // of the round before, if it was left running
}

// meetings are the ways of agents of one name to meet.
var meetings = []struct {
	name string
	do   func(*twins)
}{
	{"together", (*twins).together},
	{"cut", (*twins).cut},
	{"copied", (*twins).copied},
	{"outage", (*twins).outage},
	{"again", (*twins).again},
	{"beside", (*twins).beside},
}

func (w *twins) round(k, serial int) {
	w.k = k
	m := meetings[serial%len(meetings)]
	m.do(w)
	if w.r.IntN(2) == 0 { // no trace of the other agents stops the owner
		w.Kill(w.owner)
		if w.r.IntN(2) == 0 {
			w.manager(w.r.IntN(2) == 0)
		}
		w.Start(w.owner)
	}
	w.works()
	w.t.Logf("round %d: %s, %s has the name", k, m.name, w.owner)
	w.Kill(w.owner)
	w.owner = ""
}

// agent declares an agent ALPHA with a state directory and a root of its own.
func (w *twins) agent(url string) (who string) {
	w.made++
	who = fmt.Sprintf("ALPHA-%d", w.made)
	w.Mkdir(who)
	w.AddOther(who, "agent ALPHA ready", "agent", "run", "ALPHA", "--network", url, "--dir", w.State(who), "--root", w.Root(who), "--direct", "off")
	w.File(who, "a", uint64(w.made), 3000)
	if w.self != "" {
		must(w.t, os.MkdirAll(w.State(who), 0o700))
		w.Copy(w.self, w.State(who))
	}
	return who
}

// enrol has one identity issued for all agents. With another one they would not be the same agent: the name has one,
// and the others are revoked.
func (w *twins) enrol() {
	first := w.agent(w.URL())
	w.Start(first)
	w.Kill(first)
	w.self = filepath.Join(w.State(first), "identity")
}

// manager kills the queue manager and restarts it, with or without its store.
func (w *twins) manager(lost bool) {
	w.Kill(network.QM)
	if lost {
		w.DeleteQueueManagerStore()
	}
	w.Start(network.QM)
}

// one waits until one of the agents is left. The others have given the reason for their end. Two agents of one name have
// 5 s to find each other once both reach the queue manager. The log has the measured time.
func (w *twins) one(all ...string) {
	w.t.Helper()
	from, left := time.Now(), 0
	w.Until("one agent of the name is left", func() bool {
		left = 0
		for _, who := range all {
			if w.Running(who) {
				left, w.owner = left+1, who
			}
		}
		return left <= 1
	})
	if left == 0 {
		w.t.Fatal("no agent of the name is left")
	}
	w.t.Logf("one agent of the name is left after %.1f s", time.Since(from).Seconds())
	for _, who := range all {
		if who == w.owner {
			continue
		}
		if code, text := w.ExitCode(who), w.Wrote(who); code != 70 || !strings.Contains(text, "agent ALPHA is already running ") {
			w.t.Errorf("%s has ended with %d: %s", who, code, text)
		}
	}
	w.Ready(w.owner)
}

// works expects the owner to complete a transfer.
func (w *twins) works() {
	w.t.Helper()
	out := fmt.Sprintf("out%d/%d", w.k, w.r.Uint32())
	w.Send("ALPHA:a", "BETA:"+out).Ends("successful", 0)
	w.Same(w.owner, "a", "BETA", out)
}

// together starts agents at the same instant.
func (w *twins) together() {
	var all []string
	for range 2 + w.r.IntN(2) {
		all = append(all, w.agent([]string{w.URL(), w.line.URL()}[w.r.IntN(2)]))
	}
	w.Launch(all...)
	if w.r.IntN(3) == 0 {
		w.manager(w.r.IntN(2) == 0)
	}
	w.one(all...)
}

// cut lets one agent take the name while the other one is cut off.
func (w *twins) cut() {
	first, second := w.agent(w.line.URL()), w.agent(w.URL())
	w.Start(first)
	w.line.Cut()
	w.Start(second)
	if w.r.IntN(3) == 0 {
		w.manager(w.r.IntN(2) == 0)
	}
	w.line.Heal()
	w.one(first, second)
}

// copied is cut with an agent on a copy of the other's state directory.
func (w *twins) copied() {
	first, second := w.agent(w.line.URL()), w.agent(w.URL())
	w.Start(first)
	copied := w.Frozen(first, w.State(first))
	w.Copy(copied+"/.", w.State(second))
	if w.r.IntN(2) == 0 {
		w.Launch(second)
		w.one(first, second)
		if w.owner != first {
			w.t.Errorf("%s, which lived, has made way for its copy", first)
		}
		return
	}
	w.line.Cut()
	w.Start(second)
	w.line.Heal()
	w.one(first, second)
}

// outage starts the second agent while the queue manager is away.
func (w *twins) outage() {
	first, second := w.agent(w.URL()), w.agent(w.URL())
	w.Start(first)
	w.Kill(network.QM)
	if w.r.IntN(2) == 0 {
		w.DeleteQueueManagerStore()
	}
	w.Launch(second)
	w.Start(network.QM)
	w.one(first, second)
}

// again kills the owner and the queue manager, which may lose its store, and restarts the owner on its state directory.
// It must start without waiting.
func (w *twins) again() {
	w.owner = w.agent(w.URL())
	w.Start(w.owner)
	waited := w.Logged(w.owner, "waiting for it") // for the owner of the round before
	for range 1 + w.r.IntN(3) {
		w.Kill(w.owner)
		if w.r.IntN(2) == 0 {
			w.manager(w.r.IntN(2) == 0)
		}
		w.Start(w.owner)
	}
	if w.Logged(w.owner, "waiting for it") > waited {
		w.t.Errorf("%s has waited for its own last run", w.owner)
	}
}

// beside starts other agents while a transfer of the owner runs. The transfer continues undisturbed.
func (w *twins) beside() {
	w.owner = w.agent(w.URL())
	w.Start(w.owner)
	w.File(w.owner, "big", uint64(w.made), 96<<20)
	out := fmt.Sprintf("out%d/big", w.k)
	s := w.SendAsync("ALPHA:big", "BETA:"+out)
	w.UntilEvery("the transfer runs", 20*time.Millisecond, func() bool { return s.Last().BytesSent > 1<<20 || !s.Running() })
	owner := w.owner
	for range 1 + w.r.IntN(2) {
		other := w.agent([]string{w.URL(), w.line.URL()}[w.r.IntN(2)])
		w.Launch(other)
		if w.one(owner, other); w.owner != owner {
			w.t.Fatalf("%s, which had the name, has made way for %s", owner, other)
		}
	}
	s.Wait().Ends("successful", 0)
	w.Same(owner, "big", "BETA", out)
	if err := os.Remove(w.Path("BETA", out)); err != nil {
		w.t.Fatal(err)
	}
}
