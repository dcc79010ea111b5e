//go:build linux

package kill_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// TestCampaignKillFailpoints kills the process that meets a failpoint and starts it again. It does this at each point
// named in the code and in each kind of work that meets it. In some cases a second kill interrupts the recovery. A
// point that no process meets fails the test, because no case would cover it.
func TestCampaignKillFailpoints(t *testing.T) {
	all := plans(t)
	campaign.Run(t, campaign.Spec{Name: "kill-failpoints", Unit: "kills", Full: len(all), Short: 10,
		What: "kill -9 of whoever meets a named point of the code, at each point and in each kind of work that meets it",
	}, func(t *testing.T, c *campaign.C) {
		t.Logf("%d cases in all", len(all))
		c.Cases(t, func(t *testing.T, seed uint64, r *rand.Rand) {
			// Neighbouring seeds lie far apart, so that a short run covers different points.
			p := all[seed*spread(len(all))%uint64(len(all))]
			t.Logf("%s in %s, of %s", p.name, p.shape.name, p.who)
			k := &killing{plan: p, r: r}
			nth, before := 1, 1
			if !p.once && r.IntN(2) == 0 {
				nth += r.IntN(3)
			}
			if p.way == afterAKill && r.IntN(2) == 0 {
				before += r.IntN(2)
			}
			left := tries(p, nth+before)
			k.last = left == 0
			met := k.run(t, seed, nth, before)
			for ; !met && left > 0; left-- {
				k.last = left == 1
				before := 1
				if p.before == committing { // on a slow host the first group has the directory alone
					before += left % 2
				}
				met = k.run(t, seed, 1, before)
			}
			if !met {
				t.Errorf("the failpoint %s is not met by %s in work of the kind %s", p.name, p.who, p.shape.name)
			}
		})
	})
}

// tries returns how often a case that has not met its point is tried again. If the point had to be met several times,
// the case is tried once more. There are more tries if the transfer may have ended too early: before it was cancelled,
// before the gap in its messages was noticed, or before the first kill; or if the first kill met a group without files.
func tries(p plan, times int) int {
	switch {
	case p.way == cancelled, p.way == afterAGap, p.way == afterAKill && (p.before == "" || p.before == committing):
		return 15
	case times > 2:
		return 1
	}
	return 0
}

