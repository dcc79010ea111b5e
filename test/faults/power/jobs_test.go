//go:build linux

package power_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/faults/image"
	"ferry/test/flow/network"
)

// TestCampaignPowerJobs cuts the power of the source, or of all hosts, while a job submits its transfers and waits for
// their ends. Each destination gets its files by one transfer, and the sources are deleted once all have them.
func TestCampaignPowerJobs(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "power-jobs", Unit: "power cuts", Full: 50, Root: true, Tools: []string{"mkfs.ext4"},
		What: "the source, or everybody, loses its power between a job's command and its end",
	}, func(t *testing.T, c *campaign.C) { c.Cases(t, cutJob) })
}

func cutJob(t *testing.T, seed uint64, r *rand.Rand) {
	const destinations = 6
	s := &story{t: t, r: r, images: map[string][]*image.Image{}}
	setup := network.Setup{Ferry: campaign.Ferry(t), Agents: []string{source, destination}, Roots: map[string]string{}, States: map[string]string{}}
	for _, name := range everybody {
		s.images[name] = disks(t, r, name)
		setup.Roots[name] = s.images[name][0].Dir + "/root"
		setup.States[name] = s.images[name][len(s.images[name])-1].Dir + "/state"
	}
	s.n = network.Up(t, setup)
	n := s.n
	large := int64(r.IntN(4 * mib))
	for _, dir := range []string{"out", "kept"} {
		n.File(source, dir+"/a", seed, 1000)
		n.File(source, dir+"/b", seed+1, large)
	}
	s.every(everybody, (*image.Image).Sync)

	args := []string{"send", "--delete-source", "--detach", source + ":out/*", destination + ":0/"}
	for k := 1; k < destinations; k++ {
		args = append(args, "--also-to", destination+":"+strconv.Itoa(k)+"/")
	}
	made := n.Async(args...)
	many := r.IntN(destinations + 1)
	late := time.Now().Add(5 * time.Second)
	n.UntilEvery("some of the transfers have files", moment, func() bool {
		return n.Count(destination, strconv.Itoa(many-1)) > 0 || many == 0 || time.Now().After(late)
	})
	pause(r, 150*time.Millisecond)
	who := [][]string{{source}, everybody}[r.IntN(2)]
	s.fall(who)
	n.Start(who...)
	if result := made.Wait(); result.Code != 0 && result.Code != 3 { // 3: an agent that is up again takes it later
		t.Fatalf("the job was not taken: %s", result.Stderr)
	}

	if job := n.EndOfJob(source); job.State != "successful" || job.Code != 0 {
		t.Errorf("the job is %s (%d), not successful", job.State, job.Code)
	}
	n.Destinations(destination, destinations, 2)
	for k := range destinations {
		n.Same(source, "kept", destination, strconv.Itoa(k))
	}
	if left := n.Count(source, "out"); left != 0 {
		t.Errorf("%d sources are left, and all destinations have them", left)
	}
	n.Sound()
	t.Logf("%v cut when %d destinations had files", who, many)
}
