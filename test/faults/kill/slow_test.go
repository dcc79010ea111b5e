//go:build linux

package kill_test

import (
	"fmt"
	"syscall"
	"testing"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// maxMemory is what a source and a queue manager may take while a receiver
// stands still: what a Go program of this size takes anyway, and the data in
// flight, which the credit bounds. Where data piled up, 300 MiB would be added to
// that. Up to 124 MiB have been seen at a queue manager that carries all of it.
const maxMemory = 192 * mib

// maxAhead is what a source may send to a receiver that says nothing: the
// run-ahead, with the messages' own bytes.
const maxAhead = 14 * mib

// While a destination stands still in the middle of a large file, transfers
// from the same source to another one finish; the one that stands still waits
// and does not fail, and nobody gathers its data meanwhile.
func TestCampaignSlowReceiverReal(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "slow-receiver-real", Unit: "transfers", Full: 20,
		What: "transfers to one destination while another, in the middle of a large file of the same source, is stopped",
	}, func(t *testing.T, c *campaign.C) {
		const slow = "GAMMA"
		r := campaign.Rand(c.Seed)
		// What is sent ahead can be counted on the queue lane only.
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
