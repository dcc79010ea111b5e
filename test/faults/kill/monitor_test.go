//go:build linux

package kill_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// monitoredPoints are those that the keeping of a monitor meets.
var monitoredPoints = []string{"duty.after_command", "monitor.before_record", "monitor.after_record", "duty.before_accept", "duty.after_accept", "monitor.before_done"}

// TestCampaignKillMonitors kills an agent at each step between a file that comes into a watched directory
// and its transfer: each file is sent once.
func TestCampaignKillMonitors(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "kill-monitors", Unit: "kills", Full: 60, Short: 6,
		What: "kill -9 of an agent at each step between a file that comes into a watched directory and its transfer",
	}, func(t *testing.T, c *campaign.C) { c.Cases(t, killMonitored) })
}

func killMonitored(t *testing.T, seed uint64, r *rand.Rand) {
	const files = 6
	point, nth := monitoredPoints[seed%uint64(len(monitoredPoints))], 1
	if point == "duty.before_accept" || point == "duty.after_accept" { // each file meets these; all of them together may meet the others once
		nth += r.IntN(files - 1)
	}
	deletes := r.IntN(2) == 0
	t.Logf("%s, the %d. time, delete source %t", point, nth, deletes)
	n := up(t, network.Setup{Env: map[string][]string{source: {armed(point, nth)}}})
	for k := range files {
		n.File(source, fmt.Sprint("in/f", k), seed+uint64(k), 1000)
	}
	made := n.Async("monitor", "create", "m", "--agent", source, "--dir", "in", "--match", "f*", "--poll", "200ms", "--to", dest+":out/", fmt.Sprintf("--delete-source=%t", deletes))
	n.Gone(source)
	n.Setenv(source)
	n.Start(source)
	made.Wait().OK()
	n.Until("every file has triggered, and nothing waits", func() bool {
		m := n.MonitorOf(source, "m")
		return m.Triggers >= files && m.Waiting == 0 && m.Submitted == m.Triggers
	})
	var all []network.Progress
	n.Until("its transfers are over", func() bool {
		all = n.Transfers()
		for _, p := range all {
			if !p.Final() {
				return false
			}
		}
		return len(all) >= files
	})
	for _, p := range all {
		if p.State != "successful" {
			t.Errorf("transfer %s is %s: %v", p.ID, p.State, p.Reason)
		}
	}
	if m := n.MonitorOf(source, "m"); len(all) != files || m.Triggers != files || n.Count(dest, "out") != files {
		t.Errorf("%d transfers for %d files; the monitor says %+v; %d are there", len(all), files, m, n.Count(dest, "out"))
	}
	left, err := os.ReadDir(n.Path(source, "in"))
	if want := map[bool]int{false: files}[deletes]; err != nil || len(left) != want {
		t.Errorf("%d sources are left, not %d, %v", len(left), want, err)
	}
	n.Sound()
}
