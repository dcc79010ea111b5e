//go:build linux

package flow_test

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestCancel cancels a transfer in each state. It ends with 41, and its partial files are removed.
func TestCancel(t *testing.T) {
	t.Parallel()
	t.Run("running", func(t *testing.T) {
		n := up(t, "ALPHA", "BETA")
		n.File("ALPHA", "big", 1, 96*mib)
		s := n.SendAsync(paced, "ALPHA:big", "BETA:out/")
		n.Growing("BETA", 20*mib)

		n.Ferry("transfer", "cancel", s.ID()).OK()

		s.Wait().Ends("cancelled", 41)
		n.NoTemporaries("BETA")
		if n.Exists("BETA", "out/big") {
			t.Error("the file of a cancelled transfer has arrived")
		}
		if p := n.Status(s.ID()); p.State != "cancelled" || p.Code != 41 {
			t.Errorf("the transfer is %s with %d", p.State, p.Code)
		}
		if r := n.Ferry("transfer", "cancel", s.ID()); r.Code != 0 {
			t.Errorf("a second cancel ends with %d: %s", r.Code, r.Stderr)
		}
		n.Audit(s.ID())
		n.Sound()
	})
	t.Run("waiting for its destination", func(t *testing.T) {
		n := up(t, "ALPHA", "BETA")
		n.File("ALPHA", "a", 1, mib)
		n.File("ALPHA", "b", 2, mib)
		n.Stop("BETA")
		s := n.SendAsync("ALPHA:a", "BETA:out/")
		n.WaitState(s.ID(), "waiting")

		n.Ferry("transfer", "cancel", s.ID()).OK()

		s.Wait().Ends("cancelled", 41)
		n.Start("BETA")
		n.Send("ALPHA:b", "BETA:out/").Ends("successful", 0)
		if n.Exists("BETA", "out/a") {
			t.Error("the file of a cancelled transfer has arrived")
		}
	})
	t.Run("interrupted half-way by its destination's end", func(t *testing.T) {
		n := up(t, "ALPHA", "BETA")
		n.File("ALPHA", "big", 3, 96*mib)
		s := n.SendAsync(paced, "ALPHA:big", "BETA:out/")
		n.Growing("BETA", 20*mib)
		n.Kill("BETA")
		n.Ferry("transfer", "cancel", s.ID()).OK()
		n.Start("BETA")

		s.Wait().Ends("cancelled", 41)
		n.NoTemporaries("BETA")
	})
	t.Run("queued", func(t *testing.T) {
		n := up(t, "ALPHA", "BETA")
		n.File("ALPHA", "a", 1, mib)
		n.Stop("ALPHA", "BETA") // BETA too, so that the transfer cannot be faster than the cancel
		s := n.SendAsync("ALPHA:a", "BETA:out/")
		n.UntilEvery("the transfer is queued", 50*time.Millisecond, func() bool { return len(n.Transfers()) == 1 })
		id := n.Transfers()[0].ID

		if r := n.Ferry("transfer", "cancel", "--timeout", "10s", id); r.Code != 2 || !strings.Contains(r.Stderr, "ALPHA") {
			t.Errorf("a cancel at an agent that is away ends with %d: %s", r.Code, r.Stderr)
		}
		n.Start("ALPHA")

		s.Wait().Ends("cancelled", 41)
	})
}

