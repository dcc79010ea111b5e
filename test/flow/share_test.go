//go:build linux

package flow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/test/flow/network"
)

// TestTwentyFiveShareTheWay runs twenty-five transfers between two agents. Each has sent some data before a few of them
// have ended.
func TestTwentyFiveShareTheWay(t *testing.T) {
	n := up(t, "ALPHA", "BETA")
	n.Stop("BETA") // so that all of them begin together
	var ids []string
	for k := range 25 {
		n.File("ALPHA", fmt.Sprint("in/", k), uint64(k), 24*mib)
		ids = append(ids, n.Detach(fmt.Sprint("ALPHA:in/", k), "BETA:out/"))
	}

	n.Start("BETA")
	moving := map[string]bool{}
	const few = 5 // one may have ended before the others are accepted
	n.UntilEvery("the first files have arrived", time.Millisecond, func() bool {
		for name, size := range n.Temporaries("BETA") {
			if size > 0 {
				moving[name] = true
			}
		}
		return len(n.Landed("BETA", "out")) >= few
	})
	if len(moving) != 25 {
		t.Errorf("%d of 25 transfers had moved anything when %d had ended", len(moving), few)
	}
	for _, id := range ids {
		n.WaitState(id, "successful")
	}
	n.Same("ALPHA", "in", "BETA", "out")
	n.NoTemporaries("BETA")
}

// TestTwentySixthWaitsForItsPlace submits a twenty-sixth transfer to a destination with twenty-five. It waits with the
// reason and its place, and runs after that.
func TestTwentySixthWaitsForItsPlace(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"},
		Flags: map[string][]string{"ALPHA": {"--max-source-transfers", "26"}, "BETA": {"--max-destination-transfers", "25"}}})
	n.Stop("BETA") // so that all of them begin together
	var all []*network.Sending
	for k := range 26 {
		n.File("ALPHA", fmt.Sprint("in/", k), uint64(k), 12*mib)
		all = append(all, n.SendAsync(fmt.Sprint("ALPHA:in/", k), "BETA:out/"))
	}
	for _, s := range all {
		n.Until("every transfer waits for BETA", func() bool { return s.Last().State == "waiting" })
	}

	n.Start("BETA")
	told := 0
	for _, s := range all {
		s.Wait().Ends("successful", 0)
		if p, ok := s.Saw(func(p network.Progress) bool { return p.State == "waiting" && p.Place > 0 }); ok {
			told++
			if p.Place != 1 || !strings.Contains(p.Reason.String(), "BETA already receives 25 transfers") {
				t.Errorf("it waits in place %d because: %s", p.Place, p.Reason)
			}
		}
	}
	if told != 1 {
		t.Errorf("%d of 26 transfers have said that they wait for a place at the destination", told)
	}
	n.Same("ALPHA", "in", "BETA", "out")
}

// TestAbsentAgentHoldsNobodyUp submits twenty-five transfers to an agent that is away. They use no resource that a
// twenty-sixth, to another agent, needs.
func TestAbsentAgentHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA", "GAMMA")
	n.Stop("BETA")
	var ids []string
	for k := range 25 {
		n.File("ALPHA", fmt.Sprint("in/", k), uint64(k), 1000)
		ids = append(ids, n.Detach(fmt.Sprint("ALPHA:in/", k), "BETA:out/"))
	}

	n.Send("ALPHA:in/0", "GAMMA:out/").Ends("successful", 0)

	for _, id := range ids {
		if p := n.Status(id); p.Final() {
			t.Errorf("a transfer to an agent that is away is %s", p.State)
		}
	}
	n.Start("BETA")
	for _, id := range ids {
		n.WaitState(id, "successful")
	}
	n.Same("ALPHA", "in", "BETA", "out")
}

// TestPriorityGoesFirst uses one source slot. A transfer of priority 9 runs before earlier ones of priority 0.
func TestPriorityGoesFirst(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"},
		Flags: map[string][]string{"ALPHA": {"--max-source-transfers", "1"}}})
	n.Stop("BETA") // so that all of them wait
	var ids []string
	for k := range 6 {
		n.File("ALPHA", fmt.Sprint("in/", k), uint64(k), 100_000)
		priority := "0"
		if k == 5 {
			priority = "9"
		}
		id := n.Detach("--priority", priority, fmt.Sprint("ALPHA:in/", k), "BETA:out/")
		n.WaitState(id, "waiting")
		ids = append(ids, id)
	}

	n.Start("BETA")
	ended := map[string]string{}
	for _, id := range ids {
		ended[id] = n.WaitState(id, "successful").Ended
	}
	before := 0
	for _, id := range ids[:5] {
		if ended[id] < ended[ids[5]] {
			before++
		}
	}
	// One may have been tried just when BETA started, and have had the slot.
	if before > 1 {
		t.Errorf("%d transfers of priority 0 ended before the one of priority 9: %v", before, ended)
	}
}
