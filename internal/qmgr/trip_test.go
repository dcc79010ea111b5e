package qmgr

import (
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/qmgr/link"
)

// Delay is the time of the last question, or of the one that has no answer yet, 1.5 s at most. Measurements on another
// connection do not count.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Conn{control: &link.Link{}}
		trip := &c.control.Trip
		is := func(delay, lag time.Duration) {
			t.Helper()
			if c.Delay() != delay || c.Lag() != lag {
				t.Errorf("%s and %s, want %s and %s", c.Delay(), c.Lag(), delay, lag)
			}
		}
		round := func(d time.Duration, answered bool) {
			began := trip.Begin()
			//house:sleep because it runs in a bubble
			time.Sleep(d)
			trip.End(began, answered)
		}
		is(0, 0)
		round(20*time.Millisecond, true)
		is(20*time.Millisecond, 0)
		round(100*time.Millisecond, true)
		is(100*time.Millisecond, 80*time.Millisecond)
		round(3*time.Second, false)
		is(delayMost, 3*time.Second-20*time.Millisecond)
		round(30*time.Millisecond, true)
		is(30*time.Millisecond, 10*time.Millisecond)
		trip.Begin()
		//house:sleep because it runs in a bubble
		time.Sleep(time.Second)
		is(time.Second, time.Second-20*time.Millisecond)
		trip.Forget()
		is(20*time.Millisecond, 0)
	})
}
