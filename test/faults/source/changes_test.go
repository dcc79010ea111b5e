//go:build linux

package source_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/flow/network"
	"ferry/test/judge"
)

const (
	jobs     = 4   // at once
	perJob   = 12  // files
	maxTries = 3   // starts of a file that changes, before it fails (R10)
	perCase  = 120 // changes at most
)

// TestCampaignSourceChanges changes files while they are read.
func TestCampaignSourceChanges(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "source-changes", Unit: "changes", Full: 1000, Short: 40,
		What: "sources grown, shrunk, rewritten at the same size, replaced, their times restored, while they are read"},
		func(t *testing.T, c *campaign.C) {
			for seed, done := c.Seed, 0; done < c.Count; seed++ {
				ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
					n := sourceChanges(t, seed, campaign.Rand(seed), min(perCase, c.Count-done))
					done += n
					c.Add(n)
				})
				if !ok {
					t.Logf("this case again: make test-faults CAMPAIGN=source-changes SEED=%d COUNT=%d", seed, max(1, min(perCase, c.Count-done)))
					return
				}
			}
		})
}

// A changing is one case.
type changing struct {
	*network.Network
	t       *testing.T
	r       *rand.Rand
	jobs    []*network.Job
	victims map[string]*victim // by path
	order   []string           // of them
	left    int                // changes to do
	hit     map[string]int     // changes done, by kind
}

// sourceChanges runs a case and returns the number of changes of files during their reading.
func sourceChanges(t *testing.T, seed uint64, r *rand.Rand, most int) int {
	c := &changing{t: t, r: r, victims: map[string]*victim{}, left: most, hit: map[string]int{},
		Network: network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{"ALPHA", "BETA"}})}
	var sendings []*network.Sending
	for i := range jobs + 1 {
		j := &network.Job{From: "ALPHA", To: "BETA", In: fmt.Sprint("in/", i), Out: fmt.Sprint("out", i), Seed: seed<<8 + uint64(i),
			Count: perJob, Size: 200_000 + r.Int64N(1<<20), Want: []string{"successful", "partial", "failed"}}
		if i%2 == 1 { // with a slow digest files are opened ahead of their turn
			j.Flags = []string{"--checksum", "md5"}
		}
		if i == jobs {
			j.Count, j.Size = 1, 192<<20 // the interrupted one, large enough for a busy host
		}
		c.Make(j)
		c.jobs = append(c.jobs, j)
		for k, f := range c.Copies(j) {
			v, err := newVictim(f.Source, seed<<16+uint64(i<<8+k), []int{0, 1, 1, 2, 3, 4, 6}[r.IntN(7)])
			must(t, err)
			c.victims[f.Source] = v
			c.order = append(c.order, f.Source)
		}
	}
	large := c.Resubmit(c.jobs[jobs])
	c.interrupt()
	for _, j := range c.jobs[:jobs] {
		sendings = append(sendings, c.Resubmit(j))
	}
	sendings = append(sendings, large)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for c.left > 0 && slices.ContainsFunc(sendings, (*network.Sending).Running) {
		c.once()
		<-tick.C
	}
	for i, s := range sendings {
		c.ended(c.jobs[i], s)
	}
	c.Judge(c.facts, c.jobs...)
	t.Logf("%d changes: %v", most-c.left, c.hit)
	return most - c.left
}

// interrupt kills one of the agents while it transfers a file, and changes the file before the transfer can resume. The
// arrived file must not consist of two versions.
func (c *changing) interrupt() {
	c.t.Helper()
	v := c.victims[c.order[len(c.order)-1]]
	c.Growing("BETA", 1<<20+c.r.Int64N(20<<20))
	who := []string{"ALPHA", "BETA"}[c.r.IntN(2)]
	if c.Freeze("ALPHA"); !slices.Contains(c.OpenFiles("ALPHA", filepath.Dir(v.path)), v.path) {
		c.Thaw("ALPHA")
		return // it has been read to its end
	}
	c.Kill(who)
	name, err := v.change(c.r)
	must(c.t, err)
	c.count("interrupted, " + name)
	if who != "ALPHA" {
		c.Thaw("ALPHA")
	}
	c.Start(who)
}

// once changes a file that ALPHA reads at this moment. Sometimes it changes a file while ALPHA runs, whether ALPHA
// reads it or not.
func (c *changing) once() {
	c.t.Helper()
	if c.r.IntN(8) == 0 {
		v := c.victims[c.order[c.r.IntN(len(c.order))]]
		if open := c.OpenFiles("ALPHA", c.Path("ALPHA", "in")); len(open) > 0 && c.victims[open[0]] != nil {
			v = c.victims[open[0]]
		}
		if v.changes < v.budget {
			must(c.t, v.creep(c.r))
			c.count("rewritten in places, unstopped")
		}
		return
	}
	c.Freeze("ALPHA")
	defer c.Thaw("ALPHA")
	for _, path := range c.OpenFiles("ALPHA", c.Path("ALPHA", "in")) {
		v := c.victims[path]
		if v == nil || v.changes >= v.budget || c.left == 0 {
			continue
		}
		name, err := v.change(c.r)
		must(c.t, err)
		c.count(name)
	}
}

func (c *changing) count(name string) {
	c.left--
	c.hit[name]++
}

// ended waits for the end of a job and compares its report with the changes of the files.
func (c *changing) ended(j *network.Job, s *network.Sending) {
	c.t.Helper()
	r := s.Wait()
	j.ID = r.Summary.ID
	failed := 0
	for _, o := range c.Outcomes(c.Audit(j.ID), "source") {
		if o.Error == nil {
			continue
		}
		failed++
		v := c.victims[o.Source]
		switch {
		case v == nil:
			c.t.Errorf("%q failed, and nobody has changed it: %s", o.Source, o.Error)
		case v.writes < maxTries:
			c.t.Errorf("%q was written %d times and failed: %s", o.Source, v.writes, o.Error)
		case o.Error.Kind != transfer.KindChanging || !strings.Contains(o.Error.Text, filepath.Base(o.Source)) || !strings.Contains(o.Error.Text, "chang"):
			c.t.Errorf("%q was changed %d times, and its error is of kind %s: %s", o.Source, v.changes, o.Error.Kind, o.Error)
		case !strings.Contains(r.Stderr, o.Error.Text):
			c.t.Errorf("the submitter is not told that %s: %s", o.Error, r.Stderr)
		}
	}
	switch failed {
	case 0:
		r.Ends("successful", 0)
	case j.Count: // the created directory does not count
		r.Ends("failed", 40)
	default:
		r.Ends("partial", 20)
	}
	c.hit["failed"] += failed
}

// facts sets the sum of each item to that of the arrived file, if the source ever had that content as a whole. It sets
// the sum of each source to that of its last change.
func (c *changing) facts(f *judge.Facts) {
	f.Newer = map[string]judge.Sum{}
	for i := range f.Transfers {
		for k := range f.Transfers[i].Items {
			it := &f.Transfers[i].Items[k]
			v := c.victims[c.Path("ALPHA", strings.TrimPrefix(it.Source, "ALPHA:"))]
			if there, ok := f.Destination[it.Dest]; ok && v.versions[there] {
				it.Sum = there
			}
			f.Newer[it.Source] = v.last
		}
	}
}
