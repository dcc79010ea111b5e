package qmgr

import (
	"testing"
	"time"

	"ferry/internal/transfer"
)

// TestPipesOfAUserAreCounted holds that a user has a limited number of pipes with readers, and that pipes that have
// ended, or asked long ago, do not count.
func TestPipesOfAUserAreCounted(t *testing.T) {
	var b pipeBook
	now := time.Unix(1_800_000_000, 0)
	pipe := func(user string, n int) transfer.AgentName {
		return transfer.StreamAgentOf(user, transfer.ID{14: byte(n >> 8), 15: byte(n)})
	}
	for n := range 10 * pipesOfUser {
		if err := b.enter(pipe("bob", n), now); err != nil {
			t.Fatal(err)
		}
		b.leave(pipe("bob", n))
	}
	if len(b.of) != 0 {
		t.Errorf("pipes that have ended are counted: %d users", len(b.of))
	}
	for n := range pipesOfUser {
		for range 2 { // the reader of requests and that of cancels
			if err := b.enter(pipe("bob", n), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.enter(pipe("bob", pipesOfUser), now.Add(PipeIdle)); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("pipe %d of a user: %v", pipesOfUser+1, err)
	}
	if err := b.enter(pipe("bob", 3), now.Add(PipeIdle)); err != nil {
		t.Errorf("a pipe that is counted asks again: %v", err)
	}
	if err := b.enter(pipe("alice", 0), now); err != nil {
		t.Errorf("another user: %v", err)
	}
	b.leave(pipe("bob", 5))
	if err := b.enter(pipe("bob", pipesOfUser), now.Add(PipeIdle)); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	if err := b.enter(pipe("bob", pipesOfUser+1), now.Add(PipeIdle+time.Second)); err != nil {
		t.Errorf("after %s: %v", PipeIdle, err)
	}
	if n := len(b.of[pipe("bob", 0).StreamUser()]); n != 3 {
		t.Errorf("%d pipes are counted, want 3", n)
	}
}
