//go:build linux

package flow_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ferry/test/flow/network"
)

const stored = "--delivery=stored"

// empty waits until no queue manager stores any data.
func empty(t *testing.T, n *network.Network, agents ...string) {
	t.Helper()
	for _, agent := range append(agents, "ALPHA", "BETA") {
		w := n.WireOf(agent)
		n.UntilEvery("the store is empty", 50*time.Millisecond, func() bool {
			left, _ := w.Stored("FERRY_STORE")
			return left == 0
		})
		w.Close()
	}
}

// isSent waits until all data of a transfer are stored and it waits for its destination without a slot.
func isSent(t *testing.T, n *network.Network, id string) {
	t.Helper()
	n.UntilEvery("the transfer is sent", 50*time.Millisecond, func() bool {
		p := n.Status(id)
		return p.State == "waiting" && p.Reason != nil && strings.HasPrefix(p.Reason.Text, "sent:")
	})
}

// TestStoredWhileTheDestinationIsAway completes the sending of a source while the destination is away. The slot of the
// source is then free for another transfer. When the destination starts it takes all data, and the store is empty.
func TestStoredWhileTheDestinationIsAway(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA", "GAMMA"}, Flags: map[string][]string{"ALPHA": {"--max-source-transfers", "1"}}})
	n.File("ALPHA", "in/big", 1, 60*mib)
	n.Files("ALPHA", "in/many", 2, 2500, 700)
	n.File("ALPHA", "other", 3, mib)
	n.Stop("BETA")

	s := n.SendAsync(stored, "-r", "ALPHA:in", "BETA:out/")
	isSent(t, n, s.ID())
	n.Send("ALPHA:other", "GAMMA:other").Ends("successful", 0) // over the only slot
	n.Start("BETA")

	sum := s.Wait().Ends("successful", 0).Summary
	n.Same("ALPHA", "in", "BETA", "out/in")
	once(t, n, sum.ID, 2503)
	if sum.Resumes != 0 || sum.BytesResent != 0 {
		t.Errorf("nothing went wrong, and the summary says %+v", sum)
	}
	empty(t, n)
	n.NoTemporaries("BETA")
}

// TestStoredTheyNeverMeet runs source and destination only at different times, except for the outcomes.
func TestStoredTheyNeverMeet(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.Files("ALPHA", "in", 3, 300, 20_000)
	n.Stop("BETA")
	s := n.SendAsync(stored, "--delete-source", "-r", "ALPHA:in", "BETA:out/")
	isSent(t, n, s.ID())
	n.Kill("ALPHA")
	n.Start("BETA")
	n.Arrived("BETA", "out/in", 300)
	empty(t, n)
	n.Start("ALPHA")
	s.Wait().Ends("successful", 0)
	once(t, n, s.ID(), 301)
	if left := n.Count("ALPHA", "in"); left != 0 {
		t.Errorf("%d sources are left", left)
	}
}

// withStore returns the victims, and with the queue manager also the one that stores data for BETA.
func withStore(n *network.Network, who []string) []string {
	if at := n.ManagerOf("BETA"); slices.Contains(who, network.QM) && at != network.QM {
		return append(slices.Clone(who), at)
	}
	return who
}

// TestStoredKilled kills each process while the destination takes stored data. Each file arrives once.
func TestStoredKilled(t *testing.T) {
	t.Parallel()
	for _, who := range victims {
		t.Run(strings.Join(who, "+"), func(t *testing.T) {
			n := up(t, "ALPHA", "BETA")
			n.File("ALPHA", "in/big", 4, 112*mib)
			n.Files("ALPHA", "in/many", 5, 500, 3000)
			n.Stop("BETA")
			s := n.SendAsync(stored, "-r", "ALPHA:in", "BETA:out/")
			isSent(t, n, s.ID())
			line := n.LineOf("BETA")
			line.HoldAfter(64 * mib)
			n.Start("BETA")
			n.Growing("BETA", 40*mib)
			n.Kill(withStore(n, who)...)
			line.Heal()
			n.Start(withStore(n, who)...)
			sum := s.Wait().Ends("successful", 0).Summary
			n.Same("ALPHA", "in", "BETA", "out/in")
			once(t, n, sum.ID, 503)
			if sum.BytesResent > maxResent {
				t.Errorf("%d bytes were sent again by the source", sum.BytesResent)
			}
			t.Logf("resumes %d, sent again %d KiB, %.1f s", sum.Resumes, sum.BytesResent>>10, sum.Seconds)
			empty(t, n)
		})
	}
}

