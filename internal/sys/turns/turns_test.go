package turns

import (
	"fmt"
	"testing"
)

type said struct {
	from string
	n    int
}

// The messages of one speaker wait for one message of each other speaker, however many these have said.
func TestSpeakersTakeTurns(t *testing.T) {
	q := New[said]()
	say := func(from string, n int) bool { return q.Add(from, 2000, said{from, n}) }
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
			if m, ok := q.Take(); !ok || m != (said{from, n}) {
				t.Fatalf("message %d of %s is %+v", n, from, m)
			}
		}
	}
	for n := 100; n < flood; n++ {
		if _, ok := q.Take(); !ok {
			t.Fatalf("%d messages of DELTA are lost", flood-n)
		}
	}
	if _, ok := q.Take(); ok || q.held != 0 || len(q.of) != 0 {
		t.Errorf("an empty queue holds %d bytes of %d speakers", q.held, len(q.of))
	}
}

// Speakers that all say as much as they can leave room for another one.
func TestManySpeakersLeaveRoom(t *testing.T) {
	q := New[said]()
	for n := range 20 {
		for q.Add(fmt.Sprint("EVE", n), 64<<10, said{}) {
		}
	}
	if q.held > room {
		t.Errorf("%d bytes wait", q.held)
	}
	for n := range 8 {
		if !q.Add("BETA", 64<<10, said{}) {
			t.Fatalf("message %d of BETA has no room", n)
		}
	}
}
