package protocol_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ferry/test/campaign"
)

// product lists the packages of a simulated world. A change of one of them makes earlier results of a campaign void.
var product = []string{"internal/sender", "internal/receiver", "internal/wire", "internal/ledger", "internal/place/local",
	"internal/flow", "internal/content/digest", "internal/content/compress", "internal/transfer"}

// A campaignCase is one case of a campaign, in a bubble of its own.
type campaignCase func(t *testing.T, seed uint64, r *rand.Rand)

// spread does count cases from a seed on, on all processors, and stops at the first that fails. It returns the number
// of cases done.
func spread(t *testing.T, seed uint64, count int, one campaignCase) int {
	t.Helper()
	return spreadMany(t, seed, count, func(t *testing.T, seed uint64, r *rand.Rand) int {
		one(t, seed, r)
		return 1
	})
}

// spreadMany does that where a seed is several cases.
func spreadMany(t *testing.T, seed uint64, count int, some func(t *testing.T, seed uint64, r *rand.Rand) int) int {
	t.Helper()
	var done, next atomic.Int64
	var failed atomic.Bool
	t.Run("seeds", func(t *testing.T) {
		for w := range min(count, runtime.GOMAXPROCS(0)) {
			t.Run(fmt.Sprint("worker ", w), func(t *testing.T) {
				t.Parallel()
				for !failed.Load() {
					k := next.Add(1) - 1
					if k >= int64(count) || done.Load() >= int64(count) {
						return
					}
					n, ok := alone(t, seed+uint64(k), some, &failed)
					if !ok {
						return
					}
					done.Add(int64(n))
				}
			})
		}
	})
	return int(done.Load())
}

// alone does one case and names it if it fails, panics or does not end.
func alone(t *testing.T, seed uint64, some func(*testing.T, uint64, *rand.Rand) int, failed *atomic.Bool) (n int, ok bool) {
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
	n = some(t, seed, campaign.Rand(seed))
	return n, !t.Failed()
}

// each is the body of a campaign with worlds as its cases.
func each(one campaignCase) func(t *testing.T, c *campaign.C) {
	return func(t *testing.T, c *campaign.C) {
		t.Helper()
		c.Add(spread(t, c.Seed, c.Count, one))
	}
}

// A tally counts the events in the worlds of a campaign. It shows if a campaign has none.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

// toll is that of this process.
var toll = tally{counts: map[string]int{}}

func (t *tally) add(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what] += n
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		fmt.Fprintf(&b, "%s: %d; ", what, t.counts[what])
	}
	return b.String()
}

// swift returns a directory with files in memory, if there is one, so that thousands of worlds do not wait for a disk.
func swift() string {
	const shm = "/dev/shm"
	if dir, err := os.MkdirTemp(shm, "ferry-"); err == nil {
		os.Remove(dir)
		return shm
	}
	return ""
}
