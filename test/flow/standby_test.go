//go:build linux

package flow_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ferry/test/flow/network"
)

// TestTwoInstancesOneIsActive starts two instances of an agent, one after the other or at the same instant. One is
// active and the other stands by, and the network knows both.
func TestTwoInstancesOneIsActive(t *testing.T) {
	t.Parallel()
	for _, together := range []bool{false, true} {
		n := up(t, "ALPHA")
		one, two := n.Pair("BETA", n.URL(), n.URL())
		if together {
			n.Launch(one, two)
		} else {
			n.Start(one)
			n.Launch(two)
		}
		n.Ready(one, two)
		a, b := n.InstanceRunsOf(one, "BETA"), n.InstanceRunsOf(two, "BETA")
		if a.Active+b.Active != 1 || !together && a.Active != 1 {
			t.Fatalf("the one: %+v, the other: %+v", a, b)
		}
		n.File("ALPHA", "a", 1, 3*mib)
		sum := n.Send("ALPHA:a", "BETA:out/").Ends("successful", 0).Summary
		n.Same("ALPHA", "a", "BETA", "out/a")
		once(t, n, sum.ID, 1)
		n.UntilEvery("both are shown", 100*time.Millisecond, func() bool {
			out := n.Ferry("agent", "ls").OK().Stdout
			return strings.Count(out, "BETA ") == 2 && strings.Count(out, " STANDBY ") == 1
		})
		if shown := n.Ferry("agent", "show", "BETA").OK().Stdout; strings.Count(shown, "\nstandby ") != 1 {
			t.Errorf("it shows:\n%s", shown)
		}
	}
}

// endings are the ways to end the active instance.
var endings = map[string]func(n *network.Network, who string){
	"killed":  func(n *network.Network, who string) { n.Kill(who) },
	"stopped": func(n *network.Network, who string) { n.Stop(who) },
}

// TestStandbyTakesOver ends the active instance in the middle of a file, at either side and in each way. The standby
// takes over and the file resumes from its last point.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	for ending, end := range endings {
		for _, side := range []string{"ALPHA", "BETA"} {
			t.Run(ending+" "+side, func(t *testing.T) {
				other := map[string]string{"ALPHA": "BETA", "BETA": "ALPHA"}[side]
				n := up(t, other)
				one, two := n.Pair(side, n.URL(), n.URL())
				n.Start(one)
				n.Start(two)
				n.File("ALPHA", "big", 2, 128*mib)
				n.Files("ALPHA", "many", 3, 300, 2000)
				s, m := n.SendAsync(paced, "ALPHA:big", "BETA:out/"), n.SendAsync("-r", "ALPHA:many", "BETA:out/")
				n.Growing("BETA", 40*mib)
				before, from := n.InstanceRunsOf(two, side), time.Now()
				end(n, one)
				n.Active(two, side, before)
				took := time.Since(from)
				sum := s.Wait().Ends("successful", 0).Summary
				many := m.Wait().Ends("successful", 0).Summary
				n.Same("ALPHA", "big", "BETA", "out/big")
				n.Same("ALPHA", "many", "BETA", "out/many")
				once(t, n, sum.ID, 1)
				once(t, n, many.ID, 301)
				t.Logf("active after %.1f s; resumes %d, sent again %d KiB", took.Seconds(), sum.Resumes, sum.BytesResent>>10)
			})
		}
	}
}

