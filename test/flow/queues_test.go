//go:build linux

package flow_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/test/flow/network"
)

const (
	perFile    = 2*mib/500 + 1 // messages
	queueAgain = 50 * time.Millisecond
)

// queueOf returns the number of messages of a queue.
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

// TestQueues turns a file into messages of a queue and these into an equal file. A cluster keeps the queue at all of
// its members.
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

// TestQueuesOfACluster kills each member of a cluster while a queue is written, and the leader of the commands while it
// is read. Each file is in the queue once, and the bytes read equal those of the files.
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

	s := n.SendAsync("--limit", "2M", "--delete-source", "--lane", "direct", "ALPHA:queue:Q", "BETA:back")
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

// TestQueuesDoNotGoThroughChannels uses a queue from agents at another queue manager. The agents refuse it with that
// reason.
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

// upAtOne starts agents at one queue manager, because queues do not pass channels.
func upAtOne(t *testing.T, agents ...string) *network.Network {
	t.Helper()
	shape := os.Getenv("SHAPE")
	if shape == network.ShapeChannels {
		shape = network.ShapeHub
	}
	return network.Up(t, network.Setup{Ferry: ferry, Agents: agents, Shape: shape})
}

// TestGetsAtOnce runs several gets at once. Each gets a different message, and a get without a message reports that.
func TestGetsAtOnce(t *testing.T) {
	t.Parallel()
	const messages = 4
	n := upAtOne(t, "ALPHA")
	n.Ferry("queue", "create", "Q").OK()
	n.File("ALPHA", "in", 1, messages*1000)
	n.Send("--split-size", "1000", "ALPHA:in", "ALPHA:queue:Q").Ends("successful", 0)
	want := content(t, n, "ALPHA", "in")
	var gets []*network.Sending
	for range messages + 2 {
		gets = append(gets, n.Async("queue", "get", "Q"))
	}
	given, none := map[string]int{}, 0
	for _, g := range gets {
		if r := g.Wait(); r.Code == 0 {
			given[r.Stdout]++
		} else {
			none++
			t.Log(r.Stderr)
		}
	}
	for k := range messages {
		if got := given[string(want[k*1000:(k+1)*1000])]; got != 1 {
			t.Errorf("message %d was handed out %d times", k+1, got)
		}
	}
	if none != 2 || queueOf(t, n, "Q") != 0 {
		t.Errorf("%d found no message, and %d are left", none, queueOf(t, n, "Q"))
	}
}

// TestGetBesideTransfer checks that a get receives no message that a running transfer takes out of the queue.
func TestGetBesideTransfer(t *testing.T) {
	t.Parallel()
	n := upAtOne(t, "ALPHA", "BETA")
	n.Ferry("queue", "create", "Q").OK()
	n.File("ALPHA", "in", 1, 3000)
	n.Send("--split-size", "1000", "ALPHA:in", "ALPHA:queue:Q").Ends("successful", 0)
	n.Freeze("BETA")
	s := n.SendAsync("--delete-source", "--lane", "queue", "ALPHA:queue:Q", "BETA:out")
	n.UntilEvery("the destination is asked", queueAgain, func() bool { return s.ID() != "" })
	n.Thaw("BETA")
	var got []byte
	for range 2 { // one message stays for the transfer
		r := n.Ferry("queue", "get", "Q")
		if r.Code != 0 {
			break
		}
		got = append(got, r.Stdout...)
	}
	s.Wait().Ends("successful", 0)
	all := append(got, content(t, n, "BETA", "out")...)
	if want := content(t, n, "ALPHA", "in"); !bytes.Equal(all, want) || queueOf(t, n, "Q") != 0 {
		t.Errorf("%d bytes were taken by hand, and %d of %d in all, or others", len(got), len(all), len(want))
	}
}

// TestQueueLostWithItsManager removes the directory of a queue manager. The queue manager is then degraded, and the
// audit log names the lost queue.
func TestQueueLostWithItsManager(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA"}, Shape: network.ShapeHub})
	n.Ferry("queue", "create", "ORDERS").OK()
	n.File("ALPHA", "in", 1, 3000)
	n.Send("--split-size", "1000", "ALPHA:in", "ALPHA:queue:ORDERS").Ends("successful", 0)
	book := filepath.Join(n.State(network.QM), "coordination", "queues.json")
	n.UntilEvery("coordination knows the queue", queueAgain, func() bool {
		data, _ := os.ReadFile(book)
		return strings.Contains(string(data), `"messages":3`)
	})
	n.Stop(network.QM)
	if err := os.RemoveAll(filepath.Join(n.State(network.QM), "qm")); err != nil {
		t.Fatal(err)
	}
	n.Start(network.QM)
	const loss = "the queue ORDERS has gone from the queue manager, with its messages"
	n.UntilEvery("the loss is on record", queueAgain, func() bool {
		return strings.Contains(n.Ferry("audit", "ls", "--json").Stdout, loss)
	})
	n.UntilEvery("the queue manager is degraded", queueAgain, func() bool {
		return strings.Contains(n.Ferry("ready").Stdout, loss)
	})
}
