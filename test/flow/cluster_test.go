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

// trio starts three queue managers that are one, and agents that know all of them.
func trio(t *testing.T, direct string, agents ...string) *network.Network {
	t.Helper()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: agents, Direct: direct, Cluster: make([]network.Member, 3)})
	n.Whole()
	return n
}

// The queue manager that takes the commands is killed in the middle of a large file, on each lane: another one
// takes them, the agents that it had move on, and the file is whole. It is said meanwhile what is
// missing, and when all is back nothing was lost.
func TestAQueueManagerOfThreeGoes(t *testing.T) {
	t.Parallel()
	for lane, direct := range map[string]string{"queue": "off", "direct": "tls"} {
		t.Run(lane, func(t *testing.T) {
			n := trio(t, direct, "ALPHA", "BETA")
			n.File("ALPHA", "big", 3, 256*mib)
			s := n.SendAsync("--lane", lane, "ALPHA:big", "BETA:out/")
			n.Growing("BETA", 60*mib)
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

// A queue manager whose host is gone for good is taken out of its cluster, which then says nothing of it any more; transfers run
// meanwhile. That somebody had it done is on record.
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

// All are stopped and started one after another, the way in which a new version comes, while files are sent;
// then all at once.
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
