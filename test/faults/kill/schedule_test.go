//go:build linux

package kill_test

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// scheduledPoints are the points that a schedule's work meets.
var scheduledPoints = []string{"duty.after_command", "schedule.after_claim", "duty.before_accept", "duty.after_accept", "schedule.before_settle"}

// TestCampaignKillSchedules kills an agent at each step of a schedule. Each occurrence is submitted once or recorded as
// missed, and none is submitted twice.
func TestCampaignKillSchedules(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "kill-schedules", Unit: "kills", Full: 40, Short: 5,
		What: "kill -9 of an agent at each step between the time of a schedule's occurrence and its transfer",
	}, func(t *testing.T, c *campaign.C) { c.Cases(t, killScheduled) })
}

func killScheduled(t *testing.T, seed uint64, r *rand.Rand) {
	const times = 6
	point, nth := scheduledPoints[seed%uint64(len(scheduledPoints))], 1
	if point != "duty.after_command" {
		nth += r.IntN(times - 1)
	}
	t.Logf("%s, the %d. time", point, nth)
	n := up(t, network.Setup{Env: map[string][]string{source: {armed(point, nth)}}})
	n.File(source, "a", seed, 1000)
	made := n.Async("send", "--at", "+1s", "--every", "1s", "--count", strconv.Itoa(times), "--schedule", "s", "--if-exists", "rename", source+":a", dest+":out/")
	n.Gone(source)
	n.Setenv(source)
	n.Start(source)
	made.Wait().OK()
	n.Until("the schedule has ended", func() bool {
		var s struct {
			Waiting int
			Ended   time.Time
			Past    []struct{ Error *network.Reason }
		}
		got := n.Ferry("schedule", "show", "--json", "--agent", source, "s")
		if got.Code != 0 || json.Unmarshal([]byte(got.Stdout), &s) != nil {
			return false
		}
		for _, p := range s.Past {
			if p.Error != nil {
				t.Fatalf("an occurrence is refused: %s", p.Error)
			}
		}
		return !s.Ended.IsZero() && s.Waiting == 0
	})
	var all []network.Progress
	missed := 0
	n.Until("each occurrence is on record, and its transfers are over", func() bool {
		missed = missedOccurrences(t, n)
		all = n.Transfers()
		for _, p := range all {
			if !p.Final() {
				return false
			}
		}
		return len(all)+missed >= times
	})
	for _, p := range all {
		if p.State != "successful" {
			t.Errorf("transfer %s is %s", p.ID, p.State)
		}
	}
	if got := n.Count(dest, "out"); len(all)+missed != times || got != len(all) {
		t.Errorf("%d were submitted and %d missed, of %d; %d files are there", len(all), missed, times, got)
	}
	n.Sound()
}

// missedOccurrences returns the number of missed occurrences that are in the audit log. The agent's record of them may
// come later than the answer to a question.
func missedOccurrences(t *testing.T, n *network.Network) (sum int) {
	for _, m := range regexp.MustCompile(`schedule s: missed (\d+),`).FindAllStringSubmatch(n.Ferry("audit", "ls", "--json").OK().Stdout, -1) {
		k, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += k
	}
	return sum
}
