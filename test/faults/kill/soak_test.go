//go:build linux

package kill_test

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
	"ferry/test/judge"
)

// soakers are the agents of the soak; each sends to each other.
var soakers = []string{"ALPHA", "BETA", "GAMMA"}

const (
	atOnce   = 10              // transfers in flight
	perBatch = 50              // transfers between two judgements
	every    = 2 * time.Second // maximum time between two faults
	orAfter  = 8               // maximum number of transfers between two faults
)

// TestCampaignSoak runs a thousand transfers of all shapes between three agents, with a fault every few seconds. No
// agent is killed in the second half, so that leaks stay visible at the end. Then the resources of all processes must
// be back at the initial figures.
func TestCampaignSoak(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "soak", Unit: "transfers", Full: 1000, Short: 15,
		What: "transfers of all shapes between three agents, with a kill, a stop, a restart or a cut every few seconds",
	}, func(t *testing.T, c *campaign.C) {
		s := &soak{t: t, c: c, r: campaign.Rand(c.Seed), struck: map[string]int{}}
		env := map[string][]string{}
		if c.Short { // a short run has no time to wait for the garbage collector
			for _, who := range append([]string{network.QM}, soakers...) {
				env[who] = []string{"GOGC=100"}
			}
		}
		s.n = network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: soakers, Env: env})
		warm := min(perBatch, max(c.Count/5, 1))
		s.batch(warm, nil)
		before := s.holds(nil)
		for s.done < c.Count && !t.Failed() {
			faults := everything
			if s.done > c.Count/2 {
				faults = gentle
			}
			s.batch(min(perBatch, c.Count-s.done), faults)
		}
		if t.Failed() {
			return
		}
		if t.Logf("struck: %v", s.struck); len(s.struck) == 0 {
			t.Error("nothing has struck")
		}
		after := s.holds(before)
		for who, b := range before {
			a := after[who]
			t.Logf("%s: before %+v, after %+v", who, b, a)
			for _, v := range judge.Judge(judge.Facts{Before: &b, After: &a}) {
				t.Errorf("%s: %s", who, v)
			}
		}
	})
}

// A fault disturbs a running network and leaves it whole.
type fault struct {
	name string
	do   func(s *soak)
}

var gentle = []fault{
	{"an agent stands still", func(s *soak) { s.freeze(s.agent()) }},
	{"the queue manager stands still", func(s *soak) { s.freeze(network.QM) }},
	{"the queue manager is killed", func(s *soak) { s.kill(network.QM) }},
	{"the queue manager is restarted", func(s *soak) { s.n.Stop(network.QM); s.n.Start(network.QM) }},
	{"connections are cut", func(s *soak) { s.cut() }},
}

var everything = append([]fault{
	{"an agent is killed", func(s *soak) { s.kill(s.agent()) }},
	{"an agent is restarted", func(s *soak) { a := s.agent(); s.n.Stop(a); s.n.Start(a) }},
	{"all are killed", func(s *soak) { s.kill(append([]string{network.QM}, soakers...)...) }},
}, gentle...)

type soak struct {
	t      *testing.T
	c      *campaign.C
	r      *rand.Rand
	n      *network.Network
	done   int
	struck map[string]int
}

func (s *soak) agent() string { return soakers[s.r.IntN(len(soakers))] }

func (s *soak) kill(who ...string) {
	s.n.Kill(who...)
	moment(s.r, time.Second)
	s.n.Launch(who...)
	s.n.Ready(who...)
}

func (s *soak) freeze(who string) {
	s.n.Signal(who, syscall.SIGSTOP)
	moment(s.r, 2*time.Second)
	s.n.Signal(who, syscall.SIGCONT)
}

// cut ends every connection to the queue manager. If that fails, which it does without root, it freezes an agent
// instead.
func (s *soak) cut() {
	_, port, _ := strings.Cut(strings.TrimPrefix(s.n.URL(), "nats://"), ":")
	cut, err := exec.Command("ss", "-H", "-K", "dst", "127.0.0.1", "dport", "=", ":"+port).Output()
	if err != nil || len(cut) == 0 {
		s.struck["nothing could be cut, and an agent stands still"]++
		s.freeze(s.agent())
	}
}