// TestDeleteSource deletes a source only after its arrival is recorded. A source that was replaced meanwhile is another
// file, and stays.
func TestDeleteSource(t *testing.T) {
	t.Parallel()
	t.Run("after its arrival", func(t *testing.T) {
		n := up(t, "ALPHA", "BETA")
		n.Files("ALPHA", "in", 1, 30, 5000)
		n.Files("ALPHA", "copy", 1, 30, 5000)
		n.Send("-r", "--delete-source", "ALPHA:in/*", "BETA:out/").Ends("successful", 0)
		n.Same("ALPHA", "copy", "BETA", "out")
		if left := n.Landed("ALPHA", "in"); len(left) > 0 {
			t.Errorf("%d sources are still there", len(left))
		}
		n.NoTemporaries("ALPHA", "BETA")
	})
	t.Run("not before", func(t *testing.T) {
		n := up(t, "ALPHA", "BETA")
		n.File("ALPHA", "in/big", 2, 96*mib)
		n.File("ALPHA", "copy/big", 2, 96*mib)
		s := n.SendAsync(paced, "--delete-source", "ALPHA:in/big", "BETA:out/")
		n.Growing("BETA", 30*mib)
		n.Kill("BETA", "ALPHA")
		n.Same("ALPHA", "copy/big", "ALPHA", "in/big")
		n.Start("BETA", "ALPHA")
		s.Wait().Ends("successful", 0)
		n.Same("ALPHA", "copy/big", "BETA", "out/big")
		if n.Exists("ALPHA", "in/big") {
			t.Error("the source is still there")
		}
	})
	t.Run("replaced", func(t *testing.T) {
		n := up(t, "ALPHA", "BETA")
		n.File("ALPHA", "in/a", 3, 1000)
		n.File("ALPHA", "in/b", 4, 72*mib)
		n.File("ALPHA", "copy", 3, 1000)
		s := n.SendAsync(paced, "--delete-source", "ALPHA:in/a", "ALPHA:in/b", "BETA:out/")
		n.Arrived("BETA", "out", 1)
		must(t, os.WriteFile(n.Path("ALPHA", "new"), []byte("the next one"), 0o644))
		must(t, os.Rename(n.Path("ALPHA", "new"), n.Path("ALPHA", "in/a")))
		s.Wait().Ends("successful", 0)

		n.Same("ALPHA", "copy", "BETA", "out/a")
		if text, err := os.ReadFile(n.Path("ALPHA", "in/a")); string(text) != "the next one" {
			t.Errorf("the file that took the source's name is gone or changed: %q, %v", text, err)
		}
		if n.Exists("ALPHA", "in/b") {
			t.Error("the source that nobody touched is still there")
		}
		n.NoTemporaries("ALPHA", "BETA")
	})
}

// TestDestinationExists sends to existing files. They are kept, or replaced if the request asks for it.
func TestDestinationExists(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "in/a", 1, 9000)
	n.File("ALPHA", "in/b", 2, 9000)
	n.File("BETA", "out/a", 3, 500)
	n.File("BETA", "copy", 3, 500)

	n.Send("ALPHA:in/a", "BETA:out/").Ends("failed", 40)
	n.Same("BETA", "copy", "BETA", "out/a")

	r := n.Send("ALPHA:in/a", "ALPHA:in/b", "BETA:out/").Ends("partial", 20)
	if r.Summary.Files != 1 || r.Summary.FilesFailed != 1 || !strings.Contains(r.Stderr, "a") {
		t.Errorf("the summary says %+v, and: %s", r.Summary, r.Stderr)
	}
	n.Same("BETA", "copy", "BETA", "out/a")
	n.Same("ALPHA", "in/b", "BETA", "out/b")

	n.Send("--if-exists", "overwrite", "ALPHA:in/a", "BETA:out/").Ends("successful", 0)
	n.Same("ALPHA", "in/a", "BETA", "out/a")
	n.NoTemporaries("BETA")
}

// TestDurabilityProcess kills a process under durability process. That costs no more than with full, and the audit has
// the durability.
func TestDurabilityProcess(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "big", 1, 112*mib)

	s := n.SendAsync(paced, "--durability", "process", "ALPHA:big", "BETA:out/")
	n.Growing("BETA", 50*mib)
	n.Kill("BETA")
	n.Start("BETA")
	sum := s.Wait().Ends("successful", 0).Summary

	n.Same("ALPHA", "big", "BETA", "out/big")
	once(t, n, sum.ID, 1)
	if sum.BytesResent > maxResent {
		t.Errorf("%d bytes were sent again; %d may be", sum.BytesResent, maxResent)
	}
	if r := n.Ferry("audit", "show", "--json", sum.ID); !strings.Contains(r.Stdout, `"durability":"process"`) {
		t.Error("the audit does not say that the durability was reduced")
	}
}
