package faulty

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

// TestClock compares the readings with a host's. Their differences within a process are the elapsed time. A time that
// was written down is the time of day.
func TestClock(t *testing.T) {
	check := func(t *testing.T, pass func(time.Duration)) {
		for _, jump := range []time.Duration{time.Second, -time.Second, 87600 * time.Hour, -87600 * time.Hour} {
			c := NewClock()
			before := c.Now()
			written, err := json.Marshal(before)
			if err != nil {
				t.Fatal(err)
			}
			c.Jump(jump)
			pass(20 * time.Millisecond)
			after := c.Now()
			if d := after.Sub(before); d < 20*time.Millisecond || d > 20*time.Second || !before.Before(after) {
				t.Errorf("a jump of %v shows between two readings: %v", jump, d)
			}
			var read time.Time
			if err := json.Unmarshal(written, &read); err != nil {
				t.Fatal(err)
			}
			if d := after.Sub(read); d < jump || d > jump+20*time.Second {
				t.Errorf("a jump of %v is %v against a time written down before it", jump, d)
			}
			if d := after.Add(time.Hour).Sub(before); d < time.Hour || d > time.Hour+20*time.Second {
				t.Errorf("an hour later is %v later", d)
			}
			if got := after.UTC().Round(0).Sub(before.UTC().Round(0)); got < jump || got > jump+20*time.Second {
				t.Errorf("the time of day moved by %v, not by %v", got, jump)
			}
		}
	}
	t.Run("host", func(t *testing.T) {
		check(t, func(d time.Duration) { <-time.After(d) })
	})
	t.Run("bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			check(t, func(d time.Duration) { <-time.After(d) })
		})
	})
}

// TestTimersDoNotJump: a timer fires when its time has elapsed.
func TestTimersDoNotJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		start := time.Now()
		timer := c.NewTimer(time.Minute)
		c.Jump(-87600 * time.Hour)
		<-timer.C()
		if d := time.Since(start); d != time.Minute {
			t.Errorf("a timer of a minute fired after %v", d)
		}
	})
}
