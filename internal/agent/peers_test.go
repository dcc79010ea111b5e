package agent

import (
	"testing"
	"time"

	"ferry/internal/transfer"
)

// A peer to which nothing goes any more is not listened to, even where it is forgotten
// while its subscription is being made.
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
	if p.heard("ONE", "a") || p.heard("TWO", "a") || p.heard("TWO", "a") || !p.heard("TWO", "b") || p.down("TWO", now) {
		t.Error("TWO is there, and has started anew once")
	}
}
