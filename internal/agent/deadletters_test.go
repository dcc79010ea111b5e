package agent_test

import (
	"context"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A message that is refused for ever becomes a dead letter. A refused request becomes one only if its submitter may not
// hear of the refusal. A message that cannot be kept now comes again, but for an older queue manager, which keeps none.
func TestRefusedMessagesAreDeadLetters(t *testing.T) {
	s := newScene(t)
	inbox := s.stranger.NewInbox("ALPHA")
	bad := request()
	bad.Source = "GAMMA" // another agent's
	submit := func(reply string) []byte {
		return wire.Marshal(wire.Submit{V: wire.Version, Request: bad, Reply: reply})
	}
	unkept := transfer.Errorf(transfer.KindNoManager, "not now")
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
		"malformed, not kept now":          {[]byte("?"), false, 0, unkept, "bury nak"},
		"malformed, by an older manager":   {[]byte("?"), false, 0, transfer.Errorf(transfer.KindDenied, "unknown"), "bury term"},
		"refused at once":                  {submit(inbox), false, 0, nil, "ack"},
		"refused, and no answer is wanted": {submit(""), false, 0, nil, "bury term"},
		"refused after an hour":            {submit(inbox), false, time.Hour, nil, "bury term"},
	} {
		got := ""
		note := func(done string) {
			if got != "" {
				got += " "
			}
			got += done
		}
		d := qmgr.Delivery{Subject: wire.CommandSubject("ALPHA", s.stranger.Self()), Data: c.data, Attempts: 1, Stored: time.Now().Add(-c.age),
			Ack:  func() error { note("ack"); return nil },
			Term: func() error { note("term"); return nil },
			Nak:  func(time.Duration) error { note("nak"); return nil },
			Bury: func(context.Context, error, transfer.ID) error { note("bury"); return c.fails }}
		if c.control {
			d.Subject = wire.ControlSubject("ALPHA", s.stranger.Self())
			s.agent.Command(d)
		} else {
			s.agent.Deliver(d)
		}
		if got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
}