// job returns the k-th transfer of the soak.
func (s *soak) job(k int) *network.Job {
	from := s.r.IntN(len(soakers))
	to := (from + 1 + s.r.IntN(len(soakers)-1)) % len(soakers)
	j := shapes[s.r.IntN(len(shapes))].make(s.c.Seed<<20+uint64(k), fmt.Sprint(k))
	j.From, j.To = soakers[from], soakers[to]
	j.Flags = ways[s.r.IntN(len(ways))]
	// Most are small, as in practice.
	j.Count = 1 + int(float64(j.Count-1)*s.r.Float64()*s.r.Float64())
	j.Size = 1 + int64(float64(j.Size)*s.r.Float64()*s.r.Float64()*s.r.Float64())
	return j
}

// batch runs a number of transfers under faults, and judges them when they are over and the faults have stopped.
func (s *soak) batch(count int, faults []fault) {
	var jobs []*network.Job
	for k := range count {
		j := s.job(s.done + k)
		s.n.Make(j)
		jobs = append(jobs, j)
	}
	sent := make([]*network.Sending, count)
	next, over, atOver := 0, 0, 1
	strike, moved := time.Now().Add(time.Duration(s.r.Int64N(int64(every)))), time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over < count {
		<-tick.C
		running := s.running(jobs[:next], sent)
		if next-running > over {
			over, moved = next-running, time.Now()
		}
		for ; next < count && running < atOnce; next++ {
			sent[next] = s.n.Resubmit(jobs[next])
			running++
		}
		if faults != nil && running > 0 && (over >= atOver || time.Now().After(strike)) {
			s.strike(faults[s.r.IntN(len(faults))])
			strike, atOver = time.Now().Add(time.Duration(s.r.Int64N(int64(every)))), over+1+s.r.IntN(orAfter)
		}
		if time.Since(moved) > time.Minute {
			s.t.Fatalf("no transfer has ended for a minute; %d of this batch are over", over)
		}
	}
	for k, j := range jobs {
		j.ID = sent[k].ID()
		s.goOn(j, sent[k].Wait().Summary)
	}
	s.n.Judge(nil, jobs...)
	s.done += count
	s.c.Add(count)
	for _, j := range jobs {
		s.n.Clear(j)
	}
}

// running counts the commands that have not ended. It repeats a command that found no queue manager and therefore
// submitted nothing.
func (s *soak) running(jobs []*network.Job, sent []*network.Sending) (count int) {
	for k, j := range jobs {
		if !sent[k].Running() && sent[k].Last().ID == "" {
			s.t.Logf("%s: given again", strings.TrimSpace(sent[k].Errors()))
			sent[k] = s.n.Resubmit(j)
		}
		if sent[k].Running() {
			count++
		}
	}
	return count
}

func (s *soak) strike(f fault) {
	s.struck[f.name]++
	f.do(s)
}

// goOn resumes a transfer that three crashes have parked without being its fault, as an operator would.
func (s *soak) goOn(j *network.Job, said network.Summary) {
	if said.State == "parked" {
		s.t.Logf("transfer %s is parked", j.ID)
		s.n.Ferry("transfer", "resume", j.ID).OK()
	}
}

var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ `)

// calm is the time within which a process must give unused memory back. The garbage collector of an idle process runs
// every two minutes.
const calm = 6 * time.Minute

// holds returns the resources of each idle process, as soon as they are no more than before, or after the time calm. It
// counts the goroutines in the stack dump that a process prints when it is told to quit, and restarts the process.
func (s *soak) holds(before map[string]judge.Resources) map[string]judge.Resources {
	all := map[string]judge.Resources{}
	processes := append([]string{network.QM}, soakers...)
	over := time.Now().Add(calm)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for more := true; more; {
		<-tick.C
		more = false
		for _, who := range processes {
			all[who] = s.n.Holds(who)
			b, a := before[who], all[who]
			a.Goroutines = b.Goroutines
			more = more || before != nil && len(judge.Judge(judge.Facts{Before: &b, After: &a})) > 0
		}
		more = more && time.Now().Before(over)
	}
	for _, who := range processes {
		h := all[who]
		s.n.Signal(who, syscall.SIGQUIT)
		s.n.Gone(who)
		h.Goroutines = len(goroutine.FindAllString(s.n.Wrote(who), -1))
		if h.Goroutines == 0 {
			s.t.Fatalf("%s was told to quit and has listed no goroutines", who)
		}
		all[who] = h
	}
	s.n.Launch(processes...)
	s.n.Ready(processes...)
	return all
}
