//go:build linux

package kill_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// timeouts are the times after which other processes react to a silent one: no ACK; no answer to OPEN, and a silent
// source; UNREACHABLE. A repeated value is chosen more often.
var timeouts = []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second, 10 * time.Second, 15 * time.Second}

// pausesPerNetwork is the number of pauses in one network.
const pausesPerNetwork = 4

// TestCampaignPausesReal stops a process for up to three times a timeout of its peers, and continues it. It must not
// repeat an action.
func TestCampaignPausesReal(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "pauses-real", Unit: "pauses", Full: 40, Short: 2,
		What: "source, destination or queue manager stopped for up to three times each time-out, in the middle of several transfers",
	}, func(t *testing.T, c *campaign.C) {
		seed := c.Seed
		for left := c.Count; left > 0; seed++ {
			pauses := min(left, pausesPerNetwork)
			if !t.Run(fmt.Sprint(seed), func(t *testing.T) { paused(t, seed, pauses, c.Short) }) {
				t.Logf("this network again: make test-faults CAMPAIGN=pauses-real SEED=%d COUNT=%d", seed, pauses)
				return
			}
			c.Add(pauses)
			left -= pauses
		}
	})
}

func paused(t *testing.T, seed uint64, pauses int, short bool) {
	r := campaign.Rand(seed)
	n := up(t, network.Setup{})
	for round := 0; pauses > 0; round++ {
		jobs := some(r, seed, fmt.Sprint(round))
		o, all := begin(n, jobs)
		who := []string{source, dest, network.QM}[r.IntN(3)]
		pause := howLong(r, short)
		if instant(r, n, jobs, all) {
			n.Signal(who, syscall.SIGSTOP)
			t.Logf("%s stands still for %.1f s", who, pause.Seconds())
			<-time.After(pause)
			n.Signal(who, syscall.SIGCONT)
			pauses--
		}
		finish(t, n, o, jobs, all)
		if t.Failed() {
			return
		}
	}
}

func howLong(r *rand.Rand, short bool) time.Duration {
	if short {
		return time.Duration(r.Int64N(int64(4 * time.Second)))
	}
	return time.Duration(r.Int64N(int64(3 * timeouts[r.IntN(len(timeouts))])))
}
