//go:build linux

package kill_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// perNetwork is the number of kills in one network. The next network begins with empty ledgers.
const perNetwork = 10

func TestCampaignKillSource(t *testing.T) { atRandom(t, "kill-source", "the source", source) }
func TestCampaignKillDestination(t *testing.T) {
	atRandom(t, "kill-destination", "the destination", dest)
}
func TestCampaignKillQueueManager(t *testing.T) {
	atRandom(t, "kill-queue-manager", "the queue manager", network.QM)
}
func TestCampaignKillAll(t *testing.T) {
	atRandom(t, "kill-all", "source, destination and queue manager at once", source, dest, network.QM)
}

// atRandom kills processes at random moments while several transfers of different shapes run, and restarts them. Each
// network has several rounds and is judged after each.
func atRandom(t *testing.T, name, who string, victims ...string) {
	campaign.Run(t, campaign.Spec{Name: name, Unit: "kills", Full: 100, Short: 2,
		What: "kill -9 of " + who + " at any moment, with several transfers of different shapes in flight",
	}, func(t *testing.T, c *campaign.C) {
		seed := c.Seed
		for left := c.Count; left > 0; seed++ {
			kills := 0
			if !t.Run(fmt.Sprint(seed), func(t *testing.T) { kills = lifetime(t, seed, min(left, perNetwork), victims) }) {
				t.Logf("this network again: make test-faults CAMPAIGN=%s SEED=%d COUNT=%d", name, seed, min(left, perNetwork))
				return
			}
			c.Add(kills)
			left -= kills
		}
	})
}

// lifetime runs one network with at most the given number of kills, and returns their number.
func lifetime(t *testing.T, seed uint64, kills int, victims []string) (done int) {
	r := campaign.Rand(seed)
	n := up(t, network.Setup{})
	for round := 0; done < kills; round++ {
		jobs := some(r, seed, fmt.Sprint(round))
		o, all := begin(n, jobs)
		// Three crashes without progress park a transfer, which is correct but not tested here. So a round has at most
		// two.
		for k := 1 + r.IntN(2); k > 0 && done < kills && instant(r, n, jobs, all); k-- {
			killed := inShape(r, n, victims)
			n.Kill(killed...)
			done++
			if r.IntN(2) == 0 {
				moment(r, 1500*time.Millisecond)
			}
			order := r.Perm(len(killed))
			for _, v := range order {
				n.Launch(killed[v])
			}
			n.Ready(killed...)
		}
		finish(t, n, o, jobs, all)
		if t.Failed() {
			return done
		}
	}
	return done
}

// inShape returns the victims in the shape of a network (SHAPE). If there are several queue managers, it chooses one of
// them or all.
func inShape(r *rand.Rand, n *network.Network, victims []string) []string {
	managers := n.Managers()
	if n.Channels() {
		managers = []string{network.QM, n.ManagerOf(source), n.ManagerOf(dest)}
	}
	if len(managers) > 1 && r.IntN(2) == 0 {
		managers = managers[r.IntN(len(managers)):][:1]
	}
	var all []string
	for _, v := range victims {
		if v == network.QM {
			all = append(all, managers...)
		} else {
			all = append(all, v)
		}
	}
	return all
}

// begin starts jobs that arrive beneath one directory, and an observer of it.
func begin(n *network.Network, jobs []*network.Job) (o *network.Observer, all []*network.Sending) {
	for _, j := range jobs {
		n.Make(j)
	}
	o = n.Observe(dest, jobs[0].Out, jobs...)
	for _, j := range jobs {
		all = append(all, n.Resubmit(j))
	}
	return o, all
}

// finish judges jobs and removes their files.
func finish(t *testing.T, n *network.Network, o *network.Observer, jobs []*network.Job, all []*network.Sending) {
	t.Helper()
	healed := time.Now()
	for i, j := range jobs {
		j.ID = all[i].ID()
		n.End(j, 3*time.Minute)
	}
	t.Logf("%d transfers have ended %.1f s after the last fault", len(jobs), time.Since(healed).Seconds())
	n.Judge(o.Tell, jobs...)
	if !t.Failed() {
		for _, j := range jobs {
			n.Clear(j)
		}
	}
}

// ways are the flags of transfers; most have none.
var ways = [][]string{nil, nil, nil, nil, {"--durability", "process"}, {"--checksum", "none"}, {"--checksum", "sha256"}, {"--checksum", "md5"},
	{"--chunk-size", "16K", "--window", "4"}, {"--chunk-size", "1M"}, {"--checkpoint-interval", "3"}, {"--priority", "9"}, {"--delivery", "stored"}, {"--delivery", "stored", "--compress", "fast"}}

// mostTogether is the maximum number of files sent together. With their directories they are within transfer.MaxSet.
const mostTogether = 200

// some returns three to five jobs of random shapes and sizes.
func some(r *rand.Rand, seed uint64, round string) (jobs []*network.Job) {
	for k := range 3 + r.IntN(3) {
		drawn := append(slices.Clone(shapes), appended)
		j := drawn[r.IntN(len(drawn))].make(seed+uint64(k)<<32, "")
		name := fmt.Sprint(round, "/", k)
		j.In, j.Out = "in/"+name, "out/"+round
		if j.Count > 1 {
			j.Count = 1 + r.IntN(j.Count)
		}
		j.Size = 1 + r.Int64N(j.Size)
		j.Flags, j.Listed = ways[r.IntN(len(ways))], r.IntN(4) == 0
		if j.Count <= mostTogether && !slices.Contains(j.Flags, "stored") && r.IntN(3) == 0 {
			j.Flags = append(slices.Clip(j.Flags), "--together")
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// instant waits for a random moment during the jobs: a number of arrived files or a random time. It returns false if
// all jobs have ended by then.
func instant(r *rand.Rand, n *network.Network, jobs []*network.Job, all []*network.Sending) bool {
	files := 0
	for _, j := range jobs {
		files += j.Count
	}
	arrived := r.IntN(2) == 0
	want := r.IntN(files)
	limit := time.After(time.Duration(r.Int64N(int64(time.Second))))
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for under := true; under; {
		if arrived && n.Count(dest, jobs[0].Out) > want {
			return true
		}
		under = false
		for _, s := range all {
			under = under || s.Running()
		}
		select {
		case <-tick.C:
		case <-limit:
			return under
		}
	}
	return false
}
