//go:build linux

package kill_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

// messagePoints are the steps from files to messages and from messages to files. Each has the process to be killed, the
// range of meetings of the point to choose from, and the test. The first message of a transfer is empty: the selected
// messages are recorded before the second one. Without a point the queue manager is killed at a random moment.
var messagePoints = []struct {
	name        string
	who         string
	first, last int
	do          func(*testing.T, *network.Network, *rand.Rand)
}{
	{"messages.after_committing", dest, 1, 1, killStoring}, {"messages.before_publish", dest, 1, 3, killStoring}, {"messages.after_publish", dest, 1, 3, killStoring}, {"messages.before_settle", dest, 1, 1, killStoring},
	{"sender.before_message", source, 2, 2, killTaking}, {"messages.before_take", source, 1, 1, killTaking}, {"messages.after_take", source, 1, 1, killTaking},
	{"messages.after_take", source, 1, 1, killTakingAGroup}, {"delete.after_ledger", source, 1, 1, killTakingAGroup},
	{"", network.QM, 1, 1, killKeeping},
}

// TestCampaignKillMessages kills an agent that stores a file as messages, an agent that takes messages out of a queue,
// or the queue manager. Each message is stored once, even if a consumer has taken it before the agent restarts. The
// messages taken equal the messages sent.
func TestCampaignKillMessages(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "kill-messages", Unit: "kills", Full: 60, Short: 4,
		What: "kill -9 of an agent at each step of storing messages and of taking them, and of the queue manager meanwhile",
	}, func(t *testing.T, c *campaign.C) { c.Cases(t, killMessages) })
}

const (
	wholeFile = 200_000 // bytes
	pieces    = 2500    // messages of 80 bytes, which are stored in three parts
)

func killMessages(t *testing.T, seed uint64, r *rand.Rand) {
	point := messagePoints[seed%uint64(len(messagePoints))]
	nth := point.first + r.IntN(point.last-point.first+1)
	t.Logf("%s, the %d. time", point.name, nth)
	s := network.Setup{}
	if point.name != "" {
		s.Env = map[string][]string{point.who: {armed(point.name, nth)}}
	}
	n := up(t, s)
	n.Ferry("queue", "create", "Q").OK()
	n.File(source, "in", seed, wholeFile)
	point.do(t, n, r)
	n.Sound()
}

// depth returns the number of messages in the queue Q.
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

// again restarts a killed agent, without a failpoint.
func again(n *network.Network, who string) {
	n.Gone(who)
	n.Setenv(who)
	n.Start(who)
}

// killStoring kills the destination while it stores a file. A consumer may take the messages present before the
// restart.
func killStoring(t *testing.T, n *network.Network, r *rand.Rand) {
	s := n.SendAsync("--split-size", "80", source+":in", dest+":queue:Q")
	n.Gone(dest)
	there, files := depth(t, n), []string{}
	if there > 0 && r.IntN(2) == 0 {
		n.Ferry("send", "--delete-source", source+":queue:Q", source+":taken").OK()
		files = append(files, "taken")
	} else {
		there = 0
	}
	again(n, dest)
	s.Wait().Ends("successful", 0)
	if got := depth(t, n); got != pieces-there {
		t.Fatalf("%d messages are in the queue, not %d: %d have been taken", got, pieces-there, there)
	}
	if there < pieces {
		n.Ferry("send", "--delete-source", source+":queue:Q", source+":rest").OK()
		files = append(files, "rest")
	}
	var all []byte
	for _, name := range files {
		all = append(all, contentOf(t, n, source, name)...)
	}
	if !bytes.Equal(all, contentOf(t, n, source, "in")) {
		t.Error("the messages are not the file")
	}
}

func contentOf(t *testing.T, n *network.Network, agent, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(n.Path(agent, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// put puts the file "late" into the queue.
func put(n *network.Network, flags ...string) {
	n.Ferry(append([]string{"queue", "put", "Q", n.Path(source, "late")}, flags...)...).OK()
}

// killTaking kills the source while it sends all messages and takes them out. Messages that arrive meanwhile stay.
func killTaking(t *testing.T, n *network.Network, _ *rand.Rand) {
	n.File(dest, "start", 5, wholeFile)
	n.File(source, "late", 6, 1000)
	n.Ferry("send", "--split-size", "1000", dest+":start", dest+":queue:Q").OK()
	s := n.SendAsync("--delete-source", source+":queue:Q", dest+":back")
	n.Gone(source)
	put(n)
	put(n)
	again(n, source)
	s.Wait().Ends("successful", 0)
	if got := depth(t, n); got != 2 {
		t.Fatalf("%d messages are in the queue, not 2", got)
	}
	if !bytes.Equal(contentOf(t, n, dest, "start"), contentOf(t, n, dest, "back")) {
		t.Error("the file is not the messages that were there")
	}
}

// killTakingAGroup kills the source while it takes the first complete group. After that, another group is complete and
// first; it must stay.
func killTakingAGroup(t *testing.T, n *network.Network, _ *rand.Rand) {
	n.File(source, "late", 6, 20_000)
	put(n, "--group", "early")
	put(n, "--group", "first")
	put(n, "--group", "first", "--last")
	s := n.SendAsync("--delete-source", "--group", "*", source+":queue:Q", dest+":back")
	n.Gone(source)
	put(n, "--group", "early", "--last")
	again(n, source)
	s.Wait().Ends("successful", 0)
	if got := depth(t, n); got != 2 {
		t.Fatalf("%d messages are in the queue, not 2", got)
	}
	n.Send("--delete-source", "--group", "early", source+":queue:Q", dest+":early").Ends("successful", 0)
}

// killKeeping kills the queue manager while messages are stored.
func killKeeping(t *testing.T, n *network.Network, r *rand.Rand) {
	for k := range 3 {
		s := n.SendAsync("--split-size", "80", source+":in", dest+":queue:Q")
		moment(r, 300*time.Millisecond)
		n.Kill(network.QM)
		n.Start(network.QM)
		s.Wait().Ends("successful", 0)
		if got := depth(t, n); got != pieces*(k+1) {
			t.Fatalf("%d messages are in the queue after %d transfers", got, k+1)
		}
	}
}
