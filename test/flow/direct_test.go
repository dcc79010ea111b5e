//go:build linux

package flow_test

import (
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ferry/internal/wire"
	"ferry/test/flow/network"
)

func direct(t *testing.T, mode string, flags map[string][]string, agents ...string) *network.Network {
	return network.Up(t, network.Setup{Ferry: ferry, Agents: agents, Direct: mode, Flags: flags})
}

// TestDirectLane carries large and small files by both modes of the direct lane, in both directions, over one
// connection and over several. The lane is shown.
func TestDirectLane(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode  string
		flags []string
	}{{"tls", nil}, {"plain", nil}, {"tls", []string{"--direct-connections", "4"}},
		{"plain", []string{"--direct-connections", "3", "--tcp-quick-ack", "--tcp-send-buffer", "128K", "--tcp-receive-buffer", "128K"}}} {
		t.Run(strings.Join(append([]string{c.mode}, c.flags...), " "), func(t *testing.T) {
			n := direct(t, c.mode, map[string][]string{"ALPHA": c.flags, "BETA": c.flags}, "ALPHA", "BETA")
			n.File("ALPHA", "in/big", 1, 64*mib)
			for k := range 200 {
				n.FileK("ALPHA", "in/small/"+strings.Repeat("d/", k%4)+string(rune('a'+k%26))+strings.Repeat("x", k), 1, uint64(k), int64(k*k))
			}
			for _, s := range []network.Result{
				n.Send("-r", "ALPHA:in", "BETA:out/"),
				n.Send("-r", "--lane", "direct", "BETA:out/in", "ALPHA:back/"),
			} {
				if sum := s.Ends("successful", 0).Summary; sum.Lane != "direct" {
					t.Errorf("it took the %s lane", sum.Lane)
				}
			}
			n.Same("ALPHA", "in", "BETA", "out/in")
			n.Same("ALPHA", "in", "ALPHA", "back/in")
			if sum := n.Send("--lane", "queue", "ALPHA:in/big", "BETA:q/").Ends("successful", 0).Summary; sum.Lane != "queue" {
				t.Errorf("asked for the queue lane, it took the %s lane", sum.Lane)
			}
			n.Sound()
		})
	}
}

// TestDirectLaneIsOffAtOneEnd turns the direct lane off at one agent. Lane auto reports the reason for taking the queue
// lane, and lane direct is refused with the reason.
func TestDirectLaneIsOffAtOneEnd(t *testing.T) {
	t.Parallel()
	n := direct(t, "tls", map[string][]string{"BETA": {"--direct", "off"}, "GAMMA": {"--direct", "plain"}}, "ALPHA", "BETA", "GAMMA")
	n.File("ALPHA", "a", 1, 5000)
	for to, why := range map[string]string{"BETA": "the direct lane is off at BETA", "GAMMA": "the direct lane is tls at ALPHA and plain at GAMMA"} {
		sum := n.Send("ALPHA:a", to+":out/").Ends("successful", 0).Summary
		if sum.Lane != "queue" {
			t.Errorf("to %s it took the %s lane", to, sum.Lane)
		}
		if got := n.Status(sum.ID).LaneReason; got != why {
			t.Errorf("to %s the reason is %q, not %q", to, got, why)
		}
		r := n.Send("--lane", "direct", "ALPHA:a", to+":again/").Ends("failed", 64)
		if !strings.Contains(r.Stderr, why) {
			t.Errorf("asked for the direct lane to %s it says %q", to, r.Stderr)
		}
	}
	if _, err := os.Lstat(n.Path("BETA", "again")); err == nil {
		t.Error("what was refused has left something")
	}
	sum := n.Send("BETA:out/a", "ALPHA:back/").Ends("successful", 0).Summary
	if got := n.Status(sum.ID).LaneReason; got != "the direct lane is off at BETA" {
		t.Errorf("the reason is %q", got)
	}
	n.Sound()
}

