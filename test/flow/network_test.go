//go:build linux

package flow_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/test/flow/network"
)

// TestAgentInTheQueueManagersProcess runs an agent in the queue manager's process. It works like one in a process of
// its own, and ends and restarts with the queue manager.
func TestAgentInTheQueueManagersProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := filepath.Join(dir, "inside")
	must(t, os.Mkdir(root, 0o755))
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA"}, Dir: dir, Roots: map[string]string{"INSIDE": root},
		Flags: map[string][]string{network.QM: {"--agent", "INSIDE=" + root}}})
	n.Ferry("ready").OK()
	if a := n.AgentOf("INSIDE"); a.Mode != "bindings" {
		t.Errorf("the agent inside is in %s mode", a.Mode)
	}
	n.File("ALPHA", "big", 1, 96*mib)

	s := n.SendAsync(paced, "ALPHA:big", "INSIDE:out/")
	n.Growing("INSIDE", 30*mib)
	n.Kill(network.QM)
	n.Start(network.QM)
	sum := s.Wait().Ends("successful", 0).Summary
	n.Same("ALPHA", "big", "INSIDE", "out/big")
	if sum.BytesResent > maxResent {
		t.Errorf("%d bytes were sent again; %d may be", sum.BytesResent, maxResent)
	}
	once(t, n, sum.ID, 1, "ALPHA", "INSIDE")
	t.Logf("resumes %d, sent again %d KiB, %.1f s", sum.Resumes, sum.BytesResent>>10, sum.Seconds)

	n.Send("INSIDE:out/big", "ALPHA:back/").Ends("successful", 0)
	n.Same("ALPHA", "big", "ALPHA", "back/big")
	n.Send("INSIDE:out/big", "INSIDE:twin").Ends("successful", 0)
	n.Same("ALPHA", "big", "INSIDE", "twin")
	n.Sound()
}

// TestCoordinationIsAway runs transfers without coordination. Their audit records wait at the agents. When too many
// records wait, the transfers wait until coordination starts.
func TestCoordinationIsAway(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"},
		Flags: map[string][]string{network.QM: {"--coordination", "none"}, "BETA": {"--outbox-limit", "5"}}})
	n.AddOther("COORDINATION", "coordination ready", "coordination", "run", "--network", n.URL(), "--dir", n.State("COORDINATION"))
	n.File("ALPHA", "a", 1, 3000)
	first := n.Send("ALPHA:a", "BETA:1/").Ends("successful", 0).Summary.ID
	n.Send("ALPHA:a", "BETA:2/").Ends("successful", 0)

	s := n.SendAsync("ALPHA:a", "BETA:3/")
	full := func(p network.Progress) bool {
		return p.State == "waiting" && strings.Contains(p.Reason.String(), "outbox is full")
	}
	n.Until("the transfer waits for coordination", func() bool { _, ok := s.Saw(full); return ok })
	n.Start("COORDINATION")

	third := s.Wait().Ends("successful", 0).Summary.ID
	n.Same("ALPHA", "a", "BETA", "3/a")
	once(t, n, first, 1)
	once(t, n, third, 1)
}

// TestOutcomeOutlivesEverything removes the queue manager's store and restarts all processes after SIGKILL. The end of
// an earlier transfer is still known.
func TestOutcomeOutlivesEverything(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, 3000)
	id := n.Send("ALPHA:a", "BETA:out/").Ends("successful", 0).Summary.ID
	n.Audit(id)

	n.Kill(network.QM, "ALPHA", "BETA")
	n.DeleteQueueManagerStore()
	n.Start(network.QM, "ALPHA", "BETA")

	if p := n.Status(id); p.State != "successful" || p.Files != 1 || p.Bytes != 3000 {
		t.Errorf("the transfer is shown as %+v", p)
	}
	once(t, n, id, 1)
	landed := n.Landed("BETA", "out")
	n.Send("ALPHA:a", "BETA:later/").Ends("successful", 0)
	n.Untouched("BETA", "out", landed)
}

// TestDestinationLosesItsLedger removes the destination's ledger during a transfer, so that it does not know its
// earlier answers. The transfer ends and reports that, no data are sent again under its ID, and the next transfer runs.
func TestDestinationLosesItsLedger(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "big", 1, 96*mib)

	s := n.SendAsync(paced, "ALPHA:big", "BETA:out/")
	n.Growing("BETA", 30*mib)
	n.Kill("BETA")
	must(t, os.RemoveAll(n.State("BETA")))
	n.Start("BETA")

	r := s.Wait().Ends("failed", 40)
	if !strings.Contains(r.Stderr, "BETA") || !strings.Contains(r.Stderr, "ledger") && !strings.Contains(r.Stderr, "record") {
		t.Errorf("it does not say what is lost: %s", r.Stderr)
	}
	if n.Exists("BETA", "out/big") {
		t.Error("the file is at the destination although nobody knows how")
	}
	n.Send("ALPHA:big", "BETA:out/").Ends("successful", 0)
	n.Same("ALPHA", "big", "BETA", "out/big")
}

// TestSourceThatKeepsChanging sends a file that changes continuously. No mixture of versions is sent: after three
// starts the file fails with the reason, and the others arrive.
func TestSourceThatKeepsChanging(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	log := n.File("ALPHA", "in/log", 1, 64*mib)
	n.File("ALPHA", "in/still", 2, 5000)
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f.WriteString("one more line\n")
			case <-stop:
				return
			}
		}
	}()

	r := n.Send("ALPHA:in/log", "ALPHA:in/still", "BETA:out/").Ends("partial", 20)
	close(stop)
	<-stopped

	if !strings.Contains(r.Stderr, "in/log") || !strings.Contains(r.Stderr, "chang") {
		t.Errorf("it does not say which file, or why: %s", r.Stderr)
	}
	n.Same("ALPHA", "in/still", "BETA", "out/still")
	if n.Exists("BETA", "out/log") {
		t.Error("a file that was changing has arrived")
	}
	n.NoTemporaries("BETA")
}

// TestInterruptedSubmitter interrupts a command with Ctrl-C, which leaves the transfer running. A second Ctrl-C cancels
// it.
func TestInterruptedSubmitter(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, 5000)
	n.Stop("BETA") // so that the transfers are not over before the signals come
	once := n.SendAsync("ALPHA:a", "BETA:once/")
	twice := n.SendAsync("ALPHA:a", "BETA:twice/")
	n.WaitState(once.ID(), "waiting")
	n.WaitState(twice.ID(), "waiting")

	twice.Interrupt()
	n.Until("the first signal is heeded", func() bool { return strings.Contains(twice.Errors(), "again") })
	twice.Interrupt()
	twice.Wait().Ends("cancelled", 41)
	once.Interrupt()
	if r := once.Wait(); r.Code != 130 || !strings.Contains(r.Stderr, once.ID()) {
		t.Errorf("after one signal it ends with %d: %s", r.Code, r.Stderr)
	}

	n.Start("BETA")
	n.WaitState(once.ID(), "successful")
	n.Same("ALPHA", "a", "BETA", "once/a")
	if n.Exists("BETA", "twice/a") {
		t.Error("the file of a cancelled transfer has arrived")
	}
}
