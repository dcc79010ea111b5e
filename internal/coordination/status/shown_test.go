package status_test

import (
	"testing"
	"testing/synctest"

	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// silentDestination returns a picture with a transfer in each state to the silent agent BETA. The nth state of
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

// A filter for a state lists and counts the transfers that are shown with it.
func TestFilterByTheStateThatIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := silentDestination()
		for _, s := range transfer.States() {
			want := 1
			switch s {
			case transfer.Negotiating, transfer.Running:
				want = 0
			case transfer.Waiting:
				want = 3
			}
			q := status.Query{Limit: 10, Filter: &wire.Filter{States: []transfer.State{s}}}
			all, left := p.Transfers(q)
			if len(all) != want || left != 0 || p.Sums(q).Transfers != int64(want) {
				t.Errorf("%d transfers are listed as %s, %d counted; want %d", len(all), s, p.Sums(q).Transfers, want)
			}
			for _, g := range all {
				if g.State != s {
					t.Errorf("a transfer that is %s is listed as %s", g.State, s)
				}
			}
		}
	})
}
