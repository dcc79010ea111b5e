package status_test

import (
	"fmt"
	"testing"
	"time"

	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// The times of MaxAgents removals are kept. A later removal of one of these agents updates its time.
func TestTimesOfRemovalsAreBounded(t *testing.T) {
	p := status.New(clock.System)
	name := func(n int) transfer.AgentName { return transfer.AgentName(fmt.Sprint("A", n)) }
	first, later := time.Unix(1000, 0), time.Unix(2000, 0)
	for n := range status.MaxAgents {
		p.Remove(name(n), first)
	}
	p.Remove(name(7), later)
	p.Remove("ONEMORE", later)
	if got := p.Known(name(7)).Removed; !got.Equal(later) {
		t.Errorf("an agent that was removed twice was removed at %s", got)
	}
	if got := p.Known(name(8)).Removed; !got.Equal(first) {
		t.Errorf("an agent that was removed once was removed at %s", got)
	}
	if got := p.Known("ONEMORE").Removed; !got.IsZero() {
		t.Errorf("the time of one removal more is kept: %s", got)
	}
}
