//go:build linux

package flow_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ferry/test/flow/network"
)

// TestAgentsOfOneNameStartedTogether starts agents of one name at the same instant. One stays. The others name its
// holder, before they have taken any work.
func TestAgentsOfOneNameStartedTogether(t *testing.T) {
	t.Parallel()
	n := up(t, "BETA")
	all := []string{"ONE", "TWO", "THREE"}
	for _, who := range all {
		twin(n, who, n.URL())
	}
	n.Launch(all...)
	owner := alone(t, n, all...)
	n.Ready(owner)
	for _, who := range all {
		if who != owner {
			hasStopped(t, n, who)
		}
	}
	n.File(owner, "a", 1, 1000)
	n.Send("ALPHA:a", "BETA:out/").Ends("successful", 0)
}

// TestAgentsOfOneNameOnBothSidesOfACut runs two agents of one name on both sides of a cut. One of them stops when the
// cut heals. If both have one identity, as with a copied state directory, it is the one that reconnects and finds the
// name taken. If the other one was enrolled anew, it is the one with the revoked identity.
func TestAgentsOfOneNameOnBothSidesOfACut(t *testing.T) {
	t.Parallel()
	for name, copied := range map[string]bool{"of one identity": true, "enrolled anew": false} {
		t.Run(name, func(t *testing.T) {
			n := up(t, "BETA")
			line := n.Line()
			twin(n, "FIRST", line.URL())
			twin(n, "SECOND", n.URL())
			n.Start("FIRST")
			if copied {
				must(t, os.MkdirAll(n.State("SECOND"), 0o700))
				n.Copy(n.State("FIRST")+"/identity", n.State("SECOND"))
			}
			line.Cut()
			n.Start("SECOND")
			line.Heal()
			n.Ready("SECOND")
			if owner := alone(t, n, "FIRST", "SECOND"); owner != "SECOND" {
				t.Errorf("%s has the name, not the one that holds it at the queue manager", owner)
			}
			if copied {
				hasStopped(t, n, "FIRST")
			} else if n.Gone("FIRST"); n.ExitCode("FIRST") != 53 || !strings.Contains(n.Wrote("FIRST"), "refuses the identity ferry://") {
				t.Errorf("FIRST has ended with %d: %s", n.ExitCode("FIRST"), n.Wrote("FIRST"))
			}
			n.File("SECOND", "a", 1, 1000)
			n.Send("ALPHA:a", "BETA:out/").Ends("successful", 0)
		})
	}
}

// TestANameIsFoundAgain removes the store with the holder of a name, which stops no agent. An agent that was killed is
// ready at once when it is restarted on its state directory.
func TestANameIsFoundAgain(t *testing.T) {
	t.Parallel()
	for _, emptied := range []bool{false, true} {
		t.Run(fmt.Sprintf("emptied=%v", emptied), func(t *testing.T) {
			n := up(t, "ALPHA", "BETA")
			n.File("ALPHA", "a", 1, 1000)
			n.Kill(network.QM, "ALPHA")
			if emptied {
				n.DeleteQueueManagerStore()
			}
			n.Start(network.QM)
			n.Start("ALPHA")
			if n.Logged("ALPHA", "waiting for it") > 0 {
				t.Error("ALPHA has waited for its own last run")
			}
			n.Send("ALPHA:a", "BETA:out/").Ends("successful", 0)
			if !n.Running("BETA") {
				t.Error("BETA has stopped")
			}
		})
	}
}

// twin declares an agent ALPHA with a state directory and a root of its own.
func twin(n *network.Network, who, url string) {
	n.Mkdir(who)
	n.AddOther(who, "agent ALPHA ready", "agent", "run", "ALPHA", "--network", url, "--dir", n.State(who), "--root", n.Root(who), "--direct", "off")
}

// alone waits until one of the processes is left. Two agents of one name have 5 s to find each other once both reach the
// queue manager, which test/protocol proves in virtual time. The log has the measured time.
func alone(t *testing.T, n *network.Network, all ...string) (owner string) {
	t.Helper()
	from := time.Now()
	left := 0
	n.Until("one agent of the name is left", func() bool {
		left = 0
		for _, who := range all {
			if n.Running(who) {
				left, owner = left+1, who
			}
		}
		return left <= 1
	})
	if left != 1 {
		t.Fatal("no agent of the name is left")
	}
	t.Logf("one agent of the name is left after %.1f s", time.Since(from).Seconds())
	return owner
}

// hasStopped expects an agent to have stopped because another one has its name.
func hasStopped(t *testing.T, n *network.Network, who string) {
	t.Helper()
	n.Gone(who)
	if code, text := n.ExitCode(who), n.Wrote(who); code != 70 || !strings.Contains(text, "agent ALPHA is already running on ") {
		t.Errorf("%s has ended with %d: %s", who, code, text)
	}
}