// TestStandbyTakesOverFromOneThatIsCutOff disconnects an active instance from its queue manager, with and without
// notice. It stops and releases its lock. When the line is whole again it stands by.
func TestStandbyTakesOverFromOneThatIsCutOff(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*network.Line){"told": (*network.Line).Cut, "not told": (*network.Line).Hold} {
		t.Run(name, func(t *testing.T) {
			n := up(t, "ALPHA")
			line := n.Line()
			one, two := n.Pair("BETA", line.URL(), n.URL())
			n.Start(one)
			n.Start(two)
			n.File("ALPHA", "big", 2, 128*mib)
			s := n.SendAsync(paced, "ALPHA:big", "BETA:out/")
			n.Growing("BETA", 40*mib)
			first, second, from := n.InstanceRunsOf(one, "BETA"), n.InstanceRunsOf(two, "BETA"), time.Now()
			cut(line)
			n.Active(two, "BETA", second)
			took := time.Since(from)
			line.Heal()
			sum := s.Wait().Ends("successful", 0).Summary
			n.Same("ALPHA", "big", "BETA", "out/big")
			once(t, n, sum.ID, 1)
			n.WaitStandby(one, "BETA", first)
			t.Logf("active after %.1f s", took.Seconds())

			// And back again.
			n.File("ALPHA", "a", 3, mib)
			first = n.InstanceRunsOf(one, "BETA")
			n.Stop(two)
			n.Active(one, "BETA", first)
			n.Send("ALPHA:a", "BETA:out/").Ends("successful", 0)
			n.Same("ALPHA", "a", "BETA", "out/a")
		})
	}
}

// TestAPausedInstanceWakesAfterTheTakeover stops the process of an active instance. It keeps its lock, so that the
// standby does not take over: the process could continue. If the storage removes the lock meanwhile, the standby takes
// over. When the first instance continues, it notices that before it writes a record or renames a file (scenario 34).
func TestAPausedInstanceWakesAfterTheTakeover(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"ALPHA", "BETA"} {
		t.Run(side, func(t *testing.T) {
			other := map[string]string{"ALPHA": "BETA", "BETA": "ALPHA"}[side]
			n := up(t, other)
			one, two := n.Pair(side, n.URL(), n.URL())
			n.Start(one)
			n.Start(two)
			n.File("ALPHA", "big", 2, 128*mib)
			n.Files("ALPHA", "many", 3, 1000, 2000)
			s, m := n.SendAsync(paced, "ALPHA:big", "BETA:out/"), n.SendAsync("-r", "ALPHA:many", "BETA:out/")
			n.Growing("BETA", 40*mib)
			first, second := n.InstanceRunsOf(one, side), n.InstanceRunsOf(two, side)
			n.Freeze(one)
			if n.InstanceRunsOf(two, side) != second {
				t.Fatal("the standby has taken over from one that has its lock")
			}
			n.Unlock(one, n.State(side))
			n.Active(two, side, second)
			n.Thaw(one)
			n.WaitStandby(one, side, first)
			sum := s.Wait().Ends("successful", 0).Summary
			many := m.Wait().Ends("successful", 0).Summary
			n.Same("ALPHA", "big", "BETA", "out/big")
			n.Same("ALPHA", "many", "BETA", "out/many")
			once(t, n, sum.ID, 1)
			once(t, n, many.ID, 1001)
			if turn := n.InstanceRunsOf(one, side); turn.Active != first.Active {
				t.Errorf("the one that woke: %+v after %+v", turn, first)
			}
		})
	}
}

// TestInstancesThatShareNothing starts a second instance without --standby, which is refused as usual. A standby with
// another directory than the active instance is refused, too, with the reason.
func TestInstancesThatShareNothing(t *testing.T) {
	t.Parallel()
	n := up(t)
	one, two := n.Pair("BETA", n.URL(), n.URL())
	n.Start(one)
	n.AddOther("PLAIN", "agent BETA ready", "agent", "run", "BETA", "--network", n.URL(), "--dir", n.State("BETA"), "--root", n.Root("BETA"))
	n.Launch("PLAIN")
	if code := n.ExitCode("PLAIN"); code != 70 || !strings.Contains(n.Wrote("PLAIN"), "already running on ") {
		t.Errorf("a second instance without --standby ends with %d: %s", code, n.Wrote("PLAIN"))
	}

	must(t, os.MkdirAll(n.State("elsewhere"), 0o700))
	n.Copy(n.State("BETA")+"/identity", n.State("elsewhere"))
	n.AddOther("ALONE", "agent BETA ", "agent", "run", "BETA", "--standby", "--network", n.URL(), "--dir", n.State("elsewhere"), "--root", n.Root("BETA"))
	n.Launch("ALONE")
	if code := n.ExitCode("ALONE"); code != 70 || !strings.Contains(n.Wrote("ALONE"), "is free here: the storage is not the one that ") {
		t.Errorf("a standby with a directory of its own ends with %d: %s", code, n.Wrote("ALONE"))
	}
	n.Start(two)
	before := n.InstanceRunsOf(two, "BETA")
	n.Signal(one, syscall.SIGKILL)
	n.Active(two, "BETA", before)
}

