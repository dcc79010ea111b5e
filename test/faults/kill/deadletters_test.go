//go:build linux

package kill_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// burials are the steps between the refusal of a message and its end, and the steps of sending a letter again.
var burials = []struct{ point, who string }{
	{"agent.before_bury", source}, {"agent.after_bury", source}, {"dead.after_put", network.QM}, {"dead.after_resend", network.QM},
}

// TestCampaignKillDeadLetters kills the agent and the queue manager at each step of a message that is refused for ever,
// and of a letter that is sent again. The message is kept once. The request of the letter runs once.
func TestCampaignKillDeadLetters(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "kill-deadletters", Unit: "kills", Full: 2 * len(burials), Short: len(burials),
		What: "kill -9 of an agent or the queue manager while a refused message becomes a dead letter, and while a letter is sent again",
	}, func(t *testing.T, c *campaign.C) {
		c.Cases(t, func(t *testing.T, seed uint64, _ *rand.Rand) {
			b := burials[seed%uint64(len(burials))]
			n := up(t, network.Setup{Env: map[string][]string{b.who: {armed(b.point, 1)}}})
			if b.point == "dead.after_resend" {
				resent(t, n)
			} else {
				refused(t, n, b.who)
			}
			n.Sound()
		})
	})
}

func deadLetters(n *network.Network) []string {
	out := strings.TrimSpace(n.Ferry("queue", "dead", "ls", "--json").OK().Stdout)
	if out == "" {
		return nil
	}
	return strings.Split(out, "\n")
}

// refused stores a message that no agent can read. A process is killed at its failpoint.
func refused(t *testing.T, n *network.Network, who string) {
	w := n.Wire()
	w.Enqueue("ferry.command."+source+".anyone", "", []byte("no request"))
	n.Gone(who)
	n.Setenv(who)
	n.Start(who)
	n.Until("the message has left its queue", func() bool { messages, _ := w.Stored("FERRY_COMMAND"); return messages == 0 })
	if all := deadLetters(n); len(all) != 1 || !strings.Contains(all[0], `"from":"anyone"`) {
		t.Errorf("the dead letters are %q", all)
	}
}

// resent removes an agent with a request in its queue, and sends the letter again when the agent is back. The queue
// manager is killed when the request is in its queue and the letter is still there.
func resent(t *testing.T, n *network.Network) {
	n.Files(source, "in", 2, 20, 2000)
	n.Stop(source)
	id := n.Detach("-r", source+":in", dest+":out/")
	n.Until("the agent is away", func() bool { return n.Ferry("agent", "rm", source).Code == 0 })
	all := deadLetters(n)
	if len(all) != 1 {
		t.Fatalf("the dead letters are %q", all)
	}
	_, rest, _ := strings.Cut(all[0], `"id":"`)
	letter, _, _ := strings.Cut(rest, `"`)
	n.Start(source)
	first := n.Async("queue", "dead", "resend", letter)
	n.Gone(network.QM)
	n.Setenv(network.QM)
	n.Start(network.QM)
	first.Wait()
	n.WaitState(id, "successful")
	w := n.Wire()
	n.Until("no letter and no request is left", func() bool {
		if len(deadLetters(n)) > 0 { // the queue manager was killed before it removed the letter
			n.Ferry("queue", "dead", "resend", letter) // its agent knows the transfer, and does not run it again
			return false
		}
		waiting, _ := w.Stored("FERRY_COMMAND")
		return waiting == 0
	})
	n.Same(source, "in", dest, "out/in")
	accepted := 0
	for _, r := range n.Audit(id) {
		if r.Event == "completed" && r.Role == "source" {
			accepted++
		}
	}
	if accepted != 1 {
		t.Errorf("transfer %s has ended %d times", id, accepted)
	}
}
