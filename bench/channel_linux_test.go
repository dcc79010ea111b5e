package bench

import (
	"context"
	"testing"
	"time"
)

// The scenario measures the effect of a connection's settings. This test only checks that each round is answered, with
// any settings.
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

// channelRan checks a report of the scenario channel.
func channelRan(t *testing.T, r *Report) {
	t.Helper()
	if rows := len(r.Tables[0].Rows); rows != 11 || len(r.Bars) != 6 || len(r.Notes) == 0 {
		t.Errorf("%d rows, %d bars, %d notes", rows, len(r.Bars), len(r.Notes))
	}
	for _, row := range r.Tables[0].Rows[:7] {
		if row[1].Figure == nil || row[1].Figure.Median <= 0 {
			t.Errorf("%s was not measured: %+v", row[0].Text, row[1])
		}
	}
	written(t, r)
}

// A missing lane fails its bar.
func TestChannelReport(t *testing.T) {
	of := func(ms float64) Series {
		return Series{Samples: []Sample{{Extra: map[string]float64{extraP50: ms}}}}
	}
	nagle := of(50)
	nagle.Case = "Ferry, queue lane" + nagleOn
	bars := channelReport([]Series{of(44), of(0.1), of(0.1), of(3), {Lacks: "not available"}, nagle, of(41)}, 3, 20).Bars
	if len(bars) != 4 || !bars[0].Reached || !bars[1].Reached || bars[2].Missing == "" || bars[2].Passed || bars[3].Passed {
		t.Errorf("%+v", bars)
	}
	if bars := channelReport([]Series{of(0.2), of(1)}, 1, 20).Bars; bars[0].Passed {
		t.Errorf("without a stall, it counts as reproduced: %+v", bars[0])
	}
}
