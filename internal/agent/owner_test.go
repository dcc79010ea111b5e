package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/server"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A stage is a queue manager, and a connection of the test's own.
type stage struct {
	*testing.T
	ctx    context.Context
	server *server.Server
	conn   *qmgr.Conn
}

func newStage(t *testing.T) *stage {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	s := &stage{T: t, ctx: ctx}
	var err error
	if s.server, err = server.Start(ctx, server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.server.Shutdown)
	s.conn = s.connect("test")
	return s
}

func (s *stage) connect(name string) *qmgr.Conn {
	s.Helper()
	c, err := qmgr.Connect(s.ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: s.server.URL(), Name: name, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.Close)
	return c
}

// start brings ALPHA up on a state directory and returns its log.
func (s *stage) start(dir string) (*agent.Agent, *text, error) {
	s.Helper()
	said := &text{}
	a, err := agent.Start(s.ctx, agent.Config{Name: "ALPHA", Dir: dir, Roots: []string{s.TempDir()}, Log: slog.New(slog.NewTextHandler(said, nil)),
		Direct: agent.Direct{Mode: agent.DirectOff}}, s.connect("ALPHA"))
	if err == nil {
		s.Cleanup(a.Stop)
	}
	return a, said, err
}

// put makes another instance the holder of ALPHA's name.
func (s *stage) put(instance string) {
	s.Helper()
	data, err := json.Marshal(map[string]any{"v": 1, "instance": instance, "host": "elsewhere", "dir": "/var/lib/ferry", "since": time.Now()})
	if err != nil {
		s.Fatal(err)
	}
	for {
		_, revision, err := s.conn.Owner(s.ctx, "ALPHA")
		if err == nil {
			_, err = s.conn.SetOwner(s.ctx, "ALPHA", data, revision)
		}
		if err == nil {
			return
		}
		if transfer.KindOf(err) != transfer.KindConflict {
			s.Fatal(err)
		}
	}
}

// holder returns the instance that has ALPHA's name.
func (s *stage) holder() string {
	s.Helper()
	data, _, err := s.conn.Owner(s.ctx, "ALPHA")
	if err != nil {
		s.Fatal(err)
	}
	var h struct{ Instance string }
	if len(data) > 0 && json.Unmarshal(data, &h) != nil {
		s.Fatalf("the owner is %q", data)
	}
	return h.Instance
}

// answers lets another instance of ALPHA say that it lives.
func (s *stage) answers(instance string) {
	s.Helper()
	stop, err := s.conn.Subscribe(wire.InstanceSubject("ALPHA", instance), func(m qmgr.Message) {
		s.conn.Publish(m.Reply, wire.Marshal(wire.Answer{V: wire.Version}))
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(stop)
}

// beat publishes a heartbeat of another instance of ALPHA.
func (s *stage) beat(instance string) {
	s.Helper()
	b := &wire.Beat{V: wire.Version, Kind: wire.BeatKind, Agent: "ALPHA", Instance: instance, Status: wire.AgentReady}
	if err := s.conn.Publish(wire.BeatSubject("ALPHA"), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.BeatKind, Beat: b})); err != nil {
		s.Fatal(err)
	}
}

// An agent that hears another instance of its name stops where that one has the name and lives. Where it does not live,
// the agent takes its name back.
func TestAnotherInstanceIsHeard(t *testing.T) {
	s := newStage(t)
	a, _, err := s.start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	mine := s.holder()
	s.beat("0000")
	s.put("0000")
	s.beat("0000")
	for s.holder() != mine { // 0000 does not answer
		select {
		case err := <-a.Displaced():
			t.Fatalf("the name is lost, and no instance has it: %v", err)
		case <-s.ctx.Done():
			t.Fatal("the name is not taken back")
		default:
		}
	}
	s.answers("1111")
	s.put("1111")
	s.beat("1111")
	select {
	case err := <-a.Displaced():
		if transfer.KindOf(err) != transfer.KindAlive || !strings.Contains(err.Error(), "agent ALPHA is already running on elsewhere since ") ||
			!strings.Contains(err.Error(), "1111") || !strings.Contains(err.Error(), mine) {
			t.Errorf("the reason is %v", err)
		}
	case <-s.ctx.Done():
		t.Fatal("the agent goes on beside another one")
	}
	a.Stop()
	if s.holder() != "1111" {
		t.Error("an agent that has lost its name has let go of it for the other")
	}
}

// An entry in the bucket of owners stops no agent for good.
func TestWhoCanHaveAName(t *testing.T) {
	for name, c := range map[string]struct {
		before func(s *stage, dir string)
		waits  bool
	}{
		"no instance":                {func(*stage, string) {}, false},
		"its own last run":           {func(s *stage, dir string) { s.killed(dir) }, false},
		"one that has stopped":       {func(s *stage, _ string) { s.stopped() }, false},
		"one elsewhere that is away": {func(s *stage, _ string) { s.put("0000") }, true},
		"an unreadable entry":        {func(s *stage, _ string) { s.nonsense() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newStage(t), t.TempDir()
			c.before(s, dir)
			_, said, err := s.start(dir)
			if err != nil {
				t.Fatal(err)
			}
			if waits := strings.Contains(said.String(), "waiting for it"); waits != c.waits {
				t.Errorf("it has waited: %v\n%s", waits, said)
			}
		})
	}
}