// TestStoredKilledWhileSending kills each process while the source sends. Each file arrives once.
func TestStoredKilledWhileSending(t *testing.T) {
	t.Parallel()
	for _, who := range victims {
		t.Run(strings.Join(who, "+"), func(t *testing.T) {
			n := up(t, "ALPHA", "BETA")
			n.File("ALPHA", "big", 6, 128*mib)
			s := n.SendAsync(stored, "--limit", "40M", "ALPHA:big", "BETA:out/")
			n.Growing("BETA", 40*mib)
			n.Kill(withStore(n, who)...)
			n.Start(withStore(n, who)...)
			sum := s.Wait().Ends("successful", 0).Summary
			n.Same("ALPHA", "big", "BETA", "out/big")
			once(t, n, sum.ID, 1)
			// A loss at the queue manager leaves a gap. The source sends all data again that it had stored before the
			// gap was found.
			if sum.BytesResent > maxResent && !slices.Contains(who, network.QM) {
				t.Errorf("%d bytes were sent again by the source", sum.BytesResent)
			}
			t.Logf("resumes %d, sent again %d KiB, %.1f s", sum.Resumes, sum.BytesResent>>10, sum.Seconds)
			empty(t, n)
		})
	}
}

// TestStoredLost loses all, the last or some middle messages in the store. The loss is found, and the source sends the
// data again.
func TestStoredLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		lose func(n *network.Network, w *network.Wire)
	}{
		{"all", func(n *network.Network, w *network.Wire) { w.Drop("FERRY_STORE", "ferry.store.>") }},
		{"end", func(n *network.Network, w *network.Wire) { w.Lose("FERRY_STORE", 60, 1000) }},
		{"middle", func(n *network.Network, w *network.Wire) { w.Lose("FERRY_STORE", 30, 35) }},
		{"stream", func(n *network.Network, w *network.Wire) {
			n.Stop(n.ManagersOf("BETA")...)
			n.DeleteStores(n.ManagersOf("BETA")...)
			n.Start(n.ManagersOf("BETA")...)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := up(t, "ALPHA", "BETA")
			n.File("ALPHA", "in/big", 7, 20*mib)
			n.Files("ALPHA", "in/many", 8, 100, 3000)
			n.Stop("BETA")
			s := n.SendAsync(stored, "-r", "ALPHA:in", "BETA:out/")
			isSent(t, n, s.ID())
			c.lose(n, n.WireOf("BETA"))
			n.Start("BETA")
			sum := s.Wait().Ends("successful", 0).Summary
			n.Same("ALPHA", "in", "BETA", "out/in")
			once(t, n, sum.ID, 103)
			if sum.Resumes == 0 {
				t.Error("nothing was sent again")
			}
			empty(t, n)
		})
	}
}

// TestStoredFull fills the store. The wait of the transfer is visible, and the transfer continues when there is room.
// It is larger than the store, so that the destination must take some data before the source can continue.
func TestStoredFull(t *testing.T) {
	t.Parallel()
	small := []string{"--max-stored", "64M"} // at the queue manager that stores data for BETA, in any shape
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA", "GAMMA"},
		Flags: map[string][]string{network.QM + "-BETA": small, network.MemberName(0): small, network.MemberName(1): small, network.MemberName(2): small, "ALPHA": {"--max-source-transfers", "1"}}})
	n.File("ALPHA", "big", 9, 120*mib)
	n.File("ALPHA", "other", 3, mib)
	n.Stop("BETA")
	s := n.SendAsync(stored, "ALPHA:big", "BETA:out/")
	n.UntilEvery("the store is full", 50*time.Millisecond, func() bool {
		p := n.Status(s.ID())
		return p.State == "waiting" && p.Reason != nil && strings.Contains(p.Reason.Text, "a quarter of its store")
	})
	n.Send("ALPHA:other", "GAMMA:other").Ends("successful", 0)
	n.Start("BETA")
	sum := s.Wait().Ends("successful", 0).Summary
	n.Same("ALPHA", "big", "BETA", "out/big")
	if sum.Resumes != 0 || sum.BytesResent != 0 {
		t.Errorf("the summary says %+v", sum)
	}
	empty(t, n)
}

