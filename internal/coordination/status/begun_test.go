package status_test

import (
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A source that has started again is asked about the transfers that it had accepted: at once where
// its destination had not accepted them, and else when that has had the time to ask.
func TestASourceThatHasStartedAgainIsAsked(t *testing.T) {
	withPicture(t, func(t *testing.T, p *status.Picture) {
		const grace = 45 * time.Second
		beat := func(instance string) {
			if _, err := p.Beat(&wire.Beat{Agent: "ALPHA", Instance: instance, Incarnation: instance, Status: wire.AgentReady, Started: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		note := func(k int, event audit.Event, state transfer.State) {
			p.Record(&audit.Record{Agent: "ALPHA", Incarnation: "1", Time: time.Now(), Event: event, Role: audit.RoleSource, Transfer: id(k), Source: "ALPHA",
				Destination: "BETA", Principal: "ann", State: state})
		}
		asked := func(want ...int) {
			t.Helper()
			all := p.Unconfirmed(grace, 10)
			if len(all) != len(want) {
				t.Fatalf("asked about %+v, not %v", all, want)
			}
			for n, k := range want {
				if b := &all[n]; b.ID != id(k) || b.Source != "ALPHA" || b.Destination != "BETA" || b.Principal != "ann" {
					t.Errorf("asked about %+v, not transfer %d", b, k)
				}
			}
		}

		beat("1")
		for k := range 4 {
			note(k, audit.Accepted, transfer.Accepted)
		}
		note(1, audit.Started, "")
		note(2, audit.Completed, transfer.Successful)
		p.Queued(&transfer.Progress{ID: id(9), State: transfer.Queued, Source: "ALPHA", Destination: "BETA"})
		asked() // the run that has accepted them lives

		wait(time.Second)
		beat("2")
		asked(0, 3)
		p.Progress(&transfer.Progress{ID: id(3), State: transfer.Waiting, Source: "ALPHA", Destination: "BETA", Principal: "ann"})
		asked(0)
		for range 10 {
			wait(5 * time.Second)
			beat("2")
		}
		asked(1, 0) // one was asked about before, without an answer
		b := p.Unconfirmed(grace, 1)[0]
		p.Confirmed(&b)
		asked(0)
		note(0, audit.Failed, transfer.Failed)
		asked()

		wait(wire.UnreachableAfter + time.Second)
		p.Beat(&wire.Beat{Agent: "ALPHA", Instance: "3", Status: wire.AgentStopped})
		asked()
	})
}
