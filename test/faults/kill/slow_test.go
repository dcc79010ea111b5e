//go:build linux

package kill_test

import (
	"fmt"
	"syscall"
	"testing"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// maxMemory is the maximum memory of a source and of a queue manager while a receiver is stopped. It covers the base
// need of such a Go program and the data in flight, which the credit bounds. Accumulated data would add 300 MiB. A
// queue manager that carries all data has needed up to 124 MiB.
const maxMemory = 192 * mib

// maxAhead is the maximum amount that a source may send to a silent receiver: the run-ahead plus the overhead of
// messages.
const maxAhead = 14 * mib

// TestCampaignSlowReceiverReal stops a destination in the middle of a large file. Transfers from the same source to
// another destination must finish. The stopped transfer must wait without failing, and no process may accumulate its
// data.
func TestCampaignSlowReceiverReal(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "slow-receiver-real", Unit: "transfers", Full: 20,
		What: "transfers to one destination while another, in the middle of a large file of the same source, is stopped",
	}, func(t *testing.T, c *campaign.C) {
		const slow = "GAMMA"
		r := campaign.Rand(c.Seed)
		// The data sent ahead can be counted on the queue lane only.
		n := up(t, network.Setup{Agents: []string{source, dest, slow}, Direct: "off"})
		large := &network.Job{From: source, To: slow, In: "in/large", Out: "out", Seed: c.Seed, Count: 1, Size: 300 * mib}
		n.Make(large)
		stands := n.Resubmit(large)
		large.ID = stands.ID()
		n.Growing(slow, 30*mib)
		n.Signal(slow, syscall.SIGSTOP)
		ahead := n.Wire().Carried(slow)

		var jobs []*network.Job
		for k := range c.Count {
			j := shapes[k%len(shapes)].make(c.Seed+uint64(k)<<32, "")
			j.In, j.Out = fmt.Sprint("in/", k), "out/fast"
			j.Count, j.Size = 1+r.IntN(j.Count), 1+r.Int64N(j.Size)
			n.Make(j)
			jobs = append(jobs, j)
		}
		o := n.Observe(dest, "out/fast", jobs...)
		for k := range jobs {
			jobs[k].ID = n.Resubmit(jobs[k]).ID()
		}
		n.Judge(o.Tell, jobs...)
		c.Add(len(jobs))
		if p := n.Status(large.ID); p.Final() || !stands.Running() {
			t.Errorf("while its destination stands still, the large transfer is %s: %s", p.State, p.Reason)
		}
		t.Logf("%d KiB were sent to the one that stands still", ahead.Load()/kib)
		if sent := ahead.Load(); sent > maxAhead {
			t.Errorf("%d bytes were sent to a destination that stands still; %d may be", sent, maxAhead)
		}
		for _, who := range []string{source, network.QM} {
			rss := n.PeakRSS(who)
			t.Logf("%s has taken %d MiB at most", who, rss/mib)
			if rss > maxMemory {
				t.Errorf("%s has taken %d MiB, more than %d", who, rss/mib, maxMemory/mib)
			}
		}
		n.Signal(slow, syscall.SIGCONT)
		n.Judge(nil, large)
	})
}
