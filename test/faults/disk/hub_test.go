//go:build linux

package disk_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// TestCampaignHubFull starts queue managers on a full disk. Agents and commands can take the messages in queues and
// stored deliveries. The queue manager reports that it is degraded and the reason. It accepts new work when there is
// space again.
func TestCampaignHubFull(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "hub-full", What: "hubs that are stopped or killed, and start on a disk that is full of blocks or of inodes, with work that waits",
		Unit: "starts", Full: 60, Short: 6, Root: true},
		func(t *testing.T, c *campaign.C) {
			c.Cases(t, func(t *testing.T, seed uint64, r *rand.Rand) {
				k := (seed - 1) % 6
				queue, killed := k >= 4, k == 2 || k == 3 || k == 5
				f := &filling{t: t, r: r, seed: seed, inodes: !queue && k%2 == 0, mount: t.TempDir()}
				t.Logf("full of inodes: %v; killed: %v; filled by a queue: %v", f.inodes, killed, queue)
				must(t, unix.Mount("ferry-faults", f.mount, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=400", 64*mib)))
				t.Cleanup(func() { unix.Unmount(f.mount, unix.MNT_DETACH) })
				f.n = network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{"ALPHA", "BETA"}, Dir: t.TempDir(),
					States: map[string]string{network.QM: f.mount}})
				if queue {
					f.queue(killed)
				} else {
					f.hub(killed)
				}
				f.n.NoTemporaries("ALPHA", "BETA")
				f.n.Sound()
			})
		})
}

// hub leaves work in a queue manager, starts it on a full disk, and expects the work to be done.
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

// queue fills the disk of a queue manager with a file in an application queue, and restarts the queue manager. The
// command and a transfer take messages while the disk is full. The remaining messages arrive once there is space.
func (f *filling) queue(killed bool) {
	f.t.Helper()
	n := f.n
	n.Ferry("queue", "create", "Q").OK()
	n.File("ALPHA", "first", f.seed, 25*mib)
	n.File("ALPHA", "second", f.seed+1, 40*mib)
	n.Send("--delete-source", "--split-size", "100K", "ALPHA:first", "BETA:queue:Q").OK()
	second := n.Detach("--delete-source", "--split-size", "100K", "ALPHA:second", "BETA:queue:Q")
	n.UntilEvery("the second file waits for space on the hub's disk", 1e8, func() bool {
		p := n.Status(second)
		return p.State == "waiting" && p.Reason != nil && strings.HasPrefix(p.Reason.Text, "the disk of queue manager")
	})
	if f.r.IntN(2) == 0 {
		f.fill(0) // other programs take the rest
	}
	if killed {
		n.Kill(network.QM)
	} else {
		n.Stop(network.QM)
	}
	n.Start(network.QM)

	var first, all []byte
	for range 3 {
		first = append(first, n.Ferry("queue", "get", "Q").OK().Stdout...)
	}
	n.Send("--delete-source", "BETA:queue:Q", "BETA:some").OK()
	if f.empty != nil {
		f.empty()
	}
	n.WaitState(second, "successful")
	n.Send("--delete-source", "BETA:queue:Q", "BETA:rest").OK()

	want, err := io.ReadAll(io.MultiReader(io.LimitReader(network.Content(f.seed, 0), 25*mib), io.LimitReader(network.Content(f.seed+1, 0), 40*mib)))
	must(f.t, err)
	for _, name := range []string{"some", "rest"} {
		data, err := os.ReadFile(n.Path("BETA", name))
		must(f.t, err)
		all = append(all, data...)
	}
	if got := append(first, all...); !bytes.Equal(got, want) {
		f.t.Errorf("%d bytes came out of the queue, and are not the %d that went in", len(got), len(want))
	}
	for _, name := range []string{"first", "second"} {
		if n.Exists("ALPHA", name) {
			f.t.Errorf("the source %s is left", name)
		}
	}
}
