//go:build linux

package kill_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// monitoredPoints are the points that a monitor's work meets.
var monitoredPoints = []string{"duty.after_command", "monitor.before_record", "monitor.after_record", "duty.before_accept", "duty.after_accept", "monitor.before_done"}

// TestCampaignKillMonitors kills an agent at each step between a file's arrival in a watched directory and its
// transfer. The agent sends each file once.
func TestCampaignKillMonitors(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "kill-monitors", Unit: "kills", Full: 60, Short: 6,
		What: "kill -9 of an agent at each step between a file that comes into a watched directory and its transfer",
	}, func(t *testing.T, c *campaign.C) { c.Cases(t, killMonitored) })
}

func killMonitored(t *testing.T, seed uint64, r *rand.Rand) {
	const files = 6
	point, nth := monitoredPoints[seed%uint64(len(monitoredPoints))], 1
	if point == "duty.before_accept" || point == "duty.after_accept" { // each file meets these; the others may be met only once by all files
		nth += r.IntN(files - 1)
	}
	deletes := r.IntN(2) == 0
	t.Logf("%s, the %d. time, delete source %t", point, nth, deletes)
	n := up(t, network.Setup{Env: map[string][]string{source: {armed(point, nth)}}})
	for k := range files {
		n.File(source, fmt.Sprint("in/f", k), seed+uint64(k), 1000)
	}
	made := n.Async("monitor", "create", "m", "--agent", source, "--dir", "in", "--match", "f*", "--settle", "0", "--poll", "200ms", "--to", dest+":out/", fmt.Sprintf("--delete-source=%t", deletes))
	n.Gone(source)
	n.Setenv(source)
	n.Start(source)
	made.Wait().OK()
	monitorEnds(t, n, files)
	left, err := os.ReadDir(n.Path(source, "in"))
	if want := map[bool]int{false: files}[deletes]; err != nil || len(left) != want {
		t.Errorf("%d sources are left, not %d, %v", len(left), want, err)
	}
	n.Sound()
}

// monitorEnds waits until a monitor has handled the given number of triggers. Each must be one transfer and have
// arrived.
func monitorEnds(t *testing.T, n *network.Network, things int) {
	t.Helper()
	n.Until("everything has triggered, and nothing waits", func() bool {
		m := n.MonitorOf(source, "m")
		return m.Triggers >= things && m.Waiting == 0 && m.Submitted == m.Triggers
	})
	var all []network.Progress
	n.Until("its transfers are over", func() bool {
		all = n.Transfers()
		for _, p := range all {
			if !p.Final() {
				return false
			}
		}
		return len(all) >= things
	})
	for _, p := range all {
		if p.State != "successful" {
			t.Errorf("transfer %s is %s: %v", p.ID, p.State, p.Reason)
		}
	}
	if m := n.MonitorOf(source, "m"); len(all) != things || m.Triggers != things || n.Count(dest, "out") != things {
		t.Errorf("%d transfers for %d things; the monitor says %+v; %d are there", len(all), things, m, n.Count(dest, "out"))
	}
}

// TestCampaignKillQueueMonitors kills an agent at each step between the arrival of a group of messages in a watched
// queue and its removal. The agent sends each message once, and removes it from the queue or leaves it there, as
// configured.
func TestCampaignKillQueueMonitors(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "kill-queue-monitors", Unit: "kills", Full: 60, Short: 4,
		What: "kill -9 of an agent at each step between a group of messages that comes into a watched queue, its transfer, and its removal",
	}, func(t *testing.T, c *campaign.C) { c.Cases(t, killQueueMonitored) })
}

func killQueueMonitored(t *testing.T, seed uint64, r *rand.Rand) {
	const groups = 6
	points := slices.Concat(monitoredPoints, []string{"messages.before_take", "messages.after_take"})
	point, nth := points[seed%uint64(len(points))], 1
	if !strings.HasPrefix(point, "monitor.") && point != "duty.after_command" { // each group meets these; the others may be met only once by all groups
		nth += r.IntN(groups - 1)
	}
	deletes := r.IntN(2) == 0 || strings.HasPrefix(point, "messages.")
	t.Logf("%s, the %d. time, delete source %t", point, nth, deletes)
	n := up(t, network.Setup{Env: map[string][]string{source: {armed(point, nth)}}})
	n.Ferry("queue", "create", "Q").OK()
	for k := range groups {
		file := n.File(source, fmt.Sprint("in/f", k), seed+uint64(k), 1000)
		n.Ferry("queue", "put", "Q", file, "--group", fmt.Sprint("g", k)).OK()
		n.Ferry("queue", "put", "Q", file, "--group", fmt.Sprint("g", k), "--last").OK()
	}
	made := n.Async("monitor", "create", "m", "--agent", source, "--queue", "Q", "--condition", "group", "--poll", "200ms",
		"--to", dest+":out/${GroupId}", fmt.Sprintf("--delete-source=%t", deletes))
	n.Gone(source)
	n.Setenv(source)
	n.Start(source)
	made.Wait().OK()
	monitorEnds(t, n, groups)
	want := map[bool]int{false: 2 * groups}[deletes]
	n.Until("the messages are where they belong", func() bool { return depth(t, n) <= want })
	if left := depth(t, n); left != want {
		t.Errorf("%d messages are left, not %d", left, want)
	}
	n.Sound()
}
