//go:build linux

package queue_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

const storeStream = "FERRY_STORE"

// TestCampaignStored stops the source once all data are stored, and kills the destination while it reads them: the
// stored data must suffice. Then some stored messages are lost, and the source must send them again. In the end the
// store is empty.
func TestCampaignStored(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "stored", Unit: "networks", Full: 40, Short: 1,
		What: "stored delivery with the source away, the destination killed again and again, messages lost in the store, and transfers cancelled"},
		func(t *testing.T, c *campaign.C) {
			for seed := c.Seed; seed < c.Seed+uint64(c.Count); seed++ {
				if !t.Run(fmt.Sprint(seed), func(t *testing.T) { storedCase(t, seed, campaign.Rand(seed)) }) {
					t.Logf("this case again: make test-faults CAMPAIGN=stored SEED=%d COUNT=1", seed)
					return
				}
				c.Add(1)
			}
		})
}

func storedCase(t *testing.T, seed uint64, r *rand.Rand) {
	n := network.Up(t, network.Setup{Ferry: campaign.Tagged(t, "failpoint"), Agents: []string{"ALPHA", "BETA"}})
	w := n.WireOf("BETA")
	n.Stop("BETA")
	jobs := []*network.Job{
		{In: "large", Count: 1, Size: 120 << 20}, {In: "small", Count: 400, Size: 3000}, {In: "deleted", Count: 30, Size: 300_000, Delete: true},
		{In: "packed", Count: 3, Size: 9 << 20, Flags: []string{"--compress", "fast"}},
	}
	for k, j := range jobs {
		j.From, j.To, j.Out, j.Seed = "ALPHA", "BETA", "out", seed+uint64(k)<<32
		j.Flags = append(j.Flags, "--delivery", "stored")
		n.Make(j)
		n.Submit(j)
	}
	for _, j := range jobs {
		n.UntilEvery("everything is stored", 20*time.Millisecond, func() bool {
			p := n.Status(j.ID)
			return p.State == "waiting" && p.Reason != nil && len(p.Reason.Text) > 5 && p.Reason.Text[:5] == "sent:"
		})
	}

	// The source is away, and the destination is killed: the stored data suffice.
	n.Kill("ALPHA")
	n.Setenv("BETA", "FERRY_FAILPOINT=receiver.after_trim=kill") // the data that are removed first from the store must be durable
	n.Launch("BETA")
	n.Gone("BETA")
	n.Setenv("BETA", "FERRY_FAILPOINT=")
	n.Start("BETA")
	// One more kill, at a random amount of data. A third one could park a transfer, which then waits for an operator:
	// three crashed runs without progress park it, and a run may make no data durable.
	has := n.Grown("BETA") + int64(1+r.IntN(75))<<20
	late := time.Now().Add(3 * time.Second)
	n.UntilEvery("some of it is there", 5*time.Millisecond, func() bool { return n.Grown("BETA") >= has || time.Now().After(late) })
	n.Kill("BETA")
	n.Start("BETA")
	n.UntilEvery("all of it is there, while the source is away", 50*time.Millisecond, func() bool {
		return n.Count("BETA", "out/small") == 400 && n.Count("BETA", "out/large") == 1 && n.Count("BETA", "out/deleted") == 30 && n.Count("BETA", "out/packed") == 3
	})
	n.Start("ALPHA")
	n.Judge(nil, jobs...)
	for _, j := range jobs {
		if p := n.Status(j.ID); p.Resumes > 0 || p.BytesResent > 0 {
			t.Errorf("nothing was lost in the store, and %s was begun anew %d times, %d bytes again", j.In, p.Resumes, p.BytesResent)
		}
	}

	// The source sends lost messages again.
	n.Stop("BETA")
	lossy := &network.Job{From: "ALPHA", To: "BETA", In: "lossy", Out: "lossy", Seed: seed + 99, Count: 200, Size: 100_000, Flags: []string{"--delivery", "stored"}}
	gone := &network.Job{From: "ALPHA", To: "BETA", In: "gone", Out: "gone", Seed: seed + 98, Count: 20, Size: 100_000, Flags: []string{"--delivery", "stored"}}
	for _, j := range []*network.Job{lossy, gone} {
		n.Make(j)
		n.Submit(j)
	}
	n.UntilEvery("some is stored", 10*time.Millisecond, func() bool { has, _ := w.Stored(storeStream); return has > 40 })
	_, last := w.Stored(storeStream)
	from := last - uint64(r.IntN(30))
	w.Lose(storeStream, from, from+uint64(r.IntN(8)))
	n.Ferry("transfer", "cancel", gone.ID).OK()
	n.Start("BETA")
	n.Judge(nil, lossy)
	n.UntilEvery("nothing is left in the store", 50*time.Millisecond, func() bool { has, _ := w.Stored(storeStream); return has == 0 })
	if n.Count("BETA", "gone") > 0 {
		t.Error("the files of a cancelled transfer have arrived")
	}
}
