package protocol_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"ferry/internal/agent"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// twinsFor is the maximum time of two agents of one name beside each other.
const twinsFor = 5 * time.Second

// TestOneOfTwoAgentsEndsInTime starts two agents of one name at the same instant. One ends within 5 s: at one queue
// manager, at one queue manager with a record of the name by an instance that is gone, and at both ends of a channel.
// The time is virtual and passes only while both agents wait. So it depends on the periods and on the order of the
// steps, not on the host. Once a channel passes messages, an agent that has just started is heard within a second.
func TestOneOfTwoAgentsEndsInTime(t *testing.T) {
	for name, c := range map[string]struct {
		managers []string
		held     bool          // an instance elsewhere has the name, and is away
		opens    time.Duration // when the channel passes messages
		within   time.Duration
	}{
		"at one queue manager":                                   {managers: []string{"ONE", "ONE"}, within: twinsFor},
		"with a holder that is away":                             {managers: []string{"ONE", "ONE"}, held: true, within: twinsFor},
		"at both ends of a channel":                              {managers: []string{"ONE", "TWO"}, within: twinsFor},
		"at both ends of a channel that passes nothing at first": {managers: []string{"ONE", "TWO"}, opens: 2500 * time.Millisecond, within: 3500 * time.Millisecond},
		"at both ends of a channel that opens late":              {managers: []string{"ONE", "TWO"}, opens: 3900 * time.Millisecond, within: twinsFor},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(bubbleOf) == "" {
				inBubbleAlone(t)
				return
			}
			ats.Register()
			synctest.Test(t, func(t *testing.T) {
				n := &twins{T: t, conns: map[string]*qmgr.Conn{}, servers: map[string]*server.Server{}}
				for _, m := range c.managers {
					n.manager(m)
				}
				if c.held {
					n.put("ONE", "0000")
				}
				if len(n.servers) > 1 {
					opens := time.NewTimer(c.opens)
					n.relay("ONE", "TWO", opens.C)
				}
				began := time.Now()
				ended := make(chan error, len(c.managers))
				for _, m := range c.managers {
					n.run(m, ended)
				}
				select {
				case err := <-ended:
					if transfer.KindOf(err) != transfer.KindAlive {
						t.Errorf("an agent has ended with %v", err)
					}
					if took := time.Since(began); took > c.within {
						t.Errorf("both agents have run for %s; want %s at most", took, c.within)
					}
				case <-time.After(time.Minute):
					t.Error("both agents run")
				}
				synctest.Wait()
				if len(ended) > 0 {
					t.Errorf("the other agent has ended, too: %v", <-ended)
				}
			})
		})
	}
}

// bubbleOf is set in a process that runs one case of the test.
const bubbleOf = "FERRY_TEST_BUBBLE"

// inBubbleAlone runs the case in a process of its own. All connections of a process share the timers of the NATS
// library, and all its servers share a clock. Those of a bubble must not be mixed with others. The clock starts outside
// the bubble.
func inBubbleAlone(t *testing.T) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^")+"$")
	c.Env = append(os.Environ(), bubbleOf+"=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A twins is agents of one name at queue managers in this process, in a bubble.
type twins struct {
	*testing.T
	servers map[string]*server.Server
	conns   map[string]*qmgr.Conn // of the test
}

func (n *twins) manager(name string) {
	n.Helper()
	if n.servers[name] != nil {
		return
	}
	server, err := server.Start(n.Context(), server.Config{Name: name, Dir: n.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(server.Shutdown)
	n.servers[name], n.conns[name] = server, n.connect(server, "ALPHA") // instances answer each other alone
}

func (n *twins) connect(server *server.Server, name string) *qmgr.Conn {
	n.Helper()
	c, err := qmgr.Connect(n.Context(), qmgr.ConnConfig{Server: server, Name: name, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(c.Close)
	return c
}

// put makes an instance on another host the holder of the name.
func (n *twins) put(manager, instance string) {
	n.Helper()
	data, err := json.Marshal(map[string]any{"v": 1, "instance": instance, "host": "elsewhere", "dir": "/var/lib/ferry", "since": time.Now()})
	if err == nil {
		_, err = n.conns[manager].SetOwner(n.Context(), "ALPHA", data, 0)
	}
	if err != nil {
		n.Fatal(err)
	}
}

// run runs ALPHA at a queue manager, and sends the reason of its end.
func (n *twins) run(manager string, ended chan<- error) {
	n.Helper()
	conn := n.connect(n.servers[manager], "ALPHA")
	cfg := agent.Config{Name: "ALPHA", Dir: n.TempDir(), Roots: []string{n.TempDir()}, Log: slog.New(slog.DiscardHandler), Direct: agent.Direct{Mode: agent.DirectOff}}
	ctx, cancel := context.WithCancel(n.Context())
	done := make(chan struct{})
	n.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		a, err := agent.Start(ctx, cfg, conn)
		if err != nil {
			ended <- err
			return
		}
		defer a.Stop()
		select {
		case err := <-a.Displaced():
			ended <- err
		case <-ctx.Done():
		}
	}()
}

// relay passes heartbeats of ALPHA, and questions to the instances that it has passed, between two queue managers. A
// channel does so once the interest in them has passed it.
func (n *twins) relay(one, two string, opens <-chan time.Time) {
	n.Helper()
	open := make(chan struct{})
	go func() {
		select {
		case <-opens:
			close(open)
		case <-n.Context().Done():
		}
	}()
	for from, to := range map[string]string{one: two, two: one} {
		passed := map[string]bool{}
		n.subscribe(from, wire.BeatSubject("ALPHA"), func(m qmgr.Message) {
			select {
			case <-open:
			default:
				return
			}
			r, err := wire.DecodeReport(m.Data)
			if err != nil || r.Beat == nil || r.Beat.Manager != from {
				return // it came by the relay
			}
			if !passed[r.Beat.Instance] {
				passed[r.Beat.Instance] = true
				n.subscribe(to, wire.InstanceSubject("ALPHA", r.Beat.Instance), func(q qmgr.Message) {
					go func() {
						if data, err := n.conns[from].Request(n.Context(), q.Subject, q.Data, time.Second); err == nil {
							n.conns[to].Publish(q.Reply, data)
						}
					}()
				})
			}
			n.conns[to].Publish(wire.BeatSubject("ALPHA"), m.Data)
		})
	}
}

func (n *twins) subscribe(manager, subject string, hear func(qmgr.Message)) {
	stop, err := n.conns[manager].Subscribe(subject, hear)
	if err != nil {
		n.Error(err)
		return
	}
	n.Cleanup(stop)
}
