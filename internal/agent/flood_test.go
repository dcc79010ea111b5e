package agent_test

import (
	"fmt"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A control message of one agent waits for one of another agent at most, and not for all earlier messages of the other
// one.
func TestAFloodOfRepliesDelaysNoOther(t *testing.T) {
	s := newScene(t)
	answered := make(chan string, 1000)
	s.hear("ferry.reply.*.ALPHA", func(m qmgr.Message) { answered <- m.Subject })
	open := func(from transfer.AgentName) { // of another version: it is refused
		s.say(wire.ReplySubject("ALPHA", from), fmt.Appendf(nil, `{"v":99,"kind":"open","from":"%s","transfer":"%s","body":{"nonce":1}}`, from, transfer.NewID(time.Now())))
	}
	open("BETA")
	for subject := ""; subject != wire.ReplySubject("BETA", "ALPHA"); subject = <-answered {
	}
	const flood = 200
	release := s.agent.Hold()
	for range flood {
		open("DELTA")
	}
	open("BETA")
	late := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for waits := true; waits && s.agent.Waiting() < flood; { // the first one is taken
		select {
		case <-tick.C:
		case <-late:
			t.Errorf("%d of %d messages wait for the turn of their speaker", s.agent.Waiting(), flood)
			waits = false
		}
	}
	release()
	for n := 0; <-answered != wire.ReplySubject("BETA", "ALPHA"); n++ {
		if n > 2 {
			t.Fatal("a message of BETA waits for those of DELTA")
		}
	}
}