// spread returns a number near the golden section of n without a common divisor. Its multiples meet all of 0 to n-1,
// far apart.
func spread(n int) uint64 {
	k := n * 618 / 1000
	for gcd(k, n) != 1 {
		k++
	}
	return uint64(k)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// A killing is one case.
type killing struct {
	plan
	r *rand.Rand
	n *network.Network
	j *network.Job

	last bool // the point must be met: the case is not tried again
}

// tidying returns how long a process may take to meet its point after the end of the transfer. Only the last try waits
// for a busy host.
func (k *killing) tidying() time.Duration {
	if k.last {
		return time.Minute
	}
	return 2 * time.Second
}

func armed(point string, nth int) string {
	return fmt.Sprintf("FERRY_FAILPOINT=%s=kill@%d", point, nth)
}

// run runs one try. It returns false if the nth meeting of the point did not happen, or the meeting before of the first
// point.
func (k *killing) run(t *testing.T, seed uint64, nth, before int) (met bool) {
	setup := network.Setup{Env: map[string][]string{}, Wrap: map[string][]string{}}
	if k.name == "ledger.before_transaction" {
		nth += 6 // plus those of the agent's start
	}
	first := armed(k.name, nth)
	if k.way == afterAKill {
		switch first = armed(k.before, before); k.before {
		case "":
			first = "" // a kill at a random moment
		case "sender.before_message": // in the middle of the file, with messages of 256 KiB or 1 MiB
			setup.Direct = []string{"off", "plain", "tls"}[k.r.IntN(3)]
			first = armed(k.before, 60+k.r.IntN(100))
			if setup.Direct != "off" {
				first = armed(k.before, 25+k.r.IntN(25))
			}
		}
	}
	if k.who != "" && first != "" {
		setup.Env[k.who] = []string{first}
	}
	if k.way == afterAGap {
		setup.Direct = "off" // a stranger can insert a message only on the queue lane
	}
	if k.way == linking {
		setup.Wrap[dest] = withoutRenameat2()
	}
	k.n = up(t, setup)
	k.j = k.shape.make(seed, k.shape.name)
	if k.way == cancelled {
		k.j.Want = []string{"cancelled", "successful", "partial"}
	}
	k.n.Make(k.j)
	o := k.n.Observe(dest, k.j.Out, k.j)
	if k.way == submitting {
		met = k.submit(armed(k.name, nth))
	} else {
		met = k.strike(nth)
	}
	if met {
		back := time.Now()
		k.n.End(k.j, 3*time.Minute)
		t.Logf("ended %.1f s after the last start", time.Since(back).Seconds())
		k.n.Judge(o.Tell, k.j)
		t.Logf("judged after %.1f s", time.Since(back).Seconds())
	}
	return met
}

// submit makes the submitting command meet the point. Transfers that it has handed over run without it; the others
// never run.
func (k *killing) submit(arm string) bool {
	s := k.n.ResubmitWith([]string{arm}, k.j)
	<-s.Ended()
	if !s.Killed() {
		return false
	}
	all := k.n.Transfers()
	if k.name != "submit.after_enqueue" { // the head of the request was not stored
		k.j.ID = k.n.Resubmit(k.j).ID()
		return true
	}
	if len(all) != 1 {
		return false
	}
	k.j.ID = all[0].ID
	return true
}

// strike sends the job, waits for the kill at the point and restarts the killed process.
func (k *killing) strike(nth int) bool {
	n := k.n
	s := n.Resubmit(k.j)
	switch k.way {
	case afterAGap:
		if !k.gap(s) {
			return false
		}
	case cancelled:
		if !k.cancel(s) {
			return false
		}
	case afterAKill:
		if !k.firstKill(s) {
			return false
		}
		n.Setenv(k.who, armed(k.name, nth))
		n.Launch(k.who)
	}
	if !k.dies(s, k.tidying()) {
		return false
	}
	n.Setenv(k.who)
	if again := second[k.who]; again != nil && k.way != afterAKill && k.r.IntN(3) == 0 {
		n.Setenv(k.who, armed(again[k.r.IntN(len(again))], 1+k.r.IntN(2)))
		n.Launch(k.who)
		if !k.dies(s, 2*time.Second) {
			n.EnsureKilled(k.who) // otherwise it may meet the point while the judge asks
		}
		n.Setenv(k.who)
	}
	n.Start(k.who)
	k.j.ID = s.ID()
	return true
}

// firstKill causes the crash before the one at the point.
func (k *killing) firstKill(s *network.Sending) bool {
	if k.before != "" {
		return k.dies(s, k.tidying())
	}
	moment(k.r, 300*time.Millisecond)
	k.n.Kill(k.who)
	return true
}

// dies waits until the process with a failpoint has met it, or the transfer has ended without.
func (k *killing) dies(s *network.Sending, tidying time.Duration) bool {
	n := k.n
	n.Until(k.who+" meets its failpoint, or the transfer has ended", func() bool { return !n.Running(k.who) || !s.Running() })
	if !n.Running(k.who) {
		return true
	}
	// The cleanup after the transfer may still meet it.
	over := time.After(tidying)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n.Running(k.who) {
		select {
		case <-tick.C:
		case <-over:
			return false
		}
	}
	return true
}

// gap publishes a message with a position far ahead of the next one, so that the destination notices missing messages.
// It returns false if the transfer was over before.
func (k *killing) gap(s *network.Sending) bool {
	w := k.n.Wire()
	id, err := transfer.ParseID(s.ID())
	if err != nil {
		panic(err)
	}
	subject := wire.DataSubject(dest, source, id)
	first := w.Samples("ferry.data."+dest+".>", 1)
	k.n.Until("data flows, or the transfer has ended", func() bool { return len(first()) > 0 || !s.Running() })
	if len(first()) == 0 {
		return false
	}
	h, err := wire.PeekHeader(first()[0])
	if err != nil {
		panic(err)
	}
	w.Say(subject, wire.NewBuilder(4096, nil).Seal(wire.Header{Transfer: id, Epoch: h.Epoch, Seq: h.Seq + 1<<20}))
	return true
}

// cancel cancels the transfer after some data have arrived. It freezes the destination until the source has taken the
// cancel, so that the transfer does not end first. It does not wait for the command, because the agent that has to
// answer may be killed. It returns false if the transfer ended before.
func (k *killing) cancel(s *network.Sending) bool {
	n := k.n
	n.Until("something has arrived, or the transfer has ended", func() bool {
		return len(n.Temporaries(dest)) > 0 || !k.j.Replace && !k.j.Append && n.Count(dest, k.j.Out) > 0 || !s.Running()
	})
	if !s.Running() {
		return false
	}
	n.Signal(dest, syscall.SIGSTOP)
	c := n.Async("transfer", "cancel", s.ID())
	over := time.After(2 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting && c.Running() && n.Running(source); {
		select {
		case <-tick.C:
		case <-over:
			waiting = false
		}
	}
	n.Signal(dest, syscall.SIGCONT)
	return true
}
