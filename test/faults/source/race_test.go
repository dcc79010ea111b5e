//go:build linux

package source_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
	"ferry/test/judge"
)

// Each case has a number of races of processes of each of two kinds, and a number of races in single steps.
const (
	races = 20
	steps = 40
)

// points are the failpoints of a deletion that can stop an agent. each tells whether an agent meets the step for each
// file or once for all.
var points = []struct {
	name string
	each bool
}{
	{"delete.after_ledger", false},
	{"delete.after_mark", true},
	{"delete.after_aside", true},
	{"delete.after_unlink", true},
	{"delete.before_done", false},
}

// TestCampaignDeleteRace creates newer files under the names of sources between their commit and their deletion.
func TestCampaignDeleteRace(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "delete-race", Unit: "races", Full: 2000, Short: 2*races + steps,
		What: "a newer file comes to a source's name between commit and deletion, at every step"},
		func(t *testing.T, c *campaign.C) {
			for seed, done := c.Seed, 0; done < c.Count; seed++ {
				ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
					r := campaign.Rand(seed)
					n := inSteps(t, r, steps)
					if !t.Failed() {
						n += inProcesses(t, seed, r)
					}
					done += n
					c.Add(n)
				})
				if !ok {
					t.Logf("this case again: make test-faults CAMPAIGN=delete-race SEED=%d COUNT=1", seed)
					return
				}
			}
		})
}

// A racing is a network with deletions of sources.
type racing struct {
	*network.Network
	t     *testing.T
	r     *rand.Rand
	newer map[string]judge.Sum // newer files, by path
}

func inProcesses(t *testing.T, seed uint64, r *rand.Rand) int {
	p := &racing{t: t, r: r, newer: map[string]judge.Sum{}, Network: network.Up(t, network.Setup{
		Ferry: campaign.Tagged(t, "failpoint"), Agents: []string{"BETA"}})}
	p.Add("ALPHA")
	stopped := &network.Job{From: "ALPHA", To: "BETA", In: "in/stopped", Out: "out1", Seed: seed << 1, Count: races, Size: 3000, Delete: true}
	free := &network.Job{From: "ALPHA", To: "BETA", In: "in/free", Out: "out2", Seed: seed<<1 + 1, Count: races, Size: 3000, Delete: true}
	p.stopped(stopped)
	done := races + p.free(free)
	p.Judge(p.facts, stopped, free)
	return done
}

// stopped stops ALPHA at a step of a deletion. Then newer files get all names: those of earlier files, of the present
// one and of later ones. ALPHA continues, or is killed and continues in its next run.
func (p *racing) stopped(j *network.Job) {
	p.t.Helper()
	at, file := points[p.r.IntN(len(points))], 0
	if at.each {
		file = p.r.IntN(races)
	}
	p.Setenv("ALPHA", fmt.Sprintf("FERRY_FAILPOINT=%s=stop@%d", at.name, file+1))
	p.Start("ALPHA")
	s := p.Begin(j)
	p.Until("ALPHA has come to "+at.name, func() bool { return network.Stopped(p.Pid("ALPHA")) })
	ways := map[string]int{}
	warned := 0
	for i, c := range p.Copies(j) {
		if i > file || i == file && !strings.HasSuffix(at.name, "aside") && !strings.HasSuffix(at.name, "unlink") {
			warned++
		}
		how, now, err := come(p.r, c.Source, stepwise)
		must(p.t, err)
		p.newer[c.Source] = now
		ways[how]++
	}
	kill := p.r.IntN(2) == 0
	if p.Setenv("ALPHA"); kill {
		p.Kill("ALPHA")
		p.Start("ALPHA")
	} else {
		p.Thaw("ALPHA")
	}
	p.t.Logf("at %s of file %d, killed there: %v: %v", at.name, file, kill, ways)
	sum := s.Wait().Ends("successful", 0).Summary
	if j.ID = sum.ID; at.name == "delete.before_done" {
		warned = 0
	}
	// After a crash no warning is required for a name that belongs to another file.
	if !kill && sum.Warnings != int64(warned) {
		p.t.Errorf("%d sources are another file now, and %d warnings say so", warned, sum.Warnings)
	}
}

// free creates newer files as soon as files have arrived, at any step of their deletion. It leaves every fourth file
// alone, and returns the number of newer files.
func (p *racing) free(j *network.Job) (done int) {
	p.t.Helper()
	s := p.Begin(j)
	copies := p.Copies(j)
	dir := strings.TrimPrefix(filepath.Dir(copies[0].Dest), p.Root("BETA")+"/")
	seen := map[string]bool{}
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for ; s.Running(); <-tick.C {
		landed := p.Landed("BETA", dir)
		for i, c := range copies {
			if landed[filepath.Base(c.Dest)] == "" || seen[c.Dest] || p.r.IntN(3) > 0 {
				continue
			}
			if seen[c.Dest] = true; i%4 == 3 {
				continue
			}
			_, now, err := come(p.r, c.Source, atomic)
			must(p.t, err)
			p.newer[c.Source] = now
			done++
		}
	}
	j.ID = s.Wait().Ends("successful", 0).Summary.ID
	return done
}

// facts reports the newer files to the judge, and complains about sources that still exist without a newer file.
func (p *racing) facts(f *judge.Facts) {
	f.Newer = map[string]judge.Sum{}
	for path, sum := range p.newer {
		f.Newer["ALPHA:"+strings.TrimPrefix(path, p.Root("ALPHA")+"/")] = sum
	}
	for name := range f.Source {
		if _, newer := f.Newer[name]; !newer {
			p.t.Errorf("%q has arrived, nothing newer came to it, and it is not deleted", name)
		}
	}
}
