//go:build linux

package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ferry/internal/faulty"
	"ferry/test/campaign"
)

// TestCampaignLedgerCrash stops a ledger before any one of its calls on the disk, as a kill or a crash of the host
// does. It checks the remaining files, and then runs the rest of the workload.
func TestCampaignLedgerCrash(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "ledger-crash", What: "crash states of the store and of torn item journals, before every call",
		Unit: "states", Full: 5000, Short: 500, Packages: []string{"internal/ledger", "internal/transfer"}}, func(t *testing.T, c *campaign.C) {
		var points [lives]int64
		for n := range points {
			stores, files := calls(t, uint64(n))
			points[n] = stores + files
		}
		c.Loop(t, func(t *testing.T, seed uint64, r *rand.Rand) {
			life := seed % lives
			crashBefore(t, life, 1+int64(seed/lives)*7919%points[life], r)
		})
	})
}

// crashBefore checks the files that a crash leaves before the nth call of a workload.
func crashBefore(t *testing.T, life uint64, n int64, r *rand.Rand) {
	steps, walks := workload(rand.New(rand.NewPCG(life, 1)))
	var w *world
	met := int64(0)
	hook := func() {
		if met++; met != n || w.over {
			return
		}
		w.over = true
		store, files, how := w.store.Snapshot(), w.files.Killed(), "killed"
		if r.IntN(4) > 0 {
			files, how = w.files.Crashed(r), "crashed"
		}
		when := fmt.Sprintf("life %d, %s before call %d,", life, how, n)
		if w.now != nil {
			when += " in step " + w.now.name + ","
		}
		check(t, w, store, files, steps, r, when)
	}
	w = newWorld(t, walks, &faulty.StoreFault{Hook: hook}, &faulty.StoreFault{Hook: hook})
	w.run(steps, rand.New(rand.NewPCG(life, 2)))
	if met < n {
		t.Errorf("life %d has only %d calls, and not %d", life, met, n)
	}
	w.abandon()
}
