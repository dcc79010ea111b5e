package bench

import (
	"context"
	"testing"
	"time"
)

// What the settings of a connection change is measured by the scenario; here,
// only that each round is answered, whatever they are.
func TestStallRounds(t *testing.T) {
	for _, s := range []stall{{}, {nagle: true}, {quickAck: true}, {nagle: true, quickAck: true}} {
		times, err := s.run(t.Context(), 3)
		if err != nil || len(times) != 3 {
			t.Fatalf("%+v: %d rounds, %v", s, len(times), err)
		}
		for _, d := range times {
			if d <= 0 {
				t.Errorf("%+v: a round took %v", s, d)
			}
		}
	}
}

func TestStallIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (stall{}).run(ctx, 1<<30); err == nil {
		t.Error("a cancelled exchange went to its end")
	}
}

func TestRoundsSample(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(i+1)*time.Millisecond)
	}
	s := roundsSample(times)
	if s.Wall != 5050*time.Millisecond || s.Extra[extraP50] != 50 || s.Extra[extraP99] != 99 || s.Extra[extraMax] != 100 {
		t.Errorf("%+v", s)
	}
}