// TestStoredCancel cancels a transfer in each state. The store is empty after that.
func TestStoredCancel(t *testing.T) {
	t.Parallel()
	t.Run("sent", func(t *testing.T) {
		n := up(t, "ALPHA", "BETA")
		n.File("ALPHA", "a", 1, 5*mib)
		n.Stop("BETA")
		s := n.SendAsync(stored, "ALPHA:a", "BETA:out/")
		isSent(t, n, s.ID())
		n.Ferry("transfer", "cancel", s.ID()).OK()
		s.Wait().Ends("cancelled", 41)
		empty(t, n)
		n.Start("BETA")
		n.File("ALPHA", "b", 1, mib)
		n.Send(stored, "ALPHA:b", "BETA:out/").Ends("successful", 0)
		if n.Exists("BETA", "out/a") {
			t.Error("the file of a cancelled transfer has arrived")
		}
	})
	t.Run("being taken", func(t *testing.T) {
		n := up(t, "ALPHA", "BETA")
		n.File("ALPHA", "big", 1, 256*mib)
		s := n.SendAsync(stored, "--limit", "50M", "ALPHA:big", "BETA:out/")
		n.Growing("BETA", 40*mib)
		n.Ferry("transfer", "cancel", s.ID()).OK()
		s.Wait().Ends("cancelled", 41)
		empty(t, n)
		n.NoTemporaries("BETA")
	})
}

// TestStoredRecoveryTimeout sends to a destination that never starts. The recovery time-out ends the transfer, and the
// store is empty.
func TestStoredRecoveryTimeout(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, mib)
	n.Stop("BETA")
	n.Send(stored, "--recovery-timeout", "3s", "ALPHA:a", "BETA:out/").Ends("failed", 69)
	empty(t, n)
	n.Start("BETA")
	n.Send(stored, "ALPHA:a", "BETA:b").Ends("successful", 0)
	if n.Exists("BETA", "out/a") {
		t.Error("the file of a transfer that was given up has arrived")
	}
}

// TestStoredSweep ends a transfer while the queue manager is away, and kills its source at that time. No data stay in
// the store in this case either.
func TestStoredSweep(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, mib)
	n.Stop("BETA")
	s := n.SendAsync(stored, "--recovery-timeout", withdrawnAfter, "ALPHA:a", "BETA:out/")
	isSent(t, n, s.ID())
	n.Stop(n.ManagersOf("BETA")...)
	n.UntilEvery("ALPHA gives it up", 50*time.Millisecond, func() bool { return n.Logged("ALPHA", "transfer ended") > 0 })
	n.Kill("ALPHA")
	n.Start(n.ManagersOf("BETA")...)
	if left, _ := n.WireOf("BETA").Stored("FERRY_STORE"); left == 0 {
		t.Fatal("nothing is left to be swept")
	}
	n.Start("ALPHA")
	s.Wait().Ends("failed", 69)
	empty(t, n)
}

// TestStoredRefused sends to a destination that refuses. The transfer ends, and the store is empty.
func TestStoredRefused(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, mib)
	n.Send(stored, "ALPHA:a", "BETA:/nowhere/out/").Ends("failed", 40)
	empty(t, n)
	n.Mkdir("BETA")
	n.File("BETA", "a", 2, 10)
	r := n.Send(stored, "ALPHA:a", "BETA:a")
	if r.Code != 40 || !strings.Contains(r.Stderr+r.Stdout, "exists") {
		t.Errorf("%+v", r)
	}
	empty(t, n)
}

