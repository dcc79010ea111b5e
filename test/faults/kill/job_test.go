//go:build linux

package kill_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// jobPoints are the points that a job meets, each with the minimum number of meetings.
var jobPoints = []struct {
	name  string
	often int
}{{"duty.after_command", 1}, {"duty.before_accept", 6}, {"duty.after_accept", 6}, {"job.before_settle", 2}, {"job.after_settle", 2}, {"job.after_last", 1}}

// TestCampaignKillJobs kills an agent at each step of a job. Each of its destinations gets one transfer, the sources
// are deleted after all have ended successfully, and the job's result follows from its transfers.
func TestCampaignKillJobs(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "kill-jobs", Unit: "kills", Full: 40, Short: 6,
		What: "kill -9 of an agent at each step between a job's command and its end",
	}, func(t *testing.T, c *campaign.C) { c.Cases(t, killJob) })
}

func killJob(t *testing.T, seed uint64, r *rand.Rand) {
	const destinations = 6
	point := jobPoints[seed%uint64(len(jobPoints))]
	nth := 1 + r.IntN(point.often)
	fails := r.IntN(2) == 0 // the first destination has the file already
	t.Logf("%s, the %d. time", point.name, nth)
	n := up(t, network.Setup{Env: map[string][]string{source: {armed(point.name, nth)}}})
	n.File(source, "out/a", seed, 1000)
	n.File(source, "out/b", seed+1, 100_000)
	args := []string{"send", "--delete-source", "--detach", source + ":out/*", dest + ":0/"}
	for k := 1; k < destinations; k++ {
		args = append(args, "--also-to", dest+":"+strconv.Itoa(k)+"/")
	}
	want, code := "successful", 0
	if fails {
		n.File(dest, "0/a", seed+2, 10)
		want, code = "partial", 20
	}
	made := n.Async(args...)
	n.Gone(source)
	n.Setenv(source)
	n.Start(source)
	made.Wait()

	if job := n.EndOfJob(source); job.State != want || job.Code != code {
		t.Errorf("the job is %s (%d), not %s (%d)", job.State, job.Code, want, code)
	}
	n.Destinations(dest, destinations, 2)
	left := n.Count(source, "out")
	if fails && left != 2 || !fails && left != 0 {
		t.Errorf("%d sources are left, and something failed: %t", left, fails)
	}
	n.Sound()
}
