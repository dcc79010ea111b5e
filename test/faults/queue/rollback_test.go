//go:build linux

package queue_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// TestCampaignRollback removes a state directory during transfers, or replaces it by an older copy. Each transfer ends,
// each reported file has arrived, and the network continues.
func TestCampaignRollback(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "rollback", Unit: "networks", Full: 80, Short: 8,
		What: "the ledger of the source or of the destination, coordination's log or the queue manager's store, removed in the middle of work or put back to an older copy"},
		func(t *testing.T, c *campaign.C) { c.Beside(t, 8, rollbackCase) })
}

// A state is a part of a network that is lost or replaced by an older copy.
type state struct {
	name string
	proc string                          // the process that has it
	dir  func(n *network.Network) string // path of it
	keep string                          // entry that stays: without its identity, no process may act in its name
}

var rolled = []state{
	{"the source", "ALPHA", func(n *network.Network) string { return n.State("ALPHA") }, "identity"},
	{"the destination", "BETA", func(n *network.Network) string { return n.State("BETA") }, "identity"},
	{"coordination", network.QM, func(n *network.Network) string { return filepath.Join(n.State(network.QM), "coordination") }, "identity"},
	{"the queue manager", network.QM, func(n *network.Network) string { return n.Store() }, ""},
}

// rollbackCase removes or replaces one state, as the seed decides.
func rollbackCase(t *testing.T, seed uint64, r *rand.Rand) {
	s, remove := rolled[int(seed/2)%len(rolled)], seed%2 == 0
	t.Logf("%s is lost, removed: %v", s.name, remove)
	n := network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{"ALPHA", "BETA"}, Direct: "off"})
	n.Files("ALPHA", "before", seed, 1+r.IntN(20), 5000)
	n.Send("-r", "ALPHA:before", "BETA:out/").Ends("successful", 0)
	older := n.Frozen(s.proc, s.dir(n))

	n.Files("ALPHA", "small", seed+1, 1+r.IntN(40), 3000)
	n.Send("-r", "ALPHA:small", "BETA:out/").Ends("successful", 0)
	n.Files("ALPHA", "under", seed+2, 1+r.IntN(5), 2000)
	n.File("ALPHA", "under/zz", seed+3, 12<<20)
	running := n.SendAsync("-r", "--limit", "6M", "ALPHA:under", "BETA:out/")
	n.Growing("BETA", int64(1+r.IntN(6))<<20)
	n.Kill(s.proc)
	all, err := os.ReadDir(s.dir(n))
	must(t, err)
	for _, e := range all {
		if e.Name() != s.keep {
			must(t, os.RemoveAll(filepath.Join(s.dir(n), e.Name())))
		}
	}
	if !remove {
		must(t, os.RemoveAll(s.dir(n)))
		must(t, os.MkdirAll(s.dir(n), 0o700))
		n.Copy(older+"/.", s.dir(n))
	}
	n.Start(s.proc)

	end := running.WaitFor(3 * time.Minute).Summary
	lost := end.State == "failed" || end.State == "partial"
	if end.State != "successful" && !(lost && end.ResultCode == 40 && s.proc != network.QM) {
		t.Errorf("the transfer that was under way ended %q with %d", end.State, end.ResultCode)
	}
	if end.State == "successful" {
		n.Same("ALPHA", "under", "BETA", "out/under")
	}
	n.Same("ALPHA", "small", "BETA", "out/small")
	if s.proc != "BETA" { // its temporaries belong to the removed ledger
		n.UntilEvery("the temporaries go", 100*time.Millisecond, func() bool { return len(n.Temporaries("BETA")) == 0 })
	}
	if s.name == "the source" || s.name == "the destination" {
		p := n.WaitState(running.ID(), "successful", "failed", "partial")
		if lost && (p.Reason == nil || p.Reason.Kind != transfer.KindLost) {
			t.Errorf("the transfer has the reason %v", p.Reason)
		}
		for _, p := range n.Transfers() {
			if !slices.Contains([]string{"successful", "failed", "partial"}, p.State) {
				t.Errorf("transfer %s is %s", p.ID, p.State)
			}
		}
		n.Sound()
		if !remove {
			n.UntilEvery("the agent is DEGRADED on an older copy of its ledger", 100*time.Millisecond, func() bool { return n.AgentOf(s.proc).State == "DEGRADED" })
		}
	}
	n.Send("--if-exists", "overwrite", "-r", "ALPHA:under", "BETA:again/").Ends("successful", 0)
	n.Same("ALPHA", "under", "BETA", "again/under")
}
