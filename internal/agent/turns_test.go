package agent

import (
	"bytes"
	"fmt"
	"testing"

	"ferry/internal/qmgr"
)

// The messages of one speaker wait for one message of each other speaker, however many these have said.
func TestSpeakersTakeTurns(t *testing.T) {
	w := newTurns()
	say := func(from string, n int) bool {
		return w.add(qmgr.Message{Subject: "ferry.reply.BETA." + from, Data: fmt.Append(bytes.Repeat([]byte("x"), 2000), n)})
	}
	flood := 0
	for say("DELTA", flood) {
		flood++
	}
	if flood < 2048 {
		t.Errorf("DELTA has room for %d messages", flood)
	}
	for n := range 100 {
		if !say("BETA", n) {
			t.Fatalf("message %d of BETA has no room behind those of DELTA", n)
		}
	}
	for n := range 100 {
		for _, from := range []string{"DELTA", "BETA"} {
			m, ok := w.take()
			if !ok || m.Subject != "ferry.reply.BETA."+from || !bytes.HasSuffix(m.Data, fmt.Appendf(nil, "x%d", n)) {
				t.Fatalf("message %d is that of %s, and ends with %q", n, m.Subject, m.Data[max(0, len(m.Data)-5):])
			}
		}
	}
	for n := 100; n < flood; n++ {
		if _, ok := w.take(); !ok {
			t.Fatalf("%d messages of DELTA are lost", flood-n)
		}
	}
	if _, ok := w.take(); ok || w.held != 0 || len(w.of) != 0 {
		t.Errorf("an empty queue holds %d bytes of %d speakers", w.held, len(w.of))
	}
}

// Speakers that all say as much as they can leave room for another one.
func TestManySpeakersLeaveRoom(t *testing.T) {
	w := newTurns()
	data := make([]byte, 64<<10)
	for n := range 20 {
		for w.add(qmgr.Message{Subject: fmt.Sprint("ferry.reply.BETA.EVE", n), Data: data}) {
		}
	}
	if w.held > turnsRoom {
		t.Errorf("%d bytes wait", w.held)
	}
	for n := range 8 {
		if !w.add(qmgr.Message{Subject: "ferry.reply.BETA.BETA", Data: data}) {
			t.Fatalf("message %d of BETA has no room", n)
		}
	}
}
