//go:build linux

package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

const (
	// perNetwork is the number of faults in one network before the next network begins.
	perNetwork = 7

	// again is the time within which a transfer must end once the cluster is whole. It has a large margin: on an idle
	// host a transfer takes a second or two, which the test logs.
	again = 3 * time.Minute
)

// A fault is one way of stopping or separating queue managers, and of restoring them.
type fault struct {
	name string
	f    func(*network.Network, *wires, *rand.Rand)
}

var faults = []fault{
	{"leader", func(n *network.Network, _ *wires, r *rand.Rand) {
		victim := n.Leads("FERRY_COMMAND")
		if victim == "" {
			victim = network.MemberName(r.IntN(3))
		}
		n.Kill(victim)
		moment(r, 8*time.Second)
		n.Start(victim)
	}},
	{"rolling", func(n *network.Network, _ *wires, _ *rand.Rand) {
		for _, who := range n.Members() {
			n.Stop(who)
			n.Start(who)
			n.Whole()
		}
	}},
	{"partition", func(n *network.Network, w *wires, r *rand.Rand) {
		k := r.IntN(3)
		w.pull(k)
		defer w.plug(k)
		n.UntilEvery("the others say who is away", 200*time.Millisecond, func() bool {
			for _, m := range n.QueueManagers(network.MemberName((k + 1) % 3)) {
				if m.Name == network.MemberName(k) {
					return !m.Up
				}
			}
			return false
		})
		moment(r, 8*time.Second)
	}},
	{"all", func(n *network.Network, _ *wires, r *rand.Rand) {
		n.Kill(n.Members()...)
		moment(r, time.Second)
		all := n.Members()
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		n.Launch(all...)
		n.Ready(all...)
	}},
	{"power of one", func(n *network.Network, w *wires, r *rand.Rand) {
		k := r.IntN(3)
		w.blackout(n, k)
		moment(r, 8*time.Second)
		n.Start(network.MemberName(k))
	}},
	{"power of all", func(n *network.Network, w *wires, _ *rand.Rand) {
		w.blackout(n, 0, 1, 2)
		n.Launch(n.Members()...)
		n.Ready(n.Members()...)
	}},
	{"two", func(n *network.Network, _ *wires, r *rand.Rand) {
		all := n.Members()
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		n.Kill(all[:2]...)
		moment(r, 4*time.Second)
		n.Launch(all[:2]...)
		n.Ready(all[:2]...)
	}},
}

// TestCampaignCluster stops or separates queue managers of a cluster while transfers run on both lanes.
func TestCampaignCluster(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "cluster", Unit: "faults", Full: 50 * len(faults), Short: 2, Root: true, Tools: []string{"ip", "nsenter", "mkfs.ext4"},
		What: "queue managers of a cluster of three killed, restarted in turn or all at once, without power, or cut off from the others, with several transfers in flight",
	}, func(t *testing.T, c *campaign.C) {
		seed := c.Seed
		for left := c.Count; left > 0; seed++ {
			done := 0
			if !t.Run(fmt.Sprint(seed), func(t *testing.T) { done = lifetime(t, seed, min(left, perNetwork)) }) {
				t.Logf("this network again: make test-faults CAMPAIGN=cluster SEED=%d COUNT=%d", seed, min(left, perNetwork))
				return
			}
			c.Add(done)
			left -= done
		}
	})
}

// lifetime runs one network with a number of faults.
func lifetime(t *testing.T, seed uint64, count int) (done int) {
	r := campaign.Rand(seed)
	w := lay(t, 3)
	n := network.Up(t, network.Setup{Ferry: campaign.Tagged(t, "failpoint"), Agents: []string{source, dest}, Cluster: w.members, Wrap: w.wrap, States: w.states(r)})
	n.Whole()
	order := r.Perm(len(faults))
	for ; done < count; done++ {
		f := faults[order[done%len(order)]]
		jobs := some(r, seed, fmt.Sprint(done))
		for _, j := range jobs {
			n.Make(j)
		}
		o := n.Observe(dest, jobs[0].Out, jobs...)
		var all []*network.Sending
		for _, j := range jobs {
			all = append(all, n.Resubmit(j))
		}
		moment(r, time.Second)
		began := time.Now()
		f.f(n, w, r)
		n.Whole()
		whole := time.Now()
		for i, j := range jobs {
			j.ID = all[i].ID()
			if state, ended := n.End(j, again); !ended {
				t.Errorf("%s: a transfer has not ended within %s of when the cluster was whole: %s", f.name, again, state)
			}
		}
		t.Logf("%s: the cluster was whole %.1f s after the fault began, and %d transfers have ended %.1f s later", f.name, whole.Sub(began).Seconds(), len(jobs), time.Since(whole).Seconds())
		n.Judge(o.Tell, jobs...)
		notices(t, n)
		if t.Failed() {
			return done
		}
		for _, j := range jobs {
			n.Clear(j)
		}
	}
	return done
}

// notices fails if a queue manager reports a loss: there was none.
func notices(t *testing.T, n *network.Network) {
	t.Helper()
	for _, m := range n.QueueManagers("") {
		if m.Degraded != "" {
			t.Errorf("%s says: %s", m.Name, m.Degraded)
		}
	}
	n.UntilEvery("nobody is degraded", 500*time.Millisecond, func() bool {
		manager, agents := n.Degraded()
		for who, why := range agents {
			if strings.Contains(why, "lost") || strings.Contains(why, "back") || strings.Contains(why, "skipped") {
				t.Errorf("%s says: %s", who, why)
				return true
			}
		}
		return manager == "" && len(agents) == 0
	})
}

// some returns jobs of random shapes, on either lane.
func some(r *rand.Rand, seed uint64, round string) (jobs []*network.Job) {
	for k := range 3 + r.IntN(3) {
		j := []network.Job{{Count: 1, Size: 60 * mib}, {Count: 1000, Size: 600}, {Count: 12, Size: mib, Deep: true, Delete: true}, {Count: 40, Size: 60 << 10, Replace: true}}[r.IntN(4)]
		name := fmt.Sprint(round, "/", k)
		j.From, j.To, j.In, j.Out, j.Seed = source, dest, "in/"+name, "out/"+round, seed+uint64(k)<<32
		if j.Count > 1 {
			j.Count = 1 + r.IntN(j.Count)
		}
		j.Size = 1 + r.Int64N(j.Size)
		if r.IntN(2) == 0 {
			j.Flags = []string{"--lane", "queue"}
		}
		jobs = append(jobs, &j)
	}
	return jobs
}

// moment waits for a random time up to limit, independent of the program's progress.
func moment(r *rand.Rand, limit time.Duration) {
	<-time.After(time.Duration(r.Int64N(int64(limit))))
}