// loseLedger removes the ledger of an agent.
func loseLedger(t *testing.T, n *network.Network, agent string) {
	t.Helper()
	for _, part := range []string{"ledger.db", "items", "names", "reserve"} {
		if err := os.RemoveAll(n.State(agent) + "/" + part); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStoredLostLedger removes the destination's ledger after it has taken part of the data, or restores an older copy.
// No data are sent twice under the ID of the transfer.
func TestStoredLostLedger(t *testing.T) {
	t.Parallel()
	t.Run("lost", func(t *testing.T) { storedWithoutLedger(t, false) })
	t.Run("older", func(t *testing.T) { storedWithoutLedger(t, true) })
}

func storedWithoutLedger(t *testing.T, older bool) {
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "big", 3, 192*mib)
	n.Stop("BETA")
	before := n.State("BETA") + ".before"
	n.Copy(n.State("BETA"), before)
	s := n.SendAsync(stored, "ALPHA:big", "BETA:out/")
	isSent(t, n, s.ID())
	n.Kill("ALPHA")
	line := n.LineOf("BETA")
	line.HoldAfter(128 * mib)
	n.Start("BETA")
	n.Growing("BETA", 100*mib)
	n.Kill("BETA")
	line.Heal()
	loseLedger(t, n, "BETA")
	if older {
		n.Copy(before+"/.", n.State("BETA"))
	}
	n.Start("BETA")
	n.UntilEvery("BETA finds that some is gone", 50*time.Millisecond, func() bool { return n.Logged("BETA", "has lost its first message") > 0 })
	n.Start("ALPHA")
	r := s.Wait()
	if p := n.Status(s.ID()); p.State != "failed" || r.Code == 0 || p.Reason == nil || !strings.Contains(p.Reason.Text, "no record") {
		t.Errorf("it ends with %d, %s: %v", r.Code, p.State, p.Reason)
	}
	if n.Exists("BETA", "out/big") {
		t.Error("the file has arrived")
	}
	empty(t, n)
}

// TestStoredHeadLost loses the first message of a transfer in the store, as a queue manager does that is killed just
// after storing it. The destination has its ledger, which shows that no data were taken. So the transfer is sent again,
// once.
func TestStoredHeadLost(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "big", 3, 5*mib)
	n.Stop("BETA")
	s := n.SendAsync(stored, "ALPHA:big", "BETA:out/")
	isSent(t, n, s.ID())
	n.Kill("ALPHA")
	n.WireOf("BETA").DropFirstMessage("FERRY_STORE", "ferry.store.>")
	n.Start("BETA")
	n.UntilEvery("BETA finds that the first message is missing", 50*time.Millisecond, func() bool { return n.Logged("BETA", "has lost its first message") > 0 })
	n.Kill("BETA") // its ledger keeps that
	n.Start("BETA")
	n.Start("ALPHA")
	s.Wait().Ends("successful", 0)
	n.Same("ALPHA", "big", "BETA", "out/big")
	if p := n.Status(s.ID()); p.Resumes != 1 {
		t.Errorf("%d epochs after the first, want 1", p.Resumes)
	}
	empty(t, n)
}

// TestStoredLostLedgerAtTheEnd removes the destination's ledger after it has taken all data and while the source is
// away. The files are not sent again.
func TestStoredLostLedgerAtTheEnd(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 3, mib)
	n.Stop("BETA")
	s := n.SendAsync(stored, "ALPHA:a", "BETA:out/")
	isSent(t, n, s.ID())
	n.Kill("ALPHA")
	n.Start("BETA")
	empty(t, n)
	n.Kill("BETA")
	loseLedger(t, n, "BETA")
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

// TestStoredFirstMessageLost kills a queue manager, which loses the messages of the last milliseconds. If the first
// message of a transfer is among them, later ones get its number, its own or those of another transfer. No data of the
// transfer were taken, so it begins again and arrives once.
func TestStoredFirstMessageLost(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}})
	n.File("ALPHA", "first", 2, mib)
	n.File("ALPHA", "slow", 3, 3*mib/2)
	n.File("ALPHA", "fast", 4, 8*mib)
	n.Send(stored, "ALPHA:first", "BETA:first").Ends("successful", 0) // the stream exists
	empty(t, n)
	n.Stop("BETA")
	managers, before := n.ManagersOf("BETA"), map[string]string{}
	for _, manager := range managers {
		for _, dir := range streamDirs(t, n, manager) {
			before[dir] = n.Frozen(manager, dir)
		}
	}
	w := n.WireOf("BETA")
	replicated := len(managers) > 1 // a cluster has the messages in its log, too, and may lose none
	has := func(messages uint64) {
		n.UntilEvery(fmt.Sprintf("%d messages are stored", messages), 20*time.Millisecond, func() bool {
			have, _ := w.Stored("FERRY_STORE")
			return have >= messages
		})
	}
	slow := n.SendAsync(stored, "--limit", "300K", "ALPHA:slow", "BETA:out/") // its next message comes after those of the other one
	has(1)
	fast := n.SendAsync(stored, "--limit", "2M", "ALPHA:fast", "BETA:out/")
	n.UntilEvery("the other transfer is being stored, too", 20*time.Millisecond, func() bool {
		return n.Status(fast.ID()).BytesSent > mib // the second message is sent when the first one is stored
	})
	w.Close()
	n.Kill(managers...)
	for dir, copied := range before {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		n.Copy(copied+"/.", dir)
	}
	n.Start(managers...)
	isSent(t, n, slow.ID())
	isSent(t, n, fast.ID())
	n.Start("BETA")
	for _, s := range []*network.Sending{slow, fast} {
		if sum := s.Wait().Ends("successful", 0).Summary; sum.Resumes == 0 && !replicated {
			t.Errorf("the first message was not lost: %+v", sum)
		}
		once(t, n, s.ID(), 1)
	}
	if found := n.Logged("BETA", "has lost its first message"); found == 0 && !replicated {
		t.Error("BETA has found both first messages")
	}
	n.Same("ALPHA", "slow", "BETA", "out/slow")
	n.Same("ALPHA", "fast", "BETA", "out/fast")
	empty(t, n)
}

