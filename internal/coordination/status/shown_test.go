package status_test

import (
	"testing"
	"testing/synctest"

	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// silentDestination returns a picture with a transfer in each state, whose destination BETA is silent. The nth state of
// transfer.States has the transfer id(n).
func silentDestination() *status.Picture {
	p := status.New(clock.System)
	p.Know("BETA")
	for n, s := range transfer.States() {
		p.Progress(&transfer.Progress{ID: id(n), Source: "ALPHA", Destination: "BETA", State: s})
	}
	wait(2 * wire.UnreachableAfter)
	p.Beat(&wire.Beat{Agent: "ALPHA", Status: wire.AgentReady})
	return p
}

// A silent destination changes the state of transfers that talk with it, and of no others: one in the queue of its
// source waits for a slot, and one that is being cancelled still is.
func TestOnlyTransfersThatTalkWaitForASilentAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := silentDestination()
		for n, s := range transfer.States() {
			want, reason := s, false
			switch s {
			case transfer.Negotiating, transfer.Running, transfer.Waiting:
				want, reason = transfer.Waiting, true
			}
			g, err := p.Transfer(id(n).String(), "")
			if err != nil || g.State != want || (g.Reason != nil) != reason {
				t.Errorf("a transfer that is %s is shown as %+v, %v", s, g, err)
			}
		}
	})
}
