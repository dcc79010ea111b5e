//go:build linux

package flow_test

import (
	"fmt"
	"strings"
	"testing"

	"ferry/test/flow/network"
)

// withdrawnAfter is the recovery time-out of requests that no agent takes. A slow disk stores them in this time.
const withdrawnAfter = "15s"

// TestWithdrawnRequestsNeverRun checks requests that `ferry send` has reported as withdrawn. They do not run when the
// agent starts, and are shown as withdrawn.
func TestWithdrawnRequestsNeverRun(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, 1000)
	n.Stop("ALPHA")
	var sends []*network.Sending
	for i := range 12 {
		sends = append(sends, n.SendAsync("--recovery-timeout", withdrawnAfter, "ALPHA:a", fmt.Sprintf("BETA:out/%d", i)))
	}
	withdrawn := 0
	for _, s := range sends {
		r := s.Wait()
		if strings.Contains(r.Stderr, "it is withdrawn") {
			withdrawn++
		} else if !strings.Contains(r.Stderr, "its withdrawal is not confirmed") { // the facts below are certain all the same
			t.Fatalf("a request that no agent took ends with %d: %s", r.Code, r.Stderr)
		}
		if r.Code != 69 {
			t.Fatalf("a request that no agent took ends with %d: %s", r.Code, r.Stderr)
		}
	}
	// Over channels no queue manager here can tell whether the agent had the requests. On a slow host a question may be
	// late.
	if withdrawn == 0 && !n.Channels() {
		t.Error("no request of 12 is confirmed as withdrawn")
	}
	states := func(when string) {
		t.Helper()
		all := n.Transfers()
		if len(all) != len(sends) {
			t.Errorf("%s: %d transfers are listed, not %d", when, len(all), len(sends))
		}
		for _, p := range all {
			if p.State != "withdrawn" {
				t.Errorf("%s: transfer %s is %s", when, p.ID, p.State)
			}
		}
	}
	states("the agent is away")
	n.Start("ALPHA")
	taken(n)
	states("the agent has come")
	if got := n.Count("BETA", "out"); got > 0 {
		t.Errorf("%d of %d withdrawn requests have run", got, len(sends))
	}
	n.Send("ALPHA:a", "BETA:out/later").Ends("successful", 0)
	if got := n.Count("BETA", "out"); got != 1 {
		t.Errorf("%d files have arrived, not one", got)
	}
	n.Sound()
}

// TestQueuedRequestsAreTakenBack cancels queued requests, and lets the queue manager lose withdrawals. Neither request
// runs.
func TestQueuedRequestsAreTakenBack(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost=%v", lost), func(t *testing.T) {
			n := up(t, "ALPHA", "BETA")
			n.File("ALPHA", "a", 1, 1000)
			n.Stop("ALPHA")
			want := map[string]string{}
			var sends []*network.Sending
			for i := range 6 {
				if lost {
					sends = append(sends, n.SendAsync("--recovery-timeout", withdrawnAfter, "ALPHA:a", fmt.Sprintf("BETA:out/%d", i)))
					continue
				}
				sends = append(sends, n.SendAsync("--detach", "ALPHA:a", fmt.Sprintf("BETA:out/%d", i)))
			}
			for _, s := range sends {
				if r := s.Wait(); lost && r.Code != 69 || !lost && r.Code != 3 {
					t.Fatalf("a request that nobody took ends with %d: %s", r.Code, r.Stderr)
				}
			}
			var cancels []*network.Sending
			for _, p := range n.Transfers() {
				if want[p.ID] = "withdrawn"; !lost {
					want[p.ID] = "cancelled"
					cancels = append(cancels, n.Async("transfer", "cancel", "--timeout", "10s", p.ID))
				}
			}
			for _, c := range cancels {
				if r := c.Wait(); r.Code != 2 {
					t.Fatalf("a cancel that waits for its agent ends with %d: %s", r.Code, r.Stderr)
				}
			}
			if lost {
				n.WireOf("ALPHA").Drop("FERRY_CONTROL", "ferry.control.>")
			}
			n.Start("ALPHA")
			taken(n)
			for id, state := range want {
				n.WaitState(id, state)
			}
			if got := n.Count("BETA", "out"); got > 0 {
				t.Errorf("%d of 6 requests have run that were taken back", got)
			}
		})
	}
}

// taken waits until no command is queued, neither at its submitter's queue manager nor at ALPHA's.
func taken(n *network.Network) {
	given, at := n.Wire(), n.WireOf("ALPHA")
	n.Until("every command is taken", func() bool {
		left := uint64(0)
		for _, stream := range []string{"FERRY_COMMAND", "FERRY_CONTROL"} {
			here, _ := given.Stored(stream)
			there, _ := at.Stored(stream)
			left += here + there
		}
		return left == 0
	})
}
