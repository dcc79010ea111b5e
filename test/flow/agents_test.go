//go:build linux

package flow_test

import (
	"strings"
	"testing"
	"time"

	"ferry/test/flow/network"
)

// TestSecondAgentOfOneNameIsRefused starts a second agent of one name, with a ledger of its own or with that of the
// first one. It must not run.
func TestSecondAgentOfOneNameIsRefused(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, mib)
	for _, dir := range []string{n.State("ALPHA"), n.State("ELSEWHERE")} {
		r := n.Ferry("agent", "run", "alpha", "--network", n.URL(), "--dir", dir, "--root", n.Root("ALPHA"))
		if r.Code != 70 || !strings.Contains(r.Stderr, "ALPHA is already running") {
			t.Errorf("a second ALPHA ends with %d: %s", r.Code, r.Stderr)
		}
	}
	n.Send("ALPHA:a", "BETA:out/").Ends("successful", 0)
	n.Same("ALPHA", "a", "BETA", "out/a")
}

// TestRootIsRefused starts an agent without a root, and with roots under which a transfer could write its ledger. It
// must not start.
func TestRootIsRefused(t *testing.T) {
	t.Parallel()
	n := up(t)
	for what, args := range map[string][]string{
		"none":                       nil,
		"the state directory":        {"--root", n.State("ALPHA")},
		"inside the state directory": {"--root", n.State("ALPHA") + "/files"},
		"missing":                    {"--root", n.State("ALPHA") + "-not-there"},
	} {
		r := n.Ferry(append([]string{"agent", "run", "ALPHA", "--network", n.URL(), "--dir", n.State("ALPHA")}, args...)...)
		if r.Code == 0 || !strings.Contains(r.Stderr, "root") {
			t.Errorf("an agent with root %s ends with %d: %s", what, r.Code, r.Stderr)
		}
	}
}

// TestRegistryShowsHowAgentsAre checks the status of every agent in the registry, and the time since its last
// heartbeat.
func TestRegistryShowsHowAgentsAre(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA", "GAMMA")
	is := func(agent, state string) {
		t.Helper()
		n.UntilEvery(agent+" is "+state, 100*time.Millisecond, func() bool { return n.AgentOf(agent).State == state })
	}
	is("ALPHA", "READY")
	if a := n.AgentOf("ALPHA"); a.Mode != "client" || a.Age <= 0 || a.Age > int64(15*time.Second) {
		t.Errorf("ALPHA is shown as %+v", a)
	}

	n.File("ALPHA", "big", 1, 16*mib)
	s := n.SendAsync("--limit", "16K", "ALPHA:big", "BETA:out/") // for longer than any wait
	is("ALPHA", "ACTIVE")
	n.Ferry("transfer", "cancel", s.ID()).OK()
	s.Wait().Ends("cancelled", 41)
	is("ALPHA", "READY")
	is("BETA", "READY")

	n.Stop("GAMMA")
	is("GAMMA", "STOPPED")
	n.Kill("BETA")
	is("BETA", "UNREACHABLE")
	if a := n.AgentOf("BETA"); a.Age < int64(15*time.Second) {
		t.Errorf("BETA is unreachable after %s", time.Duration(a.Age))
	}
	n.Start("BETA", "GAMMA")
	for _, a := range []string{"BETA", "GAMMA"} {
		if got := n.AgentOf(a).State; got != "READY" {
			t.Errorf("%s has said that it is ready and is shown as %s", a, got)
		}
	}

	if r := n.Send("ALPHA:big", "NOBODY:out/"); r.Code != 49 || !strings.Contains(r.Stderr, "NOBODY") {
		t.Errorf("a transfer to an agent that nobody knows ends with %d: %s", r.Code, r.Stderr)
	}
	if r := n.Ferry("agent", "ping", "BETA"); r.Code != 0 {
		t.Errorf("ping ends with %d: %s", r.Code, r.Stderr)
	}

	// Running agents rebuild the registry.
	n.Kill(network.QM)
	n.Start(network.QM)
	n.UntilEvery("coordination, which may be a process of its own, is connected again", 100*time.Millisecond, func() bool { return n.Ferry("agent", "ls").Code == 0 })
	for _, a := range []string{"ALPHA", "BETA", "GAMMA"} {
		is(a, "READY")
	}
}