// TestDirectLaneLeadsNowhere advertises an address without an answer. Lane auto takes the queue lane and reports that.
// Lane direct waits with the reason, and continues when there is a connection.
func TestDirectLaneLeadsNowhere(t *testing.T) {
	t.Parallel()
	hole := newRelay(t)
	hole.swallow(true)
	n := direct(t, "tls", map[string][]string{"ALPHA": {"--direct-listen", "none"},
		"BETA": {"--direct-listen", hole.target, "--direct-advertise", hole.address}}, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, 5*mib)
	sum := n.Send("ALPHA:a", "BETA:out/").Ends("successful", 0).Summary
	if why := n.Status(sum.ID).LaneReason; sum.Lane != "queue" || !strings.Contains(why, "ALPHA cannot reach BETA at "+hole.address) {
		t.Errorf("it took the %s lane: %q", sum.Lane, why)
	}
	s := n.SendAsync("--lane", "direct", "ALPHA:a", "BETA:direct/")
	p := n.WaitState(s.ID(), "waiting")
	if p.Reason == nil || !strings.Contains(p.Reason.Text, "cannot reach BETA") {
		t.Errorf("it waits: %v", p.Reason)
	}
	hole.swallow(false)
	n.Stop("BETA") // a new run of it is tried at once
	n.Start("BETA")
	if sum := s.Wait().Ends("successful", 0).Summary; sum.Lane != "direct" {
		t.Errorf("it took the %s lane", sum.Lane)
	}
	n.Same("ALPHA", "a", "BETA", "direct/a")
	n.Sound()
}

// TestDirectLaneBreaksInMidFile breaks a connection in the middle of a file. The agents replace it, and the file
// continues. If a connection cannot be made again, the queue lane carries the rest.
func TestDirectLaneBreaksInMidFile(t *testing.T) {
	t.Parallel()
	relay := newRelay(t)
	n := direct(t, "tls", map[string][]string{"ALPHA": {"--direct-listen", "none"},
		"BETA": {"--direct-listen", relay.target, "--direct-advertise", relay.address}}, "ALPHA", "BETA")
	n.File("ALPHA", "big", 1, 144*mib)
	s := n.SendAsync(paced, "ALPHA:big", "BETA:out/")
	n.Growing("BETA", 20*mib)
	relay.cut(true)
	n.Growing("BETA", 60*mib)
	relay.cut(false)
	sum := s.Wait().Ends("successful", 0).Summary
	n.Same("ALPHA", "big", "BETA", "out/big")
	if sum.Resumes < 2 || sum.Lane != "queue" {
		t.Errorf("%d resumes, and the %s lane at the end", sum.Resumes, sum.Lane)
	}
	if sum.BytesResent > 2*maxResent {
		t.Errorf("%d bytes were sent again after two interruptions; %d may be", sum.BytesResent, 2*maxResent)
	}
	once(t, n, sum.ID, 1, "ALPHA", "BETA")
	n.Sound()
}

// A relay forwards connections until they are cut.
type relay struct {
	address, target string

	mu    sync.Mutex
	conns []net.Conn
	again bool
	mute  bool // connections are accepted, and no data are forwarded
}

func newRelay(t *testing.T) *relay {
	in, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { in.Close() })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r := &relay{address: in.Addr().String(), target: free.Addr().String(), again: true}
	must(t, free.Close())
	go func() {
		for {
			c, err := in.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			again, mute := r.again, r.mute
			if mute {
				r.conns = append(r.conns, c)
			}
			r.mu.Unlock()
			if mute {
				continue
			}
			out, err := net.Dial("tcp", r.target)
			if err != nil || !again {
				c.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, c, out)
			r.mu.Unlock()
			go func() { io.Copy(out, c); out.Close() }()
			go func() { io.Copy(c, out); c.Close() }()
		}
	}()
	return r
}

// cut closes all connections; with again new ones may follow.
func (r *relay) cut(again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = again
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// swallow stops or restarts the forwarding of new connections.
func (r *relay) swallow(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mute = on
}

// TestAStoppedReceiverBoundsWhatIsUnderWay stops a receiver during a transfer. At most window x frame chunks stay on
// the queue manager: 50, the figure of the reports.
func TestAStoppedReceiverBoundsWhatIsUnderWay(t *testing.T) {
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Direct: "off"})
	n.File("ALPHA", "big", 1, 200*mib)
	s := n.SendAsync("--limit", "64M", "--chunk-size", "256K", "--window", "10", "--frame", "5", "ALPHA:big", "BETA:out/")
	n.Growing("BETA", 30*mib)
	n.Signal("BETA", syscall.SIGSTOP)
	seen := n.Wire().Samples("ferry.data.BETA.ALPHA.>", 1000)
	n.WaitState(s.ID(), "negotiating", "waiting") // its silence was noticed: no more data are sent
	full := 0
	for _, m := range seen() {
		if len(m) > wire.HeaderSize { // an empty one is a sign of life
			full++
		}
	}
	if full > 50 {
		t.Errorf("%d messages were sent to a receiver that stands still; 50 may be", full)
	}
	n.Signal("BETA", syscall.SIGCONT)
	s.Wait().Ends("successful", 0)
	n.Same("ALPHA", "big", "BETA", "out/big")
	n.Sound()
}
