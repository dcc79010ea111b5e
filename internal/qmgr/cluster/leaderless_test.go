package cluster

import (
	"strings"
	"testing"
	"time"
)

// Time counts only while every member is there.
func TestOrphans(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	o := orphans{limit: time.Minute, since: map[string]time.Time{}}
	lost := func(away int, queues ...string) *present {
		return &present{Quorum: true, unseen: away, leaderless: queues}
	}
	for _, at := range []struct {
		seconds int
		p       *present
		gone    string
	}{
		{0, lost(0, "A"), ""}, {59, lost(0, "A", "B"), ""}, {60, lost(0, "A", "B"), "A"}, {61, lost(0, "B"), ""},
		{100, lost(0), ""}, {119, lost(0, "B"), ""}, {178, lost(1, "B"), ""}, {180, lost(0, "B"), ""}, {240, lost(0, "B"), "B"},
		{241, &present{leaderless: []string{"B"}}, ""}, {242, lost(0, "B"), ""}, {301, lost(0, "B"), ""},
	} {
		if gone := strings.Join(o.over(at.p, start.Add(time.Duration(at.seconds)*time.Second)), " "); gone != at.gone {
			t.Errorf("after %d s: %q is over, not %q", at.seconds, gone, at.gone)
		}
	}
}
