//go:build linux

package flow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/test/flow/network"
)

const (
	mib = 1 << 20

	// maxResent is the permitted cost of one interruption in bytes: a checkpoint and the run-ahead.
	maxResent = 25 * mib
)

// victims are the processes that a story kills, alone and together.
var victims = [][]string{{"BETA"}, {"ALPHA"}, {network.QM}, {network.QM, "ALPHA", "BETA"}}

// TestKilledInTheMiddleOfAFile kills each process in the middle of a large file. The transfer resumes from its last
// point: the file is whole, little is sent again, and no temporary is left.
func TestKilledInTheMiddleOfAFile(t *testing.T) {
	t.Parallel()
	for _, who := range victims {
		t.Run(strings.Join(who, "+"), func(t *testing.T) {
			n := up(t, "ALPHA", "BETA")
			n.File("ALPHA", "big", 2, 144*mib)

			carried := n.Wire().Carried("BETA")
			s := n.SendAsync("--limit", "40M", "ALPHA:big", "BETA:out/")
			n.Growing("BETA", 60*mib)
			n.Kill(who...)
			n.Start(who...)
			sum := s.Wait().Ends("successful", 0).Summary
			again := max(sum.BytesResent, carried.Load()-144*(mib+4096))

			n.Same("ALPHA", "big", "BETA", "out/big")
			once(t, n, sum.ID, 1)
			p := n.Status(sum.ID)
			if most := p.MayResend(); again > most {
				t.Errorf("%d bytes were sent again after one interruption; %d may be", again, most)
			}
			t.Logf("resumes %d, sent again %d KiB (it says %d), %.1f s", sum.Resumes, again>>10, sum.BytesResent>>10, sum.Seconds)
		})
	}
}

// TestKilledBetweenFiles kills each process between many small files. Each file is committed once: arrived files are
// not changed again, and no item is recorded twice.
func TestKilledBetweenFiles(t *testing.T) {
	t.Parallel()
	for _, who := range victims {
		t.Run(strings.Join(who, "+"), func(t *testing.T) {
			n := up(t, "ALPHA", "BETA")
			n.Files("ALPHA", "many", 3, 3000, 2000)

			s := n.SendAsync("-r", "ALPHA:many", "BETA:out/")
			n.Arrived("BETA", "out/many", 500)
			n.Kill(who...)
			landed := n.Landed("BETA", "out/many")
			n.Start(who...)
			sum := s.Wait().Ends("successful", 0).Summary

			n.Same("ALPHA", "many", "BETA", "out/many")
			n.Untouched("BETA", "out/many", landed)
			once(t, n, sum.ID, 3001)
			if sum.Files != 3000 || sum.BytesResent > maxResent {
				t.Errorf("the summary says %+v", sum)
			}
			t.Logf("%d had landed; resumes %d, sent again %d KiB, %.1f s", len(landed), sum.Resumes, sum.BytesResent>>10, sum.Seconds)
		})
	}
}

// TestKilledThreeTimesInARow kills a process three times in a row, with progress between. The transfer is not parked,
// and costs no more than three interruptions may.
func TestKilledThreeTimesInARow(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"BETA", "ALPHA", network.QM} {
		t.Run(who, func(t *testing.T) {
			n := up(t, "ALPHA", "BETA")
			n.File("ALPHA", "big", 4, 144*mib)

			s := n.SendAsync(paced, "ALPHA:big", "BETA:out/")
			for _, size := range []int64{24, 48, 72} {
				n.Growing("BETA", size*mib)
				n.Kill(who)
				n.Start(who)
			}
			sum := s.Wait().Ends("successful", 0).Summary

			n.Same("ALPHA", "big", "BETA", "out/big")
			once(t, n, sum.ID, 1)
			if sum.BytesResent > 3*maxResent {
				t.Errorf("%d bytes were sent again after three interruptions; %d may be", sum.BytesResent, 3*maxResent)
			}
			t.Logf("resumes %d, sent again %d KiB, %.1f s", sum.Resumes, sum.BytesResent>>10, sum.Seconds)
		})
	}
}