// streamDirs returns the directories of a queue manager with the stream of stored delivery.
func streamDirs(t *testing.T, n *network.Network, manager string) []string {
	t.Helper()
	all, err := filepath.Glob(n.StoreDir(manager) + "/jetstream/*/streams/FERRY_STORE")
	if err != nil || len(all) == 0 {
		t.Fatalf("%s has no stream for stored delivery: %v", manager, err)
	}
	return all
}

// TestStoredSourceGoes changes or removes the source's files between their sending and a loss in the store.
func TestStoredSourceGoes(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "in/a", 1, mib)
	n.File("ALPHA", "in/b", 2, mib)
	n.Stop("BETA")
	s := n.SendAsync(stored, "-r", "ALPHA:in", "BETA:out/")
	isSent(t, n, s.ID())
	if err := os.Remove(n.Path("ALPHA", "in/a")); err != nil {
		t.Fatal(err)
	}
	n.WireOf("BETA").Drop("FERRY_STORE", "ferry.store.>")
	n.Start("BETA")
	s.Wait().Ends("partial", 20)
	n.Same("ALPHA", "in/b", "BETA", "out/in/b")
	empty(t, n)
}

// TestStoredContent sends text, compressed data and deep directories. They arrive as by fast delivery, even if the
// destination is killed.
func TestStoredContent(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	text := strings.Repeat("Zeile mit Umläuten\n", 2_000_000)
	n.Mkdir("ALPHA")
	if err := os.WriteFile(n.Path("ALPHA", "text"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Stop("BETA")
	s := n.SendAsync(stored, "--mode", "text", "--to-encoding", "IBM-1141", "--compress", "fast", "ALPHA:text", "BETA:out/")
	isSent(t, n, s.ID())
	n.Start("BETA")
	n.GrowingOrThere("BETA", 20*mib, "out/text")
	n.Kill("BETA")
	n.Start("BETA")
	s.Wait().Ends("successful", 0)
	n.Send(stored, "--mode", "text", "--from-encoding", "IBM-1141", "--to-encoding", "UTF-8", "BETA:out/text", "ALPHA:back").Ends("successful", 0)
	if got, err := os.ReadFile(n.Path("ALPHA", "back")); err != nil || string(got) != text {
		t.Errorf("%d bytes of text came back, of %d: %v", len(got), len(text), err)
	}
	empty(t, n)
}

func TestStoredUsage(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, 10)
	if r := n.Ferry("send", stored, "--lane", "direct", "ALPHA:a", "BETA:b"); r.Code != 64 || !strings.Contains(r.Stderr, "--lane direct") {
		t.Errorf("%+v", r)
	}
}

// TestStoredHostile puts messages of a stranger into the store. They harm no transfer, and do not stay there.
func TestStoredHostile(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA", "GAMMA")
	n.File("ALPHA", "a", 1, 3*mib)
	n.Stop("BETA")
	s := n.SendAsync(stored, "ALPHA:a", "BETA:out/")
	isSent(t, n, s.ID())
	w := n.WireOf("BETA")
	other := "01a20000-0000-7000-8000-000000000001"
	chunk := make([]byte, 40)
	chunk[0] = 1
	for _, to := range []string{
		"GAMMA." + s.ID() + ".1", "GAMMA." + s.ID() + ".7", "GAMMA." + other + ".1", "GAMMA." + other + ".4294967295", "GAMMA." + other + ".0", "GAMMA.x.y", "GAMMA." + other, "ALPHA." + other + ".3",
	} {
		for _, data := range [][]byte{[]byte("garbage"), []byte("{}"), []byte(`{"v":1,"kind":"open","from":"GAMMA","transfer":"` + other + `","body":{}}`), nil, chunk} {
			w.Enqueue("ferry.store.BETA."+to, "", data)
		}
	}
	n.Start("BETA")
	s.Wait().Ends("successful", 0)
	n.Same("ALPHA", "a", "BETA", "out/a")
	once(t, n, s.ID(), 1)
	empty(t, n)
}

// TestStoredManyFiles stores very many small files while the destination is away. The memory of neither side depends on
// their number.
func TestStoredManyFiles(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.Files("ALPHA", "in", 4, 20_000, 10)
	n.Stop("BETA")
	s := n.SendAsync(stored, "-r", "ALPHA:in", "BETA:out/")
	isSent(t, n, s.ID())
	n.Kill("ALPHA") // 16,384 outcomes are kept for it; then the destination waits
	n.Start("BETA")
	n.Arrived("BETA", "out/in", 16_000)
	n.Start("ALPHA")
	sum := s.Wait().Ends("successful", 0).Summary
	n.Same("ALPHA", "in", "BETA", "out/in")
	once(t, n, s.ID(), 20_001)
	if sum.Resumes != 0 {
		t.Errorf("the summary says %+v", sum)
	}
	empty(t, n)
}

// TestStoredStoreMadeAnew removes a store, which is then created again. It counts as the same queue manager's, even for
// a destination that knew the old store.
func TestStoredStoreMadeAnew(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, 3*mib)
	n.Send(stored, "ALPHA:a", "BETA:first").Ends("successful", 0)
	n.Freeze("BETA")
	s := n.SendAsync(stored, "ALPHA:a", "BETA:out/")
	isSent(t, n, s.ID())
	n.Stop(n.ManagerOf("BETA"))
	n.DeleteStores(n.ManagersOf("BETA")...)
	n.Start(n.ManagerOf("BETA"))
	n.Thaw("BETA")
	s.Wait().Ends("successful", 0)
	n.Same("ALPHA", "a", "BETA", "out/a")
	empty(t, n)
}

