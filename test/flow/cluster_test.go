//go:build linux

package flow_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/test/flow/network"
)

// trio starts a cluster of three queue managers, and agents that know all of them.
func trio(t *testing.T, direct string, agents ...string) *network.Network {
	t.Helper()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: agents, Direct: direct, Cluster: make([]network.Member, 3)})
	n.Whole()
	return n
}

// TestAQueueManagerOfThreeGoes kills the leader of the commands in the middle of a large file, on each lane. Another
// queue manager takes over, its agents reconnect, and the file is whole. The missing queue manager is reported
// meanwhile. When it is back, no data are lost.
func TestAQueueManagerOfThreeGoes(t *testing.T) {
	t.Parallel()
	for lane, direct := range map[string]string{"queue": "off", "direct": "tls"} {
		t.Run(lane, func(t *testing.T) {
			n := trio(t, direct, "ALPHA", "BETA")
			n.File("ALPHA", "big", 3, 128*mib)
			s := n.SendAsync(paced, "--lane", lane, "ALPHA:big", "BETA:out/")
			n.Growing("BETA", 40*mib)
			victim := n.Leads("FERRY_COMMAND")
			n.Kill(victim)
			began := time.Now()
			sum := s.Wait().Ends("successful", 0).Summary
			n.Same("ALPHA", "big", "BETA", "out/big")
			t.Logf("%s is gone, and the file there after %.1f s; resumes %d, sent again %d KiB", victim, time.Since(began).Seconds(), sum.Resumes, sum.BytesResent>>10)

			began = time.Now()
			n.Send("--lane", lane, "ALPHA:big", "BETA:more/").Ends("successful", 0)
			t.Logf("the next transfer took %.1f s", time.Since(began).Seconds())
			// Coordination may have gone with it.
			if said := n.Ferry("ready").OK().Stdout; !strings.Contains(said, "degraded: queue manager "+victim+" of cluster "+network.ClusterName+" is away") {
				t.Errorf("with %s away it is said: %q", victim, said)
			}
			n.Start(victim)
			n.Whole()
			once(t, n, sum.ID, 1)
			n.Until("nothing is degraded", func() bool {
				manager, agents := n.Degraded()
				return manager == "" && len(agents) == 0
			})
			n.Sound()
		})
	}
}

// TestAQueueManagerIsTakenOut removes a queue manager with a lost host from its cluster, which no longer reports it.
// Transfers run meanwhile. The audit has the removal with its originator.
func TestAQueueManagerIsTakenOut(t *testing.T) {
	t.Parallel()
	n := trio(t, "off", "ALPHA", "BETA")
	n.File("ALPHA", "big", 3, 100*mib)
	gone := network.MemberName(2)
	if r := n.Ferry("qm", "rm", gone); r.Code == 0 || !strings.Contains(r.Stderr, gone+" is running") {
		t.Errorf("of one that runs it is said: %+v", r)
	}
	s := n.SendAsync("--limit", "20M", "ALPHA:big", "BETA:out/")
	n.Growing("BETA", 10*mib)
	n.Kill(gone)
	var said network.Result
	n.UntilEvery("it is taken out", 500*time.Millisecond, func() bool { said = n.Ferry("qm", "rm", gone); return said.Code == 0 })
	if !strings.Contains(said.Stdout, gone+" is no member") {
		t.Errorf("it is said: %+v", said)
	}
	for _, who := range n.Members()[:2] {
		n.UntilEvery(who+" has forgotten it", 200*time.Millisecond, func() bool { return len(n.QueueManagers(who)) == 2 })
	}
	s.Wait().Ends("successful", 0)
	n.Same("ALPHA", "big", "BETA", "out/big")
	n.Send("ALPHA:big", "BETA:more/").Ends("successful", 0)
	acts, err := os.ReadFile(filepath.Join(n.State(network.QM), "authority", "acts.jsonl"))
	must(t, err)
	if !strings.Contains(string(acts), `"act":"removed","name":"ferry://`) || !strings.Contains(string(acts), `/qm/`+gone+`","by":"ferry://`) {
		t.Error("it is not on record who had it taken out")
	}
	if r := n.Ferry("qm", "rm", gone); r.Code == 0 || !strings.Contains(r.Stderr, "was removed") {
		t.Errorf("the second time it is said: %+v", r)
	}
}

