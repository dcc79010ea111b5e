//go:build linux

package flow_test

import (
	"testing"
	"time"

	"ferry/test/flow/network"
)

// apart returns a network with each agent at a queue manager of its own.
func apart(t *testing.T, agents ...string) *network.Network {
	t.Helper()
	return network.Up(t, network.Setup{Ferry: ferry, Shape: network.ShapeChannels, Agents: agents})
}

// TestStoredBehindAChannel sends to a destination behind a channel. The data are stored at the destination's queue
// manager. The channel may fail during and after that: the destination takes the stored data while the source is out of
// reach.
func TestStoredBehindAChannel(t *testing.T) {
	t.Parallel()
	n := apart(t, "ALPHA", "BETA")
	n.File("ALPHA", "in/big", 1, 60*mib)
	n.Files("ALPHA", "in/many", 2, 300, 3000)
	n.Stop("BETA")
	w := n.WireOf("BETA")
	s := n.SendAsync(stored, "--limit", "20M", "-r", "ALPHA:in", "BETA:out/")
	n.UntilEvery("some is stored", 20*time.Millisecond, func() bool { some, _ := w.Stored("FERRY_STORE"); return some > 20 })
	n.Kill(network.QM)
	n.Start(network.QM)
	n.UntilEvery("everything is stored", 20*time.Millisecond, func() bool { return n.Logged("ALPHA", "sent: everything is stored") > 0 })
	n.Kill(network.QM)
	n.Start("BETA")
	n.UntilEvery("everything has arrived", 50*time.Millisecond, func() bool { return n.Count("BETA", "out/in/many") == 300 && n.Exists("BETA", "out/in/big") })
	n.Start(network.QM)
	s.Wait().Ends("successful", 0)
	n.Same("ALPHA", "in", "BETA", "out/in")
	once(t, n, s.ID(), 303)
	empty(t, n)
	n.NoTemporaries("BETA")
}

// TestStoredDestinationMoves moves a destination to another queue manager while data are stored for it. The source
// sends them again, to the new queue manager, and no data stay at the old one.
func TestStoredDestinationMoves(t *testing.T) {
	t.Parallel()
	n := apart(t, "ALPHA", "BETA", "GAMMA")
	n.File("ALPHA", "a", 1, 5*mib)
	for _, to := range []string{"GAMMA", "ALPHA", "BETA"} {
		n.Stop("BETA")
		s := n.SendAsync(stored, "ALPHA:a", "BETA:"+to)
		isSent(t, n, s.ID())
		n.Move("BETA", to)
		n.Start("BETA")
		s.Wait().Ends("successful", 0)
		n.Same("ALPHA", "a", "BETA", to)
		once(t, n, s.ID(), 1)
		empty(t, n, "GAMMA")
	}
}

// TestStoredCancelBehindAChannel cancels a transfer while the channel is down. It ends only after the destination can
// no longer take its stored data.
func TestStoredCancelBehindAChannel(t *testing.T) {
	t.Parallel()
	n := apart(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, 5*mib)
	n.Stop("BETA")
	s := n.SendAsync(stored, "ALPHA:a", "BETA:out/")
	isSent(t, n, s.ID())
	n.Stop(n.ManagerOf("BETA"))
	n.Ferry("transfer", "cancel", s.ID()).OK()
	n.UntilEvery("it is being cancelled", 50*time.Millisecond, func() bool { return n.Status(s.ID()).State == "cancelling" })
	n.Start(n.ManagerOf("BETA"))
	s.Wait().Ends("cancelled", 41)
	empty(t, n)
	n.Start("BETA")
	n.File("ALPHA", "b", 1, mib)
	n.Send(stored, "ALPHA:b", "BETA:out/").Ends("successful", 0)
	if n.Exists("BETA", "out/a") {
		t.Error("the file of a cancelled transfer has arrived")
	}
}