// TestStoredDigestBeforeManyFailures sends a file with a slow digest, followed by more items with errors than a
// destination keeps undecided. They do not block the digest, which comes after the file.
func TestStoredDigestBeforeManyFailures(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}})
	n.File("ALPHA", "in/a/big", 1, 48*mib)
	n.File("ALPHA", "in/b/0000", 2, 10)
	for k := range 2500 {
		if err := syscall.Mkfifo(n.Path("ALPHA", fmt.Sprintf("in/b/%04d", k+1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sum := n.Send(stored, "--checksum", "md5", "-r", "ALPHA:in", "BETA:out/").Ends("partial", 20).Summary
	if sum.Resumes != 0 || sum.FilesFailed != 2500 {
		t.Errorf("%d resumes, %d items failed", sum.Resumes, sum.FilesFailed)
	}
	empty(t, n)
}

// TestTheStoreForgetsAnAgentThatIsRemoved removes an agent. The data stored for it and by it are removed. If it
// returns, missing data are sent again. The same holds for a revoked agent.
func TestTheStoreForgetsAnAgentThatIsRemoved(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}})
	n.File("ALPHA", "a", 1, 3*mib)
	w := n.WireOf("BETA")
	n.Stop("BETA")
	s := n.SendAsync(stored, "ALPHA:a", "BETA:out/")
	isSent(t, n, s.ID())
	if left, _ := w.Stored("FERRY_STORE"); left == 0 {
		t.Fatal("nothing is stored")
	}
	n.Ferry("agent", "rm", "BETA").OK()
	if left, _ := w.Stored("FERRY_STORE"); left != 0 {
		t.Errorf("%d messages are stored for an agent that was removed", left)
	}
	n.Start("BETA")
	s.Wait().Ends("successful", 0)
	n.Same("ALPHA", "a", "BETA", "out/a")

	n.Stop("BETA")
	s = n.SendAsync(stored, "ALPHA:a", "BETA:out2/")
	isSent(t, n, s.ID())
	n.Ferry("identity", "revoke", "BETA").OK()
	if left, _ := w.Stored("FERRY_STORE"); left != 0 {
		t.Errorf("%d messages are stored for an agent that was revoked", left)
	}
	n.Ferry("transfer", "cancel", s.ID()).OK()
	s.Wait()
}
