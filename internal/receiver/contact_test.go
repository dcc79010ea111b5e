package receiver

import (
	"testing"
	"time"
)

// Silence is counted from the last contact, or where there was none in this run, from
// the last one of an earlier run.
func TestSilence(t *testing.T) {
	now := time.Unix(10_000, 0)
	c := contact{since: now.Add(-time.Minute), before: time.Hour}
	if s := c.silence(now); s != time.Hour+time.Minute {
		t.Errorf("it has been silent for %s", s)
	}
	c.at = now.Add(-time.Second)
	if s := c.silence(now); s != time.Second {
		t.Errorf("it has been silent for %s", s)
	}
}
