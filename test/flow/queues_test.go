//go:build linux

package flow_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ferry/test/flow/network"
)

const (
	perFile    = 2*mib/500 + 1 // messages
	queueAgain = 50 * time.Millisecond
)

// queueOf is how many messages a queue has.
func queueOf(t *testing.T, n *network.Network, name string) int {
	t.Helper()
	var v struct {
		Messages int `json:"messages"`
	}
	if err := json.Unmarshal([]byte(n.Ferry("queue", "show", name, "--json").OK().Stdout), &v); err != nil {
		t.Fatal(err)
	}
	return v.Messages
}

func content(t *testing.T, n *network.Network, agent, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(n.Path(agent, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A file becomes messages of a queue, and these a file again, which is the same; a cluster keeps the queue at
// all of its members.
func TestQueues(t *testing.T) {
	t.Parallel()
	n := upAtOne(t, "ALPHA", "BETA")
	replicas := "1"
	if n.Clustered() {
		replicas = "3"
	}
	n.Ferry("queue", "create", "Q", "--replicas", replicas).OK()
	n.File("ALPHA", "in", 1, 3*mib)
	n.Send("--split-size", "1000", "ALPHA:in", "BETA:queue:Q").Ends("successful", 0)
	if got, want := queueOf(t, n, "Q"), 3*mib/1000+1; got != want {
		t.Errorf("there are %d messages, not %d", got, want)
	}
	n.Send("--delete-source", "BETA:queue:Q", "ALPHA:back").Ends("successful", 0)
	if got, want := content(t, n, "ALPHA", "back"), content(t, n, "ALPHA", "in"); !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes are back, or others", len(got), len(want))
	}
	if got := queueOf(t, n, "Q"); got != 0 {
		t.Errorf("%d messages are left", got)
	}
}

// A queue of a cluster outlives the loss of any member, while it is written and while it is read: each file
// is in it once, and is there again when all is read.
func TestQueuesOfACluster(t *testing.T) {
	t.Parallel()
	n := trio(t, "tls", "ALPHA", "BETA")
	n.Ferry("queue", "create", "Q", "--replicas", "3").OK()
	var want []byte
	for k := range 3 {
		name := fmt.Sprintf("in%d", k)
		n.File("ALPHA", name, uint64(k+1), 2*mib)
		want = append(want, content(t, n, "ALPHA", name)...)
	}
	for k, victim := range n.Members() {
		s := n.SendAsync("--split-size", "500", fmt.Sprintf("ALPHA:in%d", k), "BETA:queue:Q")
		n.UntilEvery("messages are stored", queueAgain, func() bool {
			r := n.Ferry("queue", "show", "Q", "--json")
			return r.Code == 0 && !strings.Contains(r.Stdout, fmt.Sprintf(`"messages":%d,`, k*perFile))
		})
		n.Kill(victim)
		s.Wait().Ends("successful", 0)
		n.Start(victim)
		n.Whole()
		if got := queueOf(t, n, "Q"); got != (k+1)*perFile {
			t.Fatalf("after the loss of %s there are %d messages, not %d", victim, got, (k+1)*perFile)
		}
	}

	s := n.SendAsync("--delete-source", "--lane", "direct", "ALPHA:queue:Q", "BETA:back")
	n.Growing("BETA", mib)
	victim := n.Leads("FERRY_COMMAND")
	n.Kill(victim)
	s.Wait().Ends("successful", 0)
	n.Start(victim)
	n.Whole()
	if got := content(t, n, "BETA", "back"); !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes are back, or others", len(got), len(want))
	}
	if got := queueOf(t, n, "Q"); got != 0 {
		t.Errorf("%d messages are left", got)
	}
	n.Sound()
}

// Queues do not go through channels: who is at another queue manager is told so.
func TestQueuesDoNotGoThroughChannels(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Shape: network.ShapeChannels})
	n.Ferry("queue", "create", "Q").OK()
	n.File("ALPHA", "in", 1, 1000)
	for _, args := range [][]string{{"ALPHA:in", "BETA:queue:Q"}, {"BETA:queue:Q", "ALPHA:out"}} {
		r := n.Send(args...)
		r.Ends("failed", 40)
		if want := "there is no queue Q at the queue manager " + n.ManagerOf("BETA") + "; queues do not go through channels"; !strings.Contains(r.Stderr, want) {
			t.Errorf("%q: %s", args, r.Stderr)
		}
	}
	if got := queueOf(t, n, "Q"); got != 0 {
		t.Errorf("there are %d messages", got)
	}
}

// upAtOne starts agents that are all at one queue manager, whose queues they use: queues do not pass channels.
func upAtOne(t *testing.T, agents ...string) *network.Network {
	t.Helper()
	shape := os.Getenv("SHAPE")
	if shape == network.ShapeChannels {
		shape = network.ShapeHub
	}
	return network.Up(t, network.Setup{Ferry: ferry, Agents: agents, Shape: shape})
}
