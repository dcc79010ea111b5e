package agent_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A minutes is the host's clock. The test fires its timers of a minute, and sets its time a minute forward then.
type minutes struct {
	clock.Clock
	ahead atomic.Int64 // of the host's clock, in nanoseconds
	fire  chan time.Time
	reset chan struct{} // one for each timer of a minute that is set again
}

func newMinutes() *minutes {
	return &minutes{Clock: clock.System, fire: make(chan time.Time), reset: make(chan struct{}, 100)}
}

func (m *minutes) Now() time.Time { return m.Clock.Now().Add(time.Duration(m.ahead.Load())) }

func (m *minutes) NewTimer(d time.Duration) clock.Timer {
	if d != time.Minute {
		return m.Clock.NewTimer(d)
	}
	return minuteTimer{m}
}

type minuteTimer struct{ m *minutes }

func (t minuteTimer) C() <-chan time.Time { return t.m.fire }
func (t minuteTimer) Stop() bool          { return true }
func (t minuteTimer) Reset(time.Duration) bool {
	t.m.reset <- struct{}{}
	return true
}

// pass lets a minute pass, and returns when the agent has done the work of it.
func (m *minutes) pass(s *stage) {
	s.Helper()
	m.ahead.Add(int64(time.Minute))
	for _, wait := range []func() bool{
		func() bool {
			select {
			case m.fire <- time.Now():
				return true
			case <-s.ctx.Done():
				return false
			}
		},
		func() bool {
			select {
			case <-m.reset:
				return true
			case <-s.ctx.Done():
				return false
			}
		},
	} {
		if !wait() {
			s.Fatal("no timer of a minute is waited for")
		}
	}
}

// coordinate answers registrations with the number of the last audit record, and counts them. It answers none
// where last is below 0.
func (s *stage) coordinate(last int64) *atomic.Int64 {
	s.Helper()
	var asked atomic.Int64
	stop, err := s.conn.Subscribe(wire.AllAsks(wire.Coordination), func(m qmgr.Message) {
		if ask, err := wire.DecodeAsk(m.Data); err != nil || ask.Kind != wire.AskRegister {
			return // such as the definitions of duties
		}
		asked.Add(1)
		if last >= 0 {
			s.conn.Publish(m.Reply, wire.Marshal(wire.Answer{V: wire.Version, Body: wire.Marshal(wire.Registered{Last: uint64(last)})}))
		}
	})
	if err == nil {
		err = s.conn.Healthy(s.ctx) // now the queue manager knows
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(stop)
	return &asked
}

// startAt brings ALPHA up on a state directory, a clock and a network with or without coordination.
func (s *stage) startAt(dir string, m *minutes, alone bool) *agent.Agent {
	s.Helper()
	a, err := agent.Start(s.ctx, agent.Config{Name: "ALPHA", Dir: dir, Roots: []string{s.TempDir()}, Log: slog.New(slog.DiscardHandler),
		Clock: m, Alone: alone, Direct: agent.Direct{Mode: agent.DirectOff}}, s.connect("ALPHA"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(a.Stop)
	return a
}

// TestCoordinationIsAskedUntilItAnswers: an agent asks coordination again until it answers once. Without
// coordination on the network the agent has nothing to compare, and never asks.
func TestCoordinationIsAskedUntilItAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		alone bool
		last  int64
		want  int64 // questions in three minutes
	}{
		"answers at the start": {false, 0, 1},
		"alone":                {true, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, m := newStage(t), newMinutes()
			asked := s.coordinate(c.last)
			a := s.startAt(t.TempDir(), m, c.alone)
			for range 3 {
				m.pass(s)
			}
			if n := asked.Load(); n != c.want {
				t.Errorf("coordination was asked %d times, want %d", n, c.want)
			}
			if !a.Compared() {
				t.Error("the agent waits for coordination")
			}
		})
	}
}

// TestAnOlderLedgerIsNoticedLater: the owner's record of the name is lost and coordination is away when an agent starts on
// an older copy of its ledger. The agent is DEGRADED from the first answer of coordination on. Its ledger has another
// mark then, which the queue manager gets, and until then the agent has not compared its ledger.
func TestAnOlderLedgerIsNoticedLater(t *testing.T) {
	first, dir, older := newStage(t), t.TempDir(), t.TempDir()
	cancel := func(s *stage) { // which has an audit record
		t.Helper()
		net := &client.Client{Conn: s.connect("ann"), Clock: clock.System, Who: transfer.Originator{User: "ann", Host: "box"}}
		if _, err := net.Cancel(s.ctx, client.Transfer{Source: "ALPHA", ID: transfer.NewID(time.Now())}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 2 {
		a, _, err := first.start(dir)
		if err != nil {
			t.Fatal(err)
		}
		cancel(first)
		a.Stop()
		if n == 0 {
			if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	had := numbered(t, dir)

	s, m := newStage(t), newMinutes() // its queue manager has no owner of the name
	a := s.startAt(older, m, false)
	before, err := a.Mark()
	if err != nil {
		t.Fatal(err)
	}
	state := func() (status, reason string) {
		t.Helper()
		b, _, err := (&client.Client{Conn: s.conn, Clock: clock.System}).Ping(s.ctx, "ALPHA")
		if err != nil {
			t.Fatal(err)
		}
		return b.Status, b.Reason
	}
	m.pass(s)
	if is, why := state(); is == wire.AgentDegraded || a.Compared() {
		t.Errorf("without coordination the agent is %s: %s; it has compared its ledger: %t", is, why, a.Compared())
	}

	s.coordinate(int64(had))
	m.pass(s)
	for !a.Compared() {
		if _, _, err := s.conn.Owner(s.ctx, "ALPHA"); err != nil { // which has no answer once the time of the test is over
			t.Fatal(err)
		}
	}
	after, err := a.Mark()
	if err != nil {
		t.Fatal(err)
	}
	if is, why := state(); is != wire.AgentDegraded || !strings.Contains(why, "coordination has") || !a.Compared() || after == before {
		t.Errorf("the agent is %s: %s; it has compared its ledger: %t; the mark was %s and is %s", is, why, a.Compared(), before, after)
	}
	for {
		data, _, err := s.conn.Owner(s.ctx, "ALPHA")
		if err != nil {
			t.Fatalf("the queue manager does not get the mark %s: %v", after, err)
		}
		var h struct{ Mark string }
		if json.Unmarshal(data, &h) == nil && h.Mark == after {
			break
		}
	}
}
