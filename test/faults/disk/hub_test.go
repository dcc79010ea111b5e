//go:build linux

package disk_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// A hub whose disk is full starts. The messages in its queues and in its store are consumed, it says that it is
// degraded and why, and it takes new work when there is space again.
func TestCampaignHubFull(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "hub-full", What: "hubs that are stopped or killed, and start on a disk that is full of blocks or of inodes, with work that waits",
		Unit: "starts", Full: 40, Short: 4, Root: true},
		func(t *testing.T, c *campaign.C) {
			c.Cases(t, func(t *testing.T, seed uint64, r *rand.Rand) {
				f := &filling{t: t, r: r, seed: seed, inodes: seed%2 == 1, mount: t.TempDir()}
				killed := seed/2%2 == 1
				t.Logf("full of inodes: %v; killed: %v", f.inodes, killed)
				must(t, unix.Mount("ferry-faults", f.mount, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=400", 64*mib)))
				t.Cleanup(func() { unix.Unmount(f.mount, unix.MNT_DETACH) })
				f.n = network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{"ALPHA", "BETA"}, Dir: t.TempDir(),
					States: map[string]string{network.QM: f.mount}})
				f.hub(killed)
				f.n.NoTemporaries("ALPHA", "BETA")
				f.n.Sound()
			})
		})
}

// hub leaves work in a hub, starts it on a full disk, and expects the work to be done.
func (f *filling) hub(killed bool) {
	f.t.Helper()
	n := f.n
	n.Ferry("queue", "create", "Q").OK()
	for k := range 3 {
		path := fmt.Sprint("m", k)
		n.File("ALPHA", path, uint64(k), 100)
		n.Ferry("queue", "put", "Q", n.Path("ALPHA", path)).OK()
	}
	n.File("ALPHA", "stored", f.seed, 2*mib)
	n.File("ALPHA", "queued", f.seed+1, 1000)
	n.Stop("BETA")
	stored := n.Detach("--delivery", "stored", "ALPHA:stored", "BETA:out/stored")
	queued := n.Detach("ALPHA:queued", "BETA:out/queued")
	n.UntilEvery("it is stored", 1e8, func() bool {
		p := n.Status(stored)
		return p.Reason != nil && strings.Contains(p.Reason.Text, "everything is stored")
	})
	if killed {
		n.Kill(network.QM)
	} else {
		n.Stop(network.QM)
	}
	f.fill(0)
	n.Start(network.QM)
	n.Start("BETA")
	n.WaitState(stored, "successful")
	n.WaitState(queued, "successful")
	n.Same("ALPHA", "stored", "BETA", "out/stored")
	n.Same("ALPHA", "queued", "BETA", "out/queued")
	for range 3 {
		n.Ferry("queue", "get", "Q").OK()
	}
	short := "is full"
	if f.inodes {
		short = "has no inodes left"
	}
	if why, _ := n.Degraded(); !strings.Contains(why, short) {
		f.t.Errorf("ferry ready says %q, and not %q", why, short)
	}
	f.empty()
	n.Until("the hub is no longer degraded by its disk", func() bool { why, _ := n.Degraded(); return !strings.Contains(why, short) })
	n.File("ALPHA", "new", f.seed+2, mib)
	n.Send("ALPHA:new", "BETA:out/new").OK()
	n.Same("ALPHA", "new", "BETA", "out/new")
	if there, err := os.ReadDir(f.mount + "/qm/reserve"); err != nil || len(there) == 0 {
		f.t.Errorf("the reserve is not taken again: %v", err)
	}
}