// TestQueueManagersAreRestartedInTurn restarts all queue managers one after another, as for a new version, while files
// are sent. Then it restarts all at once.
func TestQueueManagersAreRestartedInTurn(t *testing.T) {
	t.Parallel()
	n := trio(t, "off", "ALPHA", "BETA")
	n.Files("ALPHA", "many", 3, 2000, 2000)
	n.File("ALPHA", "big", 4, 128*mib)
	many, big := n.SendAsync("-r", "ALPHA:many", "BETA:out/"), n.SendAsync("ALPHA:big", "BETA:out/")
	for _, who := range n.Members() {
		n.Stop(who)
		n.Start(who)
		n.Whole()
	}
	a := many.Wait().Ends("successful", 0).Summary
	b := big.Wait().Ends("successful", 0).Summary
	n.Same("ALPHA", "big", "BETA", "out/big")
	once(t, n, a.ID, 2001) // and their directory
	once(t, n, b.ID, 1)

	again := n.SendAsync("ALPHA:big", "BETA:again/")
	n.Kill(n.Members()...)
	n.Launch(n.Members()...)
	n.Ready(n.Members()...)
	c := again.Wait().Ends("successful", 0).Summary
	n.Same("ALPHA", "big", "BETA", "again/big")
	n.Whole()
	once(t, n, c.ID, 1)
	n.Sound()
}

// TestNothingIsQueuedWithoutALeader stops two of three queue managers, so that no message is stored. The command
// reports that its request was not stored, or that it may have been, and ends with 75. A request that was not stored is
// in no list and does not run when the others are back. One that may have been stored is withdrawn if possible.
func TestNothingIsQueuedWithoutALeader(t *testing.T) {
	t.Parallel()
	n := trio(t, "off", "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, 1000)
	n.Kill(n.Members()[1:]...)
	var all []*network.Sending
	for k := range 6 {
		all = append(all, n.Async("send", "--detach", "--recovery-timeout", "-1", "ALPHA:a", fmt.Sprintf("BETA:out/%d", k)))
	}
	all = append(all, n.Async("send", "--detach", "ALPHA:a", "BETA:out/6", "--also-to", "BETA:out/7"), n.Async("call", "run", "--detach", "ALPHA", "note.sh"))
	perhaps := map[string]bool{} // files of requests that may have been stored
	for k, s := range all {
		r := s.Wait()
		switch id := strings.TrimSpace(r.Stdout); {
		case r.Code != 75:
			t.Errorf("without a leader request %d ends with %d: %s%s", k, r.Code, r.Stdout, r.Stderr)
		case strings.Contains(r.Stderr, "may have been stored") && len(id) == 36:
			perhaps[fmt.Sprint("out/", k)] = true
			if k == 6 {
				perhaps["out/7"] = true
			}
		case strings.Contains(r.Stderr, "may have been stored") || id != "":
			t.Errorf("request %d is said to be %q: %s", k, id, r.Stderr)
		}
	}
	n.Launch(n.Members()[1:]...)
	n.Ready(n.Members()...)
	n.Whole()
	n.File("ALPHA", "b", 2, 1000)
	n.Send("ALPHA:b", "BETA:out/later").Ends("successful", 0) // after all requests in the queue
	taken(n)
	for _, p := range n.Transfers() {
		if p.State == "queued" {
			t.Errorf("transfer %s is queued", p.ID)
		}
	}
	for k := range 8 {
		if name := fmt.Sprint("out/", k); n.Exists("BETA", name) && !perhaps[name] {
			t.Errorf("%s has arrived, of a request that was said not to be stored", name)
		}
	}
	if got := len(n.Transfers()); got > 1+len(perhaps) {
		t.Errorf("%d transfers are listed; %d of them may have been stored", got, len(perhaps))
	}
	t.Logf("%d of 8 may have been stored", len(perhaps))
	n.Sound()
}
