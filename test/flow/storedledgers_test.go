//go:build linux

package flow_test

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestStoredAnotherEpochForAnotherLedger kills the source while it stores data, so that it begins another epoch while
// the destination is away. The ledger that has taken part of the first epoch is then lost or replaced by an older copy:
// no file arrives twice. If the ledger was present all the time, all files arrive.
func TestStoredAnotherEpochForAnotherLedger(t *testing.T) {
	t.Parallel()
	for _, ledger := range []string{"lost", "older", "the same"} {
		t.Run(ledger, func(t *testing.T) {
			t.Parallel()
			n := up(t, "ALPHA", "BETA")
			n.Files("ALPHA", "in", 3, 60, 100_000)
			n.Stop("BETA")
			before := n.State("BETA") + ".before"
			n.Copy(n.State("BETA"), before)
			s := n.SendAsync(stored, "--limit", "2M", "-r", "ALPHA:in", "BETA:out/")
			n.UntilEvery("some is stored", 50*time.Millisecond, func() bool { return n.Status(s.ID()).BytesSent > 2*mib })
			n.Kill("ALPHA")
			if ledger != "the same" {
				n.Start("BETA")
				n.UntilEvery("some has arrived", 50*time.Millisecond, func() bool { return n.Exists("BETA", "out/in") && n.Count("BETA", "out/in") > 5 })
				n.Kill("BETA")
				if err := os.RemoveAll(n.Path("BETA", "out")); err != nil { // another program has taken it
					t.Fatal(err)
				}
				loseLedger(t, n, "BETA")
			}
			if ledger == "older" {
				n.Copy(before+"/.", n.State("BETA"))
			}
			n.Start("ALPHA")
			n.UntilEvery("another epoch begins", 50*time.Millisecond, func() bool { return n.Status(s.ID()).Resumes > 0 })
			n.Start("BETA")
			if ledger == "the same" {
				s.Wait().Ends("successful", 0)
				once(t, n, s.ID(), 61)
				return
			}
			r := s.Wait()
			if p := n.Status(s.ID()); p.State != "failed" || r.Code != 40 || p.Reason == nil || !strings.Contains(p.Reason.Text, "no record") {
				t.Errorf("it ends with %d, %s: %v", r.Code, p.State, p.Reason)
			}
			if n.Exists("BETA", "out/in") {
				t.Error("files have arrived twice")
			}
			empty(t, n)
		})
	}
}

// TestStoredLedgerPutAside replaces a ledger by another one, which takes the file stored for the first one, and then
// restores the first one. The file does not arrive twice.
func TestStoredLedgerPutAside(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 3, mib)
	n.Stop("BETA")
	aside := n.State("BETA") + ".aside"
	n.Copy(n.State("BETA"), aside)
	s := n.SendAsync(stored, "ALPHA:a", "BETA:out/")
	isSent(t, n, s.ID())
	n.Kill("ALPHA")
	loseLedger(t, n, "BETA")
	n.Start("BETA")
	empty(t, n)
	n.Stop("BETA")
	loseLedger(t, n, "BETA")
	n.Copy(aside+"/.", n.State("BETA"))
	if err := os.Remove(n.Path("BETA", "out/a")); err != nil { // another program has taken it
		t.Fatal(err)
	}
	n.Start("BETA")
	n.Start("ALPHA")
	r := s.Wait()
	if p := n.Status(s.ID()); p.State != "failed" || r.Code != 40 || p.Reason == nil || !strings.Contains(p.Reason.Text, "no record") {
		t.Errorf("it ends with %d, %s: %v", r.Code, p.State, p.Reason)
	}
	if n.Exists("BETA", "out/a") {
		t.Error("the file has arrived twice")
	}
}
