//go:build linux

package flow_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/transfer"
	"ferry/test/flow/network"
)

// forget removes the ledger of an agent that does not run, and leaves its identity.
func forget(n *network.Network, agent string) error {
	all, err := os.ReadDir(n.State(agent))
	for _, e := range all {
		if e.Name() != "identity" && err == nil {
			err = os.RemoveAll(filepath.Join(n.State(agent), e.Name()))
		}
	}
	return err
}

// onRecord waits until the audit log has the request of a transfer. The source hands it over after it has accepted the
// transfer. If the ledger is removed earlier, the only copy of the request is lost, and `retry` needs that copy.
func onRecord(n *network.Network, id string) {
	n.Until("the audit log has the request of "+id, func() bool {
		r := n.Ferry("audit", "show", "--json", id)
		return r.Code == 0 && strings.Contains(r.Stdout, `"event":"submitted"`)
	})
}

// over expects a transfer to have ended because a ledger was lost, and each command to report that.
func over(t *testing.T, n *network.Network, id, state string) {
	t.Helper()
	if r := n.Ferry("transfer", "watch", id); r.Code != 40 || !strings.Contains(r.Stderr, "has lost the ledger") {
		t.Errorf("`ferry transfer watch` ends with %d: %s", r.Code, r.Stderr)
	}
	if p := n.WaitState(id, state); p.Code != 40 || p.Reason == nil || p.Reason.Kind != transfer.KindLost {
		t.Errorf("the transfer is %s with %d: %v", p.State, p.Code, p.Reason)
	}
	if r := n.Ferry("transfer", "cancel", id); r.Code != 27 || !strings.Contains(r.Stderr, "is already over: "+state) {
		t.Errorf("`ferry transfer cancel` ends with %d: %s", r.Code, r.Stderr)
	}
	n.Ferry("transfer", "retry", "--if-exists", "skip", id).OK()
	n.Sound()
}

// TestTheLedgerOfASourceIsRemoved removes the ledger of a source. Its transfers end at both sides and in the log, and
// can be repeated.
func TestTheLedgerOfASourceIsRemoved(t *testing.T) {
	t.Parallel()
	t.Run("files have arrived", func(t *testing.T) {
		t.Parallel()
		n := up(t, "ALPHA", "BETA")
		n.File("ALPHA", "d/a", 1, 1000)
		n.File("ALPHA", "d/big", 2, 24*mib)
		s := n.SendAsync("-r", "--limit", "4M", "ALPHA:d", "BETA:out/")
		n.Growing("BETA", 6*mib)
		n.Kill("ALPHA")
		must(t, forget(n, "ALPHA"))
		n.Start("ALPHA")
		s.Wait().Ends("partial", 40)
		over(t, n, s.ID(), "partial")
		n.NoTemporaries("BETA")
		n.Same("ALPHA", "d/a", "BETA", "out/d/a")
	})
	t.Run("the destination knows nothing of it", func(t *testing.T) {
		t.Parallel()
		n := up(t, "ALPHA", "BETA")
		n.File("ALPHA", "a", 1, 1000)
		n.Stop("BETA")
		id := n.Detach("ALPHA:a", "BETA:out/")
		n.WaitState(id, "waiting")
		onRecord(n, id)
		n.Kill("ALPHA")
		must(t, forget(n, "ALPHA"))
		n.Start("ALPHA", "BETA")
		n.WaitState(id, "failed")
		over(t, n, id, "failed")
	})
}

// TestTheLedgerOfASourceIsPutBack restores an older copy of a source's ledger. A later transfer ends, and the agent is
// DEGRADED.
func TestTheLedgerOfASourceIsPutBack(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, 1000)
	n.Send("ALPHA:a", "BETA:out/first").Ends("successful", 0)
	n.Stop("ALPHA")
	older := t.TempDir()
	n.Copy(n.State("ALPHA")+"/.", older)
	n.Start("ALPHA")
	n.Stop("BETA")
	id := n.Detach("ALPHA:a", "BETA:out/second")
	n.WaitState(id, "waiting")
	onRecord(n, id)
	n.Kill("ALPHA")
	must(t, os.RemoveAll(n.State("ALPHA")))
	must(t, os.MkdirAll(n.State("ALPHA"), 0o700))
	n.Copy(older+"/.", n.State("ALPHA"))
	n.Start("ALPHA", "BETA")
	n.WaitState(id, "failed")
	over(t, n, id, "failed")
	if a := n.AgentOf("ALPHA"); a.State != "DEGRADED" || !strings.Contains(a.Reason, "the ledger is an older copy") {
		t.Errorf("ALPHA is %s: %s", a.State, a.Reason)
	}
	if n.Logged("ALPHA", "the ledger is an older copy") == 0 {
		t.Error("the log does not say that the ledger is an older copy")
	}
}
