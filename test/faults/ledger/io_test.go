package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"ferry/internal/faulty"
	"ferry/test/campaign"
)

// lives are how many workloads there are.
const lives = 4

// trial runs a workload with faults, and gives the world that it has made.
func trial(t testing.TB, life uint64, stores, disk *faulty.StoreFault) (*world, []step) {
	steps, walks := workload(rand.New(rand.NewPCG(life, 1)))
	w := newWorld(t, walks, stores, disk)
	w.run(steps, rand.New(rand.NewPCG(life, 2)))
	return w, steps
}

// calls counts the calls of a workload in which nothing fails.
func calls(t testing.TB, life uint64) (stores, files int64) {
	s, f := &faulty.StoreFault{}, &faulty.StoreFault{}
	w, _ := trial(t, life, s, f)
	w.narrow("with no fault")
	w.abandon()
	if t.Failed() {
		t.Fatal("it fails without a fault")
	}
	return s.Calls(), f.Calls()
}

// TestCallsFail lets one call of a ledger's life fail, or all from it on, in
// every way; whatever was acknowledged is there after the next crash, and
// everything can be done that was left to do.
func TestCallsFail(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "ledger-io", What: "each transaction and each call on an item journal fails, once and for good, with and without effect",
		Unit: "failing calls", Full: 4000, Short: 200, Packages: []string{"internal/ledger", "internal/transfer"}}, func(t *testing.T, c *campaign.C) {
		var stores, files [lives]int64
		for n := range stores {
			stores[n], files[n] = calls(t, uint64(n))
		}
		c.Loop(t, func(t *testing.T, seed uint64, r *rand.Rand) {
			life, k := seed%lives, int64(seed/lives)
			fault := &faulty.StoreFault{Errno: []syscall.Errno{syscall.EIO, syscall.ENOSPC}[k%2], Late: k/2%2 == 1, Count: []int64{1, -1}[k/4%2]}
			// All calls of a life are met, the transactions and the files in turns,
			// before any is met in the same way again: 7919 is prime.
			at := k/16*7919 + k%16
			w, steps := (*world)(nil), []step(nil)
			if k/8%2 == 0 {
				fault.At = 1 + at%stores[life]
				w, steps = trial(t, life, fault, &faulty.StoreFault{})
			} else {
				fault.At = 1 + at%files[life]
				w, steps = trial(t, life, &faulty.StoreFault{}, fault)
			}
			if fault.Trips() == 0 {
				t.Errorf("call %d was not reached", fault.At)
			}
			fault.Heal()
			w.stop(r)
			check(t, w, w.store, w.files, steps, fmt.Sprintf("life %d, call %d (count %d, late %v, %v):", life, fault.At, fault.Count, fault.Late, fault.Errno))
		})
	})
}