// A name is released by the instance that has it, at any revision of the entry that it knew last, and by no other.
func TestANameIsLetGoOf(t *testing.T) {
	s := newStage(t)
	a, _, err := s.start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.put(s.holder()) // as the agent itself does when it is stopped before the answer comes
	a.Stop()
	if h := s.holder(); h != "" {
		t.Errorf("the name is still that of %s", h)
	}
	if a, _, err = s.start(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	s.answers("1234") // otherwise the agent, which still checks the holder of its name, takes it back
	s.put("1234")
	a.Stop()
	if h := s.holder(); h != "1234" {
		t.Errorf("the name of 1234 is that of %q", h)
	}
}

// killed leaves the entry of a run that could not release the name.
func (s *stage) killed(dir string) {
	s.Helper()
	a, _, err := s.start(dir)
	if err != nil {
		s.Fatal(err)
	}
	data, _, err := s.conn.Owner(s.ctx, "ALPHA")
	if err != nil {
		s.Fatal(err)
	}
	a.Stop()
	s.write(data)
}

func (s *stage) stopped() {
	s.Helper()
	a, _, err := s.start(s.TempDir())
	if err != nil {
		s.Fatal(err)
	}
	a.Stop()
}

func (s *stage) nonsense() { s.write([]byte("{{{")) }

func (s *stage) write(data []byte) {
	s.Helper()
	_, revision, err := s.conn.Owner(s.ctx, "ALPHA")
	if err == nil {
		_, err = s.conn.SetOwner(s.ctx, "ALPHA", data, revision)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// A text is written by several goroutines.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *text) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(b)
}

func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// rival publishes a heartbeat of another instance of ALPHA at another queue manager. The instance answers that it has
// run since a time.
func (s *stage) rival(instance string, since time.Time) {
	s.Helper()
	b := &wire.Beat{V: wire.Version, Kind: wire.BeatKind, Agent: "ALPHA", Instance: instance, Status: wire.AgentReady, Host: "elsewhere", Started: since, Manager: "OTHER"}
	stop, err := s.conn.Subscribe(wire.InstanceSubject("ALPHA", instance), func(m qmgr.Message) {
		s.conn.Publish(m.Reply, wire.Marshal(wire.Answer{V: wire.Version, Beat: b}))
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(stop)
	if err := s.conn.Publish(wire.BeatSubject("ALPHA"), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.BeatKind, Beat: b})); err != nil {
		s.Fatal(err)
	}
}

// Two queue managers that a channel joins each have an owner of the name. The instance that has run longer stays, and
// the other one reports it.
func TestAnInstanceAtAnotherQueueManager(t *testing.T) {
	s := newStage(t)
	a, said, err := s.start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &wire.Beat{V: wire.Version, Kind: wire.BeatKind, Agent: "ALPHA", Instance: "2222", Status: wire.AgentReady, Manager: "OTHER"}
	if err := s.conn.Publish(wire.BeatSubject("ALPHA"), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.BeatKind, Beat: b})); err != nil { // it does not answer
		t.Fatal(err)
	}
	s.rival("3333", time.Now().Add(time.Hour))
	s.rival("1111", time.Now().Add(-time.Hour))
	select {
	case err := <-a.Displaced():
		if transfer.KindOf(err) != transfer.KindAlive || !strings.Contains(err.Error(), "agent ALPHA is already running on elsewhere since ") || !strings.Contains(err.Error(), "1111") {
			t.Errorf("the reason is %v", err)
		}
	case <-s.ctx.Done():
		t.Fatalf("the agent goes on beside another one\n%s", said)
	}
}

// Of two agents that start at the same instant at both ends of a channel one ends.
func TestAgentsOfOneNameAtBothEndsOfAChannel(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	log := slog.New(slog.DiscardHandler)
	manager := func(name string, to ...channel.Channel) *server.Server {
		server, err := server.Start(ctx, server.Config{Name: name, Dir: t.TempDir(), Listen: "127.0.0.1:0", ChannelListen: "127.0.0.1:0", Channels: to, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		return server
	}
	one := manager("ONE")
	two := manager("TWO", channel.Channel{Name: "ONE", URL: "nats://" + one.Channels().Addr()})
	type started struct {
		a   *agent.Agent
		err error
	}
	came := make(chan started, 2)
	for _, server := range []*server.Server{one, two} {
		conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: server.URL(), Name: "ALPHA", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		cfg := agent.Config{Name: "ALPHA", Dir: t.TempDir(), Roots: []string{t.TempDir()}, Log: log, Direct: agent.Direct{Mode: agent.DirectOff}}
		go func() {
			a, err := agent.Start(ctx, cfg, conn)
			came <- started{a, err}
		}()
	}
	var live []*agent.Agent
	for range 2 {
		s := <-came
		if s.err == nil {
			live = append(live, s.a)
			t.Cleanup(s.a.Stop)
		} else if transfer.KindOf(s.err) != transfer.KindAlive {
			t.Fatal(s.err)
		}
	}
	if len(live) == 0 {
		t.Fatal("no agent of the name has started")
	}
	if len(live) == 1 {
		return // the question to the name has reached the first one
	}
	select {
	case err := <-live[0].Displaced():
		live = live[1:]
		if transfer.KindOf(err) != transfer.KindAlive {
			t.Errorf("the reason is %v", err)
		}
	case err := <-live[1].Displaced():
		live = live[:1]
		if transfer.KindOf(err) != transfer.KindAlive {
			t.Errorf("the reason is %v", err)
		}
	case <-ctx.Done():
		t.Fatal("both agents go on")
	}
	select {
	case err := <-live[0].Displaced():
		t.Errorf("the second agent has ended, too: %v", err)
	default:
	}
}
