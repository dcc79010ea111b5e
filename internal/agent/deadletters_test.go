package agent_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/qmgr"
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
	note := func(done string) {
		if got != "" {
			got += " "
		}
		got += done
	}
	d := qmgr.Delivery{Subject: wire.CommandSubject("ALPHA", s.stranger.Self()), Data: data, Attempts: 1, Stored: time.Now().Add(-age),
		Ack:  func() error { note("ack"); return nil },
		Term: func() error { note("term"); return nil },
		Nak:  func(time.Duration) error { note("nak"); return nil },
		Bury: func(context.Context, error, transfer.ID) error { note("bury"); return fails }}
	if control {
		d.Subject = wire.ControlSubject("ALPHA", s.stranger.Self())
		s.agent.Command(d)
	} else {
		s.agent.Deliver(d)
	}
	return got
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
