//go:build linux

package kill_test

import (
	"encoding/json"
	"testing"

	"ferry/test/flow/network"
)

// depth is how many messages are in the queue Q.
func depth(t *testing.T, n *network.Network) int {
	t.Helper()
	var v struct {
		Messages int `json:"messages"`
	}
	if err := json.Unmarshal([]byte(n.Ferry("queue", "show", "Q", "--json").OK().Stdout), &v); err != nil {
		t.Fatal(err)
	}
	return v.Messages
}

// queueing is a network with a queue Q and a file of 200,000 bytes; an agent of it dies at a point.
func queueing(t *testing.T, who, point string) *network.Network {
	t.Helper()
	s := network.Setup{}
	if who != "" {
		s.Env = map[string][]string{who: {"FERRY_FAILPOINT=" + point + "=kill"}}
	}
	n := up(t, s)
	n.Ferry("queue", "create", "Q").OK()
	n.File(source, "in", 1, 200_000)
	return n
}

// A destination that dies at any step of storing a file as messages has each of them stored once, also
// where somebody has taken them all before it comes back.
func TestCampaignStoringMessages(t *testing.T) {
	for _, c := range []struct {
		point string
		taken bool
	}{{"messages.after_committing", false}, {"messages.before_publish", false}, {"messages.after_publish", false}, {"messages.after_publish", true},
		{"messages.before_settle", false}, {"messages.before_settle", true}} {
		t.Run(c.point, func(t *testing.T) {
			n := queueing(t, dest, c.point)
			s := n.SendAsync("--split-size", "1000", source+":in", dest+":queue:Q")
			n.Gone(dest)
			left := 200
			if c.taken {
				n.Ferry("send", "--delete-source", source+":queue:Q", source+":taken").OK()
				left = 0
			}
			n.Setenv(dest)
			n.Start(dest)
			s.Wait().Ends("successful", 0)
			if got := depth(t, n); got != left {
				t.Fatalf("%d messages are in the queue, not %d", got, left)
			}
		})
	}
}

// A source that dies while it takes messages out of the queue has taken those that were sent, and no others.
func TestCampaignTakingMessages(t *testing.T) {
	for _, point := range []string{"messages.before_take", "messages.after_take", "delete.after_ledger"} {
		t.Run(point, func(t *testing.T) {
			n := queueing(t, source, point)
			n.Ferry("send", "--split-size", "1000", source+":in", dest+":queue:Q").OK()
			s := n.SendAsync("--delete-source", source+":queue:Q", dest+":back")
			n.Gone(source)
			n.Ferry("send", "--split-size", "100000", dest+":back", dest+":queue:Q").OK() // what comes later stays
			n.Setenv(source)
			n.Start(source)
			s.Wait().Ends("successful", 0)
			if got := depth(t, n); got != 2 {
				t.Fatalf("%d messages are in the queue, not 2", got)
			}
		})
	}
}

// The first complete group is the same one after a source has died: another one that would be the first by then stays.
func TestCampaignTakingTheFirstGroup(t *testing.T) {
	for _, point := range []string{"sender.before_message", "messages.before_take", "messages.after_take"} {
		t.Run(point, func(t *testing.T) {
			n := queueing(t, source, point)
			put := func(group string, last bool) {
				args := []string{"queue", "put", "Q", n.Path(source, "in0"), "--group", group}
				if last {
					args = append(args, "--last")
				}
				n.Ferry(args...).OK()
			}
			n.File(source, "in0", 2, 20_000)
			put("early", false)
			put("first", false)
			put("first", true)
			s := n.SendAsync("--delete-source", "--group", "*", source+":queue:Q", dest+":back")
			n.Gone(source)
			put("early", true)
			n.Setenv(source)
			n.Start(source)
			s.Wait().Ends("successful", 0)
			if got := depth(t, n); got != 2 {
				t.Fatalf("%d messages are in the queue, not 2", got)
			}
			n.Send("--delete-source", "--group", "early", source+":queue:Q", dest+":early").Ends("successful", 0)
		})
	}
}

// A queue manager that dies while messages are stored loses none and stores none twice.
func TestCampaignQueueManagerOfMessages(t *testing.T) {
	n := queueing(t, "", "")
	for k := range 3 {
		s := n.SendAsync("--split-size", "50", source+":in", dest+":queue:Q") // 4,000 messages, in five parts
		n.Kill(network.QM)
		n.Start(network.QM)
		s.Wait().Ends("successful", 0)
		if got := depth(t, n); got != 4000*(k+1) {
			t.Fatalf("%d messages are in the queue after %d transfers", got, k+1)
		}
	}
}
