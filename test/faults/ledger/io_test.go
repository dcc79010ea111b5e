//go:build linux

package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"ferry/internal/faulty"
	"ferry/test/campaign"
)

// lives is the number of workloads.
const lives = 8

// trial runs a workload with faults, and returns its world and steps.
func trial(t testing.TB, life uint64, quits bool, stores, disk *faulty.StoreFault) (*world, []step) {
	steps, walks := workload(rand.New(rand.NewPCG(life, 1)))
	w := newWorld(t, walks, stores, disk)
	w.quits = quits
	w.run(steps, rand.New(rand.NewPCG(life, 2)))
	return w, steps
}

// calls counts the calls of a workload without a fault.
func calls(t testing.TB, life uint64) (stores, files int64) {
	s, f := &faulty.StoreFault{}, &faulty.StoreFault{}
	w, _ := trial(t, life, false, s, f)
	stores, files = s.Calls(), f.Calls()
	w.narrow("with no fault")
	w.abandon()
	if t.Failed() {
		t.Fatal("it fails without a fault")
	}
	return stores, files
}

// TestCampaignLedgerIO makes one call of a workload fail, or several from it on, in every way. Acknowledged changes are
// present after the next crash, and the remaining steps succeed.
func TestCampaignLedgerIO(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "ledger-io", What: "each transaction and each call on an item journal fails, once and for good, with and without effect",
		Unit: "failing calls", Full: 20000, Short: 600, Packages: []string{"internal/ledger", "internal/transfer"}}, func(t *testing.T, c *campaign.C) {
		var stores, files [lives]int64
		for n := range stores {
			stores[n], files[n] = calls(t, uint64(n))
		}
		c.Loop(t, func(t *testing.T, seed uint64, r *rand.Rand) {
			// Each call fails in one way before any call fails in a second way.
			life := seed % lives
			k := seed / lives * 1_000_003 % uint64(16*(stores[life]+files[life])) // a prime
			fault := &faulty.StoreFault{Errno: []syscall.Errno{syscall.EIO, syscall.ENOSPC}[k%2], Late: k/2%2 == 1,
				Count: []int64{1, 2, 3, -1}[k/4%4], At: 1 + int64(k/16)}
			w, steps, what := (*world)(nil), []step(nil), "transaction"
			quits := r.IntN(3) == 0
			if fault.At <= stores[life] {
				w, steps = trial(t, life, quits, fault, &faulty.StoreFault{})
			} else {
				fault.At -= stores[life]
				what = "file call"
				w, steps = trial(t, life, quits, &faulty.StoreFault{}, fault)
			}
			if fault.Trips() == 0 {
				t.Errorf("call %d was not reached", fault.At)
			}
			when := fmt.Sprintf("life %d, %s %d (count %d, late %v, %v, quits %v):", life, what, fault.At, fault.Count, fault.Late, fault.Errno, quits)
			fault.Heal()
			w.stop(r)
			check(t, w, w.store, w.files, steps, r, when)
		})
	})
}
