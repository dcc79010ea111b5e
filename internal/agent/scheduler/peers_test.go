package scheduler

import (
	"testing"
	"time"

	"ferry/internal/transfer"
)

// A peer without transfers is not listened to, even where it is forgotten while its subscription is being made.
func TestPeersAreForgotten(t *testing.T) {
	p := peers{all: map[transfer.AgentName]*peer{}}
	heard := map[transfer.AgentName]int{}
	watch := func(name transfer.AgentName, meanwhile func()) {
		t.Helper()
		if err := p.watch(name, func() (func(), error) {
			meanwhile()
			heard[name]++
			return func() { heard[name]-- }, nil
		}); err != nil {
			t.Error(err)
		}
	}
	nothing := func() {}
	watch("ONE", nothing)
	watch("ONE", nothing)
	watch("TWO", nothing)
	p.forget(func(name transfer.AgentName) bool { return name == "TWO" })
	watch("THREE", func() { p.forget(func(name transfer.AgentName) bool { return name == "TWO" }) })
	if heard["ONE"] != 0 || heard["TWO"] != 1 || heard["THREE"] != 0 || len(p.all) != 1 {
		t.Errorf("listened to %v, known are %d", heard, len(p.all))
	}
	now := time.Unix(1000, 0)
	p.missed("TWO", now.Add(time.Second))
	if !p.down("TWO", now) || p.down("ONE", now) {
		t.Error("TWO is away, ONE is unknown")
	}
	if p.heard("ONE", "a", now) || p.heard("TWO", "a", now) || p.heard("TWO", "a", now) || !p.heard("TWO", "b", now) || p.down("TWO", now) {
		t.Error("TWO is there, and has started anew once")
	}
}

// A peer that has answered, or was heard, counts as there for a short time: on a slow link transfers to it share one
// question. A peer that ends, or is away, is asked again.
func TestAFreshPeerIsNotAsked(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		name   string
		deed   func(p *peers)
		within time.Duration
		fresh  bool
	}{
		{"it was never heard of", func(*peers) {}, time.Hour, false},
		{"it has answered", func(p *peers) { p.answered("ONE", start) }, 3 * time.Second, true},
		{"it has answered long ago", func(p *peers) { p.answered("ONE", start) }, time.Second, false},
		{"it was heard", func(p *peers) { p.heard("ONE", "a", start) }, 3 * time.Second, true},
		{"it was heard, and ends", func(p *peers) { p.heard("ONE", "a", start); p.leaves("ONE") }, 3 * time.Second, false},
		{"it was heard, and did not answer", func(p *peers) { p.heard("ONE", "a", start); p.missed("ONE", start) }, 3 * time.Second, false},
		{"another one was heard", func(p *peers) { p.heard("TWO", "a", start) }, 3 * time.Second, false},
	} {
		p := peers{all: map[transfer.AgentName]*peer{"ONE": {}, "TWO": {}}}
		c.deed(&p)
		if fresh := p.fresh("ONE", c.within, start.Add(2*time.Second)); fresh != c.fresh {
			t.Errorf("%s: fresh is %v", c.name, fresh)
		}
	}
}
