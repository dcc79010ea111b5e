//go:build linux

package disk_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// TestCampaignDescriptors runs agents with a low limit of open files. They send and receive several trees at once. At
// times the limit falls below the number of open files. An agent must retry an open that fails then. No transfer fails.
func TestCampaignDescriptors(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "descriptors", Unit: "trees", Full: 500, Short: 24, Tools: []string{"prlimit"},
		What: "trees of small files sent at once by agents that may have few files open, and for moments less than they have"},
		func(t *testing.T, c *campaign.C) {
			for seed, done := c.Seed, 0; done < c.Count; seed++ {
				ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
					n := fewFiles(t, campaign.Rand(seed), seed, c.Count-done)
					done += n
					c.Add(n)
				})
				if !ok {
					t.Logf("this case again: make test-faults CAMPAIGN=descriptors SEED=%d COUNT=%d", seed, c.Count-done)
					return
				}
			}
		})
}

// fewFiles runs a case and returns the number of its trees.
func fewFiles(t *testing.T, r *rand.Rand, seed uint64, most int) int {
	limit := []int{56, 64, 80, 128, 256, 1024}[r.IntN(6)]
	few := []string{"prlimit", fmt.Sprintf("--nofile=%d:%d", limit, limit), "--"}
	n := network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{"ALPHA", "BETA"},
		Wrap: map[string][]string{"ALPHA": few, "BETA": few}})
	var jobs []*network.Job
	var sendings []*network.Sending
	for i := range min(most, 2+r.IntN(7)) {
		j := &network.Job{From: "ALPHA", To: "BETA", In: fmt.Sprint("in/", i), Out: fmt.Sprint("out", i), Seed: seed<<8 + uint64(i),
			Count: 100 + r.IntN(400), Size: r.Int64N(5000), Deep: r.IntN(2) == 0, Delete: r.IntN(4) == 0, Replace: r.IntN(4) == 0}
		if r.IntN(4) == 0 { // opens files ahead of their turn
			j.Flags = []string{"--checksum", "md5"}
		}
		if r.IntN(3) == 0 {
			j.From, j.To = j.To, j.From
		}
		n.Make(j)
		jobs = append(jobs, j)
	}
	for _, j := range jobs {
		sendings = append(sendings, n.Resubmit(j))
	}
	n.Until("a file arrives", func() bool {
		return len(n.Temporaries("ALPHA"))+len(n.Temporaries("BETA")) > 0 || !slices.ContainsFunc(sendings, (*network.Sending).Running)
	})
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for squeezes := 0; squeezes < 20 && slices.ContainsFunc(sendings, (*network.Sending).Running); squeezes++ {
		<-tick.C
		pid := n.Pid([]string{"ALPHA", "BETA"}[r.IntN(2)])
		atMost(t, pid, r.IntN(opened(t, pid)+2))
		<-tick.C
		atMost(t, pid, limit)
	}
	for i, s := range sendings {
		jobs[i].ID = s.Wait().Ends("successful", 0).Summary.ID
	}
	n.Judge(nil, jobs...)
	t.Logf("limit %d: %d trees", limit, len(jobs))
	return len(jobs)
}

// opened returns the greatest descriptor of a process plus one, which is the number that the limit applies to.
func opened(t *testing.T, pid int) (n int) {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must(t, err)
	for _, fd := range fds {
		k, err := strconv.Atoi(fd.Name())
		must(t, err)
		n = max(n, k+1)
	}
	return n
}

// atMost sets the soft limit of open files of a process. The hard limit stays.
func atMost(t *testing.T, pid, n int) {
	t.Helper()
	var l unix.Rlimit
	must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &l))
	l.Cur = min(uint64(n), l.Max)
	must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &l, nil))
}
