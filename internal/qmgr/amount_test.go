package qmgr

import (
	"testing"
	"testing/synctest"
	"time"
)

// An amount begins small, follows the rate of the line up and down, and is worth the same time on each.
func TestAmount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := amount{worth: time.Second}
		if n := a.bytes(1 << 20); n != amountFirst {
			t.Errorf("without a rate it is %d bytes", n)
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