// TestStoppedInTheMiddleOfAFile stops an agent during a transfer. Its next run resumes the transfer.
func TestStoppedInTheMiddleOfAFile(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"BETA", "ALPHA", network.QM} {
		t.Run(who, func(t *testing.T) {
			n := up(t, "ALPHA", "BETA")
			n.File("ALPHA", "big", 5, 112*mib)

			s := n.SendAsync(paced, "ALPHA:big", "BETA:out/")
			n.Growing("BETA", 40*mib)
			n.Stop(who)
			if n.Exists("BETA", "out/big") {
				t.Error("the file has its final name before it is whole")
			}
			n.Start(who)
			sum := s.Wait().Ends("successful", 0).Summary

			n.Same("ALPHA", "big", "BETA", "out/big")
			once(t, n, sum.ID, 1)
			if sum.BytesResent > maxResent {
				t.Errorf("%d bytes were sent again; %d may be", sum.BytesResent, maxResent)
			}
		})
	}
}

// TestQueueManagersStoreIsDeleted deletes the queue manager's store. An accepted request is not lost, nor is a
// submitted one before its acceptance while its submitter waits.
func TestQueueManagersStoreIsDeleted(t *testing.T) {
	t.Parallel()
	t.Run("between submission and acceptance", func(t *testing.T) {
		n := up(t, "ALPHA", "BETA")
		n.File("ALPHA", "a", 6, 3*mib)
		n.Stop("ALPHA")

		s := n.SendAsync("ALPHA:a", "BETA:out/")
		n.UntilEvery("the transfer is queued", 50*time.Millisecond, func() bool {
			all := n.Transfers()
			return len(all) == 1 && all[0].State == "queued"
		})
		n.Kill(network.QM)
		n.DeleteQueueManagerStore()
		n.Start(network.QM, "ALPHA")

		sum := s.Wait().Ends("successful", 0).Summary
		n.Same("ALPHA", "a", "BETA", "out/a")
		once(t, n, sum.ID, 1)
	})
	t.Run("in mid-transfer", func(t *testing.T) {
		n := up(t, "ALPHA", "BETA")
		n.File("ALPHA", "big", 7, 96*mib)

		s := n.SendAsync(paced, "ALPHA:big", "BETA:out/")
		n.Growing("BETA", 30*mib)
		n.Kill(network.QM)
		n.DeleteQueueManagerStore()
		n.Start(network.QM)

		sum := s.Wait().Ends("successful", 0).Summary
		n.Same("ALPHA", "big", "BETA", "out/big")
		once(t, n, sum.ID, 1)
	})
}

// TestDestinationIsAwayAtSubmission submits a transfer to an agent that is away. The transfer is accepted, names the
// agent that it waits for, and runs when the agent starts.
func TestDestinationIsAwayAtSubmission(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 8, 3*mib)
	n.Stop("BETA")

	s := n.SendAsync("ALPHA:a", "BETA:out/")
	p := n.WaitState(s.ID(), "waiting")
	if !strings.Contains(p.Reason.String(), "BETA") {
		t.Errorf("it waits without naming whom for: %s", p.Reason)
	}
	n.Start("BETA")

	sum := s.Wait().Ends("successful", 0).Summary
	n.Same("ALPHA", "a", "BETA", "out/a")
	once(t, n, sum.ID, 1)
}

// once expects a transfer's audit to have every item once on each side, and the log to be sound. It expects no
// temporaries at the agents: ALPHA and BETA, unless others are named.
func once(t *testing.T, n *network.Network, id string, items int, agents ...string) {
	t.Helper()
	records := n.Audit(id)
	var sides [2]map[uint64]network.Outcome
	for i, role := range []string{"source", "destination"} {
		sides[i] = n.Outcomes(records, role)
		if len(sides[i]) != items {
			t.Errorf("the %s has %d items on record, not %d", role, len(sides[i]), items)
		}
	}
	for item, o := range sides[0] {
		if p := sides[1][item]; fmt.Sprint(o.Path, o.Digest, o.Size) != fmt.Sprint(p.Path, p.Digest, p.Size) {
			t.Errorf("the two sides have item %d on record differently: %+v and %+v", item, o, p)
		}
	}
	last := map[string]int{}
	for _, r := range records {
		if r.Event == "completed" {
			last[r.Role]++
		}
	}
	if last["source"] != 1 || last["destination"] != 1 {
		t.Errorf("the last words on record, by side: %v", last)
	}
	n.Sound()
	if agents == nil {
		agents = []string{"ALPHA", "BETA"}
	}
	n.NoTemporaries(agents...)
}
