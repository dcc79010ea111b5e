package server

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/forward"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/wire"
)

// A queue manager that is started several times in a row is one queue manager. There are two of one name where an
// earlier start is heard again.
func TestStartsInARow(t *testing.T) {
	one := linked(t, nil, "ONE")
	c := connect(t, qmgr.ConnConfig{URL: one.URL()})
	announce := func(instance string, ahead time.Duration) {
		data, err := json.Marshal(forward.Announcement{V: 1, Name: "TWO", Domain: "TWO", Instance: instance, Time: time.Now().Add(ahead), MaxPayload: streams.MaxPayload})
		must(t, err)
		must(t, c.Publish(wire.ManagerSubject("TWO"), data))
	}
	for _, instance := range []string{"a", "b", "c", "c"} {
		announce(instance, 0)
	}
	qmgrtest.Eventually(t, "the last start is heard", func() bool {
		announce("d", 2*time.Hour)
		return strings.Contains(one.Degraded(), "the clock of queue manager TWO is")
	})
	if d := one.Degraded(); strings.Contains(d, "two queue managers") {
		t.Errorf("after three starts in a row it says %q", d)
	}
	qmgrtest.Eventually(t, "an earlier instance is said", func() bool {
		announce("b", 0)
		announce("d", 0)
		return strings.Contains(one.Degraded(), "two queue managers are called TWO")
	})
}
