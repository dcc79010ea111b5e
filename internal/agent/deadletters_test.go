package agent_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/security/policy"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A message that is refused for ever becomes a dead letter. A refused request becomes one only if its submitter may not
// hear of the refusal. An older queue manager keeps none.
func TestRefusedMessagesAreDeadLetters(t *testing.T) {
	s := newScene(t)
	inbox := s.stranger.NewInbox("ALPHA")
	bad := request()
	bad.Source = "GAMMA" // another agent's
	submit := func(reply string) []byte {
		return wire.Marshal(wire.Submit{V: wire.Version, Request: bad, Reply: reply})
	}
	for name, c := range map[string]struct {
		data    []byte
		control bool
		age     time.Duration
		fails   error // when the message is to be kept
		want    string
	}{
		"malformed":                        {[]byte("?"), false, 0, nil, "bury term"},
		"a malformed command":              {[]byte("?"), true, 0, nil, "bury term"},
		"a malformed document":             {[]byte("<request>"), false, 0, nil, "bury term"},
		"malformed, by an older manager":   {[]byte("?"), false, 0, transfer.Errorf(transfer.KindDenied, "unknown"), "bury term"},
		"refused at once":                  {submit(inbox), false, 0, nil, "ack"},
		"refused, and no answer is wanted": {submit(""), false, 0, nil, "bury term"},
		"refused after an hour":            {submit(inbox), false, time.Hour, nil, "bury term"},
	} {
		if got := settled(s, c.data, c.control, c.age, c.fails); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
}

// settled hands the agent a message of an age, and returns how it settles it. fails is the error of a dead letter.
func settled(s *scene, data []byte, control bool, age time.Duration, fails error) (got string) {
	return settledAs(s, delivery{data: data, control: control, age: age, fails: fails})
}

// A delivery is a message for the agent.
type delivery struct {
	data    []byte
	control bool
	age     time.Duration
	resent  bool
	fails   error // of a dead letter
}

// settledAs is settled with all that a delivery has.
func settledAs(s *scene, m delivery) (got string) {
	note := func(done string) {
		if got != "" {
			got += " "
		}
		got += done
	}
	d := qmgr.Delivery{Subject: wire.CommandSubject("ALPHA", s.stranger.Self()), Data: m.data, Attempts: 1, Stored: time.Now().Add(-m.age), Resent: m.resent,
		Ack:  func() error { note("ack"); return nil },
		Term: func() error { note("term"); return nil },
		Nak:  func(time.Duration) error { note("nak"); return nil },
		Bury: func(context.Context, error, transfer.ID) error { note("bury"); return m.fails }}
	if m.control {
		d.Subject = wire.ControlSubject("ALPHA", s.stranger.Self())
		s.agent.Command(d)
	} else {
		s.agent.Deliver(d)
	}
	return got
}

// A request that was a dead letter is taken only if coordination knows of no run: the ledger of an agent that was enrolled
// again knows of none. One that the ledger has is the same transfer again. One that the rules refuse costs no question.
func TestResentRequestRunsOnce(t *testing.T) {
	s := sceneOf(t, agent.Config{})
	says := tellsRuns(s)
	for _, e := range []struct {
		says wire.Ran
		want string
	}{{wire.Ran{}, "ack"}, {wire.Ran{Taken: true}, "bury term"}, {wire.Ran{Withdrawn: true}, "bury term"}} {
		says.answer.Store(&e.says)
		q := request()
		q.ID = transfer.NewID(time.Now())
		d := delivery{data: wire.Marshal(wire.Submit{V: wire.Version, Request: q}), resent: true}
		if got := settledAs(s, d); got != e.want {
			t.Errorf("%+v: %s; want %s", e.says, got, e.want)
		}
		says.answer.Store(&wire.Ran{Taken: true})
		if got := settledAs(s, d); got != e.want {
			t.Errorf("%+v, and a second time: %s; want %s", e.says, got, e.want)
		}
	}
	says.answer.Store(&wire.Ran{Taken: true})
	if got := settledAs(s, delivery{data: []byte(asXML("", "", "a")), resent: true}); got != "bury term" {
		t.Errorf("a document: %s", got)
	}

	rules, err := policy.Parse([]byte(`{"v":1,"rules":[{"name":"ann alone","who":["user:ann"],"may":["source"],"read":["**"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s = sceneOf(t, agent.Config{Sandbox: rules})
	says = tellsRuns(s)
	says.answer.Store(&wire.Ran{})
	if got := settledAs(s, delivery{data: wire.Marshal(wire.Submit{V: wire.Version, Request: request()}), resent: true}); got != "bury term" {
		t.Errorf("a request that the rules refuse: %s", got)
	}
	if n := says.asked.Load(); n != 0 {
		t.Errorf("coordination is asked %d times about a request that the rules refuse", n)
	}
}

// A request that is younger than the ledger cannot have run before, also where the agent has just started. Until the ledger
// is compared with the log of coordination, it may be an older copy, and the agent asks about each request.
func TestResentRequestYoungerThanTheLedger(t *testing.T) {
	for _, c := range []struct {
		made       time.Duration // from the request
		registered *wire.Registered
		want       int64
	}{
		{-2 * time.Hour, &wire.Registered{}, 0},
		{0, &wire.Registered{}, 1},
		{-2 * time.Hour, nil, 1},
	} {
		dir := t.TempDir()
		at := &stoppedClock{Clock: clock.System, began: time.Now().Add(c.made)}
		l, err := ledger.Open(dir, ledger.Options{Reserve: -1, Clock: at})
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		s := sceneWith(t, agent.Config{Dir: dir}, c.registered)
		says := tellsRuns(s)
		says.answer.Store(&wire.Ran{})
		if c.registered != nil {
			s.until("the ledger is compared with the log of coordination", s.agent.Compared)
		}
		if got := settledAs(s, delivery{data: wire.Marshal(wire.Submit{V: wire.Version, Request: request()}), resent: true}); got != "ack" {
			t.Errorf("a ledger that was made at %s, registered: %t: %s", c.made, c.registered != nil, got)
		}
		if n := says.asked.Load(); n != c.want {
			t.Errorf("a ledger that was made at %s, registered: %t: coordination is asked %d times, not %d", c.made, c.registered != nil, n, c.want)
		}
	}
}

// A toldRuns has the answer of coordination about earlier runs.
type toldRuns struct {
	answer atomic.Pointer[wire.Ran]
	asked  atomic.Int64
}

// tellsRuns answers the agent's questions about earlier runs.
func tellsRuns(s *scene) *toldRuns {
	r := &toldRuns{}
	s.hear(wire.AskSubject(wire.Coordination, "ALPHA"), func(m qmgr.Message) {
		if a, err := wire.DecodeAsk(m.Data); err == nil && a.Kind == wire.AskRan {
			r.asked.Add(1)
			_ = s.stranger.Publish(m.Reply, wire.Marshal(wire.Answer{V: wire.Version, Body: wire.Marshal(r.answer.Load())}))
		}
	})
	return r
}

// A stoppedClock stands still, ahead of its beginning.
type stoppedClock struct {
	clock.Clock
	began time.Time
	ahead atomic.Int64
}

func (c *stoppedClock) Now() time.Time { return c.began.Add(time.Duration(c.ahead.Load())) }

// A message that cannot be kept now comes again, and so do those behind it for a while: none of them waits for the queue
// manager.
func TestUnkeptLetterHoldsUpNone(t *testing.T) {
	c := &stoppedClock{Clock: clock.System, began: time.Now()}
	s := sceneOf(t, agent.Config{Clock: c})
	for n, e := range []struct {
		fails error
		want  string
	}{
		{nil, "bury term"},
		{transfer.Errorf(transfer.KindNoManager, "not now"), "bury nak"},
		{nil, "nak"},
		{nil, "nak"},
	} {
		if got := settled(s, []byte("?"), false, 0, e.fails); got != e.want {
			t.Errorf("message %d: %s; want %s", n, got, e.want)
		}
	}
	c.ahead.Store(int64(time.Minute))
	if got := settled(s, []byte("?"), false, 0, nil); got != "bury term" {
		t.Errorf("after the pause: %s", got)
	}
}

// The age of a request is by the queue manager's clock. An agent with a clock that is ahead keeps no letter of a request if its
// submitter waits.
func TestUnheardByTheClockOfTheQueueManager(t *testing.T) {
	c := &stoppedClock{Clock: clock.System, began: time.Now()}
	s := sceneOf(t, agent.Config{Clock: c})
	bad := request()
	bad.Source = "GAMMA" // another agent's
	c.ahead.Store(int64(time.Hour))
	if got := settled(s, wire.Marshal(wire.Submit{V: wire.Version, Request: bad, Reply: s.stranger.NewInbox("ALPHA")}), false, 0, nil); got != "ack" {
		t.Errorf("the request is settled by %s", got)
	}
}
