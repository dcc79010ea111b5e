package agent

import (
	"fmt"
	"testing"
	"time"
)

// Requests of one speaker that could not be taken come again one after the other, and those of others as before.
func TestRequestsComeAgainAtAPace(t *testing.T) {
	var p pacer
	now := time.Unix(1_000_000, 0)
	for n := range 5000 {
		if d := p.delay("eve", now); d != again+time.Duration(n)*paceEach {
			t.Fatalf("request %d of eve comes again after %s", n, d)
		}
	}
	if d := p.delay("bob", now); d != again {
		t.Errorf("one of bob comes again after %s", d)
	}
	if d := p.delay("eve", now.Add(200*time.Second)); d != again {
		t.Errorf("after a pause one of eve comes again after %s", d)
	}
	if d := p.delay("eve", now.Add(-24*time.Hour)); d != again {
		t.Errorf("when the clock was set back one of eve comes again after %s", d)
	}
	for n := range 3 * maxPaced {
		p.delay(fmt.Sprint(n), now.Add(time.Duration(n)*time.Second))
	}
	if len(p.next) > maxPaced {
		t.Errorf("%d speakers are remembered", len(p.next))
	}
}