// TestCoordinationStandsBy runs two coordination services. The standby takes over, agents continue undisturbed, and the
// audit log loses no record.
func TestCoordinationStandsBy(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Flags: map[string][]string{network.QM: {"--coordination", "none"}}})
	line := n.Line()
	for who, url := range map[string]string{"C1": line.URL(), "C2": n.URL()} {
		n.AddOther(who, "coordination ", "coordination", "run", "--standby", "--network", url, "--dir", n.State("C"))
	}
	turn := func(who, what string) int { return n.Logged(who, "coordination "+what) }
	n.Start("C1")
	n.Start("C2")
	if turn("C1", "ready") != 1 || turn("C2", "standing by") != 1 {
		t.Fatal("the first is not active, or the second does not stand by")
	}
	n.Add("ALPHA")
	n.Add("BETA")
	n.Start("ALPHA", "BETA")
	n.Files("ALPHA", "many", 3, 300, 2000)
	send := func(to string) {
		sum := n.Send("-r", "ALPHA:many", "BETA:"+to+"/").Ends("successful", 0).Summary
		once(t, n, sum.ID, 301)
	}
	send("first")
	n.Kill("C1")
	n.Until("the standby is active", func() bool { return turn("C2", "ready") == 1 })
	send("second")

	n.Start("C1")
	n.Stop("C2")
	n.Until("the other one is active again", func() bool { return turn("C1", "ready") == 2 })
	n.Start("C2")
	line.Hold()
	n.Until("it takes over from one that is cut off", func() bool { return turn("C2", "ready") == 2 })
	line.Heal()
	send("third")
	n.Until("who was cut off stands by", func() bool { return turn("C1", "standing by") == 2 })

	n.Freeze("C2")
	n.Unlock("C2", n.State("C"))
	n.Until("it takes over from one that has lost its lock", func() bool { return turn("C1", "ready") == 3 })
	n.Thaw("C2")
	n.Until("the one that woke stands by", func() bool { return turn("C2", "standing by") > 2 })
	send("fourth")
}

// TestAStandbyWaitsForSpace fills the disk of an instance that has to become active. It waits and reports that. With
// space it becomes active.
func TestAStandbyWaitsForSpace(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA")
	one, two := n.Pair("BETA", n.URL(), n.URL())
	mark := filepath.Join(n.State("BETA"), "standby.mark")
	if err := errors.Join(os.MkdirAll(n.State("BETA"), 0o700), os.Symlink("/dev/full", mark)); err != nil {
		t.Fatal(err)
	}
	n.Launch(one, two)
	for _, who := range []string{one, two} {
		n.Until(who+" waits for space", func() bool {
			if !n.Running(who) {
				t.Fatalf("%s has ended: %s", who, n.Wrote(who))
			}
			return strings.Contains(n.Wrote(who), "agent BETA waits for space in ")
		})
	}
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	n.Until("one of them is active", func() bool { return n.InstanceRunsOf(one, "BETA").Active+n.InstanceRunsOf(two, "BETA").Active == 1 })
}

// TestCoordinationWaitsForSpace does the same with coordination.
func TestCoordinationWaitsForSpace(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Flags: map[string][]string{network.QM: {"--coordination", "none"}}})
	mark := filepath.Join(n.State("C"), "standby.mark")
	if err := errors.Join(os.MkdirAll(n.State("C"), 0o700), os.Symlink("/dev/full", mark)); err != nil {
		t.Fatal(err)
	}
	n.AddOther("C1", "coordination ", "coordination", "run", "--standby", "--network", n.URL(), "--dir", n.State("C"))
	n.Launch("C1")
	n.Until("it waits for space", func() bool {
		if !n.Running("C1") {
			t.Fatalf("it has ended: %s", n.Wrote("C1"))
		}
		return strings.Contains(n.Wrote("C1"), "the disk is full; standing by")
	})
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	n.Until("it is active", func() bool { return strings.Contains(n.Wrote("C1"), "coordination ready") })
}
