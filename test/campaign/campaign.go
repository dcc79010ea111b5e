// Package campaign runs one kind of fault many times from a seed, counts the cases over all runs, and writes the counts
// into the documentation.
//
// A campaign is a test that calls Run. The environment names the campaigns to run and their length (see make
// test-faults):
//
//	CAMPAIGN  the name of one; empty: all; not set: none
//	COUNT     how many cases; "short": the form for every change; empty: the full count
//	SEED      the first case; empty: the one behind the last on record
//
// A case is decided by its seed alone, so SEED=N COUNT=1 is case N again, as far as real processes and the host's
// timing can be repeated.
package campaign

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Spec describes a campaign.
type Spec struct {
	Name     string   // CAMPAIGN= and the name of its results file
	What     string   // one phrase: the fault and its target
	Unit     string   // the noun of the count: "states", "kills"
	Full     int      // the count that must be reached
	Short    int      // the count in the short form; 0: it has none
	Root     bool     // it needs root, and its short form is left out without it
	Tools    []string // programs that it runs
	Packages []string // directories with code that voids the count when it changes; nil: all of internal and cmd
}

// C is one run of a campaign.
type C struct {
	Count int    // cases to do
	Seed  uint64 // of the first
	Short bool   // this is the short form

	spec Spec
	done int
}

// Add counts cases that the body has done on its own.
func (c *C) Add(n int) { c.done += n }

// Cases runs each case as a subtest named by its seed and stops at the first
// that fails.
func (c *C) Cases(t *testing.T, f func(t *testing.T, seed uint64, r *rand.Rand)) {
	t.Helper()
	for k := range c.Count {
		seed := c.Seed + uint64(k)
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { f(t, seed, Rand(seed)) }) {
			c.again(t, seed)
			return
		}
		c.done++
	}
}

// Beside is Cases with so many at once, for cases that mostly wait. Those that fail
// do not keep the others from running.
func (c *C) Beside(t *testing.T, workers int, f func(t *testing.T, seed uint64, r *rand.Rand)) {
	t.Helper()
	seeds := make(chan uint64)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for seed := range seeds {
				ok := t.Run(fmt.Sprint(seed), func(t *testing.T) { f(t, seed, Rand(seed)) })
				mu.Lock()
				if ok {
					c.done++
				} else {
					c.again(t, seed)
				}
				mu.Unlock()
			}
		})
	}
	for k := range c.Count {
		seeds <- c.Seed + uint64(k)
	}
	close(seeds)
	wg.Wait()
}

// Loop is Cases without subtests, for thousands of cheap cases.
func (c *C) Loop(t *testing.T, f func(t *testing.T, seed uint64, r *rand.Rand)) {
	t.Helper()
	for k := range c.Count {
		seed := c.Seed + uint64(k)
		f(t, seed, Rand(seed))
		if t.Failed() {
			c.again(t, seed)
			return
		}
		c.done++
	}
}

func (c *C) again(t *testing.T, seed uint64) {
	t.Helper()
	t.Logf("this case again: make test-faults CAMPAIGN=%s SEED=%d COUNT=1", c.spec.Name, seed)
}

// Rand is the generator of a case.
func Rand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// Run runs a campaign if it was asked for, and records how it went. Short
// forms are not recorded.
func Run(t *testing.T, s Spec, body func(t *testing.T, c *C)) {
	t.Helper()
	name, asked := os.LookupEnv("CAMPAIGN")
	if !asked || name != "" && name != s.Name {
		return
	}
	c, ok := begin(t, s)
	if !ok {
		return
	}
	start := time.Now()
	defer func() { // also when the body has ended the test
		took := time.Since(start)
		t.Logf("campaign %s: %d of %d %s from seed %d in %.1f s", s.Name, c.done, c.Count, s.Unit, c.Seed, took.Seconds())
		if c.done == 0 && !t.Failed() {
			t.Errorf("campaign %s has tried nothing", s.Name)
		}
		if !c.Short {
			if err := record(c, took, t.Failed()); err != nil {
				t.Errorf("the result of campaign %s could not be recorded: %v", s.Name, err)
			}
		}
	}()
	body(t, c)
}

// begin reads the environment. It reports false where the short form leaves
// this campaign out, and says so.
func begin(t *testing.T, s Spec) (*C, bool) {
	t.Helper()
	count := os.Getenv("COUNT")
	c := &C{Count: s.Full, Short: count == "short", spec: s}
	switch {
	case c.Short && s.Short == 0:
		fmt.Printf("campaign %s has no short form; make test-faults CAMPAIGN=%s runs it\n", s.Name, s.Name)
		return nil, false
	case c.Short && s.Root && os.Geteuid() != 0:
		fmt.Printf("campaign %s needs root and is left out here; make test-faults CAMPAIGN=%s runs it as root\n", s.Name, s.Name)
		return nil, false
	case c.Short:
		c.Count = s.Short
	case count != "":
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			t.Fatalf("COUNT=%s is not a count; give a number from 1 on, or short", count)
		}
		c.Count = n
	}
	if s.Root && os.Geteuid() != 0 {
		t.Fatalf("campaign %s mounts file systems or makes networks, which only root may do: run it as root", s.Name)
	}
	for _, tool := range s.Tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("campaign %s needs the program %s, which is not installed here", s.Name, tool)
		}
	}
	c.Seed = firstSeed(t, c)
	return c, true
}

// drawnSeeds is the number of seeds that a run may begin with. Campaigns shift a seed left by up to 20 bits.
const drawnSeeds = 1 << 32

// firstSeed returns SEED, or 1 in the short form, or else a seed that it draws: each full run tries new cases.
func firstSeed(t *testing.T, c *C) uint64 {
	t.Helper()
	if s := strings.TrimSpace(os.Getenv("SEED")); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("SEED=%s is not a number from 0 on", s)
		}
		return n
	}
	if c.Short {
		return 1
	}
	return 1 + rand.Uint64N(drawnSeeds)
}
