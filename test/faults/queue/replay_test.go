//go:build linux

package queue_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/security/word"
	"ferry/internal/wire"
	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// window limits the memory of the queue manager of these cases for message IDs. It is short, so that replays fall both
// in and out of it.
const window = 100 * time.Millisecond

// TestCampaignReplay replays all past commands, many times each. Their agents have obeyed them long ago, are obeying
// them, or have not yet begun.
func TestCampaignReplay(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "replay", Unit: "commands", Full: 10_000, Short: 300,
		What: "all commands replayed, each 2 to 50 times, shuffled, in and out of the de-duplication window, across restarts"},
		func(t *testing.T, c *campaign.C) {
			for seed, done := c.Seed, 0; done < c.Count; seed++ {
				ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
					n := replay(t, seed, campaign.Rand(seed))
					done += n
					c.Add(n)
				})
				if !ok {
					t.Logf("this case again: make test-faults CAMPAIGN=replay SEED=%d COUNT=1", seed)
					return
				}
			}
		})
}

// A given is a command as it was sent.
type given struct {
	subject string
	data    []byte
}

// A replaying is one case.
type replaying struct {
	*network.Network
	t        *testing.T
	r        *rand.Rand
	wire     *network.Wire
	replayed int // replays that the queue manager has stored

	mu    sync.Mutex
	given []given
}

// replay runs a case and returns the number of commands replayed.
func replay(t *testing.T, seed uint64, r *rand.Rand) int {
	p := &replaying{t: t, r: r, Network: network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{"ALPHA", "BETA", "GAMMA"}})}
	p.wire = p.Wire()
	p.wire.Window(command, window)
	p.wire.Window(control, window)
	for _, subjects := range []string{"ferry.command.>", "ferry.control.>"} {
		p.wire.Hear(subjects, p.hear)
	}
	jobs, cancelled := p.work(seed)
	landed := p.Landed("BETA", "b1/overwriting")
	p.storm(2)
	p.Until("every command is taken", p.taken)
	for _, j := range jobs {
		p.once(j.ID, "submitted", "accepted")
	}
	p.storm(50)
	p.Start("GAMMA")
	p.storm(50) // again, when nearly all transfers have ended
	p.Until("every command is taken", p.taken)
	p.Judge(nil, jobs...)
	p.Untouched("BETA", "b1/overwriting", landed)
	for _, j := range jobs {
		p.once(j.ID, "submitted", "accepted", "completed")
	}
	p.once(cancelled, "submitted", "accepted", "cancelled")
	if p.Exists("GAMMA", "g2/cancelled") {
		t.Error("the files of a cancelled transfer have arrived")
	}
	if manager, agents := p.Degraded(); manager != "" || len(agents) > 0 {
		t.Errorf("nothing was lost, and they say that the queue manager is degraded: %q, %v", manager, agents)
	}
	return p.replayed
}

// taken reports whether no command waits.
func (p *replaying) taken() bool {
	commands, _ := p.wire.Stored(command)
	controls, _ := p.wire.Stored(control)
	return commands+controls == 0
}

// hear keeps a command, once. A message without content is no command: the queue manager has its streams refuse such
// messages.
func (p *replaying) hear(subject string, data []byte) {
	if len(data) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.given {
		if string(g.data) == string(data) {
			return
		}
	}
	p.given = append(p.given, given{subject, append([]byte(nil), data...)})
}

func (p *replaying) all() []given {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]given(nil), p.given...)
}

// work sends commands for transfers that end, run, wait and are cancelled.
func (p *replaying) work(seed uint64) (jobs []*network.Job, cancelled string) {
	for i, j := range []*network.Job{
		{To: "BETA", In: "plain", Out: "b0"},
		{To: "BETA", In: "overwriting", Out: "b1", Flags: []string{"--if-exists", "overwrite"}},
		{To: "BETA", In: "deleted", Out: "b2", Delete: true},
	} {
		j.From, j.Seed, j.Count, j.Size = "ALPHA", seed+uint64(i), 3, 4000
		s := p.Begin(j)
		j.ID = s.ID()
		s.Wait().Ends("successful", 0)
		jobs = append(jobs, j)
	}
	p.Stop("GAMMA")
	waits := &network.Job{From: "ALPHA", To: "GAMMA", In: "waiting", Out: "g1", Seed: seed + 3, Count: 3, Size: 4000}
	runs := &network.Job{From: "ALPHA", To: "BETA", In: "running", Out: "b3", Seed: seed + 4, Count: 2, Size: 32 << 20}
	gone := &network.Job{From: "ALPHA", To: "GAMMA", In: "cancelled", Out: "g2", Seed: seed + 5, Count: 3, Size: 4000}
	for _, j := range []*network.Job{waits, gone, runs} {
		p.Make(j)
		p.Submit(j)
	}
	p.Ferry("transfer", "cancel", gone.ID).OK()
	p.WaitState(gone.ID, "cancelled")
	return append(jobs, waits, runs), gone.ID
}

// storm replays all commands in random order, each at least twice and at most the given number of times. It restarts
// random processes meanwhile.
func (p *replaying) storm(most int) {
	p.t.Helper()
	var all []given
	for _, g := range p.all() {
		for range 2 + p.r.IntN(most-1) {
			all = append(all, g)
		}
		if strings.HasPrefix(g.subject, "ferry.command.") {
			all = append(all, p.altered(g))
		}
	}
	p.r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	restarts := map[int]string{}
	for _, who := range []string{"ALPHA", []string{"ALPHA", "BETA", network.QM}[p.r.IntN(3)]} {
		restarts[p.r.IntN(len(all))] = who
	}
	for i, g := range all {
		if who := restarts[i]; who != "" {
			p.Kill(who)
			p.Start(who)
		}
		id := ""
		switch p.r.IntN(3) {
		case 0:
			id = fmt.Sprintf("same %x", len(g.data)) // the same for each replay of a command, or nearly
		case 1:
			id = fmt.Sprintf("new %x", p.r.Uint64())
		}
		if p.wire.Enqueue(g.subject, id, g.data) {
			p.replayed++
		}
	}
}

// altered returns a request with the ID of a given one and another content. The agent must refuse it.
func (p *replaying) altered(g given) given {
	p.t.Helper()
	_, body, err := word.Open(g.data)
	must(p.t, err)
	s, err := wire.DecodeSubmit(body)
	must(p.t, err)
	s.Request.Priority = (s.Request.Priority + 1) % 10
	s.Request.Job = "altered"
	head := g.data[:len(g.data)-len(body)] // with the signature of the request that was given
	return given{g.subject, append(slices.Clip(head), wire.Marshal(s)...)}
}

// once expects the source to have recorded each of the events of a transfer once.
func (p *replaying) once(id string, events ...string) {
	p.t.Helper()
	count := map[string]int{}
	p.Until("the audit of "+id+" is complete", func() bool {
		clear(count)
		for line := range strings.Lines(p.Ferry("audit", "show", "--json", id).OK().Stdout) {
			var r network.Record
			must(p.t, json.Unmarshal([]byte(line), &r))
			if r.Role == "source" {
				count[r.Event]++
			}
		}
		return count[events[len(events)-1]] > 0
	})
	for _, e := range events {
		if count[e] != 1 {
			p.t.Fatalf("transfer %s is %s %d times on record at its source", id, e, count[e])
		}
	}
	if n := count["failed"]; n > 0 {
		p.t.Fatalf("transfer %s is failed %d times on record at its source", id, n)
	}
}
