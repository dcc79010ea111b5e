package status_test

import (
	"testing"
	"time"

	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/wire"
)

// The time when an agent was heard last outlives a run of coordination.
func TestHeard(t *testing.T) {
	withPicture(t, func(t *testing.T, p *status.Picture) {
		for _, b := range []wire.Beat{{Agent: "AWAY", Status: wire.AgentReady}, {Agent: "STOPPED", Status: wire.AgentStopped}, {Agent: "UP", Status: wire.AgentReady}} {
			if _, err := p.Beat(&b); err != nil {
				t.Fatal(err)
			}
		}
		p.Know("NAME")
		began := time.Now()
		wait(time.Minute)
		if _, err := p.Beat(&wire.Beat{Agent: "UP", Status: wire.AgentReady}); err != nil {
			t.Fatal(err)
		}
		if h := p.Heard(false); len(h) != 2 || !h["AWAY"].Equal(began) || !h["STOPPED"].Equal(began) {
			t.Errorf("those that are away were heard at %v", h)
		}
		last := p.Heard(true)
		if len(last) != 3 || !last["UP"].Equal(time.Now()) {
			t.Errorf("all were heard at %v", last)
		}

		next := status.New(clock.System)
		next.Know("AWAY")
		for name, at := range last {
			next.HeardBefore(name, at)
		}
		wait(time.Minute)
		all := next.Agents()
		if len(all) != 1 || all[0].Status != wire.AgentUnreachable || all[0].Age != 2*time.Minute {
			t.Errorf("the next run has %+v", all)
		}
		if h := next.Heard(false); !h["AWAY"].Equal(began) {
			t.Errorf("the run after it has %v", h)
		}
	})
}
