package protocol_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"ferry/test/campaign"
)

// product is what a simulated world is made of: whose change voids what was
// tried in it.
var product = []string{"internal/sender", "internal/receiver", "internal/wire", "internal/ledger", "internal/localfs",
	"internal/flow", "internal/digest", "internal/transfer"}

// A deed is one case of a campaign, in a bubble of its own.
type deed func(t *testing.T, seed uint64, r *rand.Rand)

// spread does count cases from a seed on, on all processors, and stops at the
// first that fails. It says how many were done.
func spread(t *testing.T, seed uint64, count int, one deed) int {
	t.Helper()
	var done, next atomic.Int64
	var failed atomic.Bool
	t.Run("seeds", func(t *testing.T) {
		for w := range min(count, runtime.GOMAXPROCS(0)) {
			t.Run(fmt.Sprint("worker ", w), func(t *testing.T) {
				t.Parallel()
				for !failed.Load() {
					k := next.Add(1) - 1
					if k >= int64(count) {
						return
					}
					if !alone(t, seed+uint64(k), one, &failed) {
						return
					}
					done.Add(1)
				}
			})
		}
	})
	return int(done.Load())
}

// alone does one case and names it where it fails, panics or does not end.
func alone(t *testing.T, seed uint64, one deed, failed *atomic.Bool) (ok bool) {
	stuck := time.AfterFunc(2*time.Minute, func() {
		fmt.Fprintf(os.Stderr, "%s: seed %d has been running for two minutes\n", t.Name(), seed)
	})
	defer stuck.Stop()
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "%s: seed %d has panicked\n", t.Name(), seed)
			panic(p)
		}
		if t.Failed() && !failed.Swap(true) {
			t.Logf("SEED=%d", seed)
		}
	}()
	one(t, seed, campaign.Rand(seed))
	return !t.Failed()
}

// each is the body of a campaign whose cases are worlds.
func each(one deed) func(t *testing.T, c *campaign.C) {
	return func(t *testing.T, c *campaign.C) {
		t.Helper()
		c.Add(spread(t, c.Seed, c.Count, one))
	}
}

// swift is a directory whose files are in memory where there is one, so that
// thousands of worlds do not wait for a disk.
func swift() string {
	const shm = "/dev/shm"
	if dir, err := os.MkdirTemp(shm, "ferry-"); err == nil {
		os.Remove(dir)
		return shm
	}
	return ""
}
