package qmgr

import (
	"testing"
	"testing/synctest"
	"time"
)

// An amount begins small, follows the rate of the link up and down, and is worth the same time on each.
func TestAmount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := amount{linkTime: time.Second}
		if n := a.bytes(1 << 20); n != 8<<10 { // a second of 64 kbit/s
			t.Errorf("without a rate it is %d bytes", n)
		}
		for n := a.bytes(1 << 20); n < 1<<20; { // each answer is there at once
			before := n
			a.took(n, time.Now())
			if n = a.bytes(1 << 20); n != min(4*before, 1<<20) {
				t.Fatalf("after %d bytes that came at once it is %d", before, n)
			}
		}
		for _, rate := range []int{8_000, 250_000, 100_000_000, 250_000, 8_000} { // bytes a second
			for range 12 {
				n, began := a.bytes(1<<20), time.Now()
				time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
				a.took(n, began)
			}
			want := min(rate, 1<<20)
			if n := a.bytes(1 << 20); n < want*9/10 || n > want {
				t.Errorf("at %d bytes a second it is %d", rate, n)
			}
		}
		before := a.bytes(1 << 20)
		began := time.Now()
		time.Sleep(time.Minute)
		if a.took(10, began); a.bytes(1<<20) != before {
			t.Error("a few bytes have lowered it")
		}
	})
}

// Of two answers that are on the link together, the second one took the time since the arrival of the first one.
func TestAmountsThatOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := amount{linkTime: time.Second}
		began := time.Now()
		for range 8 {
			n := a.bytes(1 << 20)
			//house:sleep because it runs in a bubble
			time.Sleep(time.Duration(n) * time.Second / 10_000)
			a.took(n, began) // all were asked for at the beginning
		}
		if n := a.bytes(1 << 20); n < 9_000 || n > 10_000 {
			t.Errorf("at 10000 bytes a second it is %d", n)
		}
	})
}

// A connection that does not answer is cut at once where no other one to the same host carries bytes, and otherwise after
// half a minute.
func TestUnanswered(t *testing.T) {
	var s unanswered
	now := time.Unix(1e9, 0)
	if s.over(true, false, now) || !s.over(false, false, now) {
		t.Fatal("a connection is cut that answers, or one is left that does not")
	}
	for ; now.Before(time.Unix(1e9+25, 0)); now = now.Add(6 * time.Second) {
		if s.over(false, true, now) {
			t.Fatalf("a connection beside others that carry bytes is cut after %s", now.Sub(time.Unix(1e9, 0)))
		}
	}
	if s.over(true, true, now) || s.over(false, true, now.Add(29*time.Second)) {
		t.Error("a connection is cut that has answered meanwhile")
	}
	if !s.over(false, true, now.Add(60*time.Second)) {
		t.Error("a connection that does not answer is never cut beside others that carry bytes")
	}
	if !s.over(false, false, now.Add(61*time.Second)) {
		t.Error("a connection is left when the others have become silent, too")
	}
}

// The time before the first part of an answer does not count for the link: questions wait behind data that leave. An
// answer is worth the shortest round trip more.
func TestAmountOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, part = 100_000, 8 << 10
		for _, trip := range []time.Duration{0, 300 * time.Millisecond} {
			a := amount{linkTime: time.Second, least: 5000}
			for range 20 {
				n, asked := a.bytes(1<<20), time.Now()
				time.Sleep(700 * time.Millisecond) // nothing is on the link
				first := min(n, part)
				time.Sleep(time.Duration(first) * time.Second / rate)
				came := time.Now()
				time.Sleep(time.Duration(n-first) * time.Second / rate)
				a.answered(n, first, asked, came, trip)
			}
			want := int(rate * (time.Second + trip).Seconds())
			if n := a.bytes(1 << 20); n < want*9/10 || n > want*11/10 {
				t.Errorf("with a round trip of %v it is %d, want about %d", trip, n, want)
			}
			for range 20 { // the link has become slow, and an answer is one part
				n, asked := a.bytes(1<<20), time.Now()
				time.Sleep(time.Duration(n) * time.Second / 1000)
				a.answered(n, n, asked, time.Now(), trip)
			}
			if n := a.bytes(1 << 20); n != 5000 {
				t.Errorf("on a slow line it is %d, want the least, 5000", n)
			}
		}
	})
}
