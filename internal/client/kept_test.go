package client_test

import (
	"strings"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/wire"
)

// An agent that is up is not called away: it does not answer, or it is busy.
func TestAwayText(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		away client.Away
		up   bool
		text string
	}{
		{client.Away{State: wire.AgentStopped, Since: at}, false, "agent away since 2027-"},
		{client.Away{State: wire.AgentUnreachable}, false, "agent away, and not heard of since coordination started"},
		{client.Away{State: "READY", Since: at, Told: at}, true, "agent does not answer; as of 2027-"},
		{client.Away{State: "READY", Since: at, Told: at, Busy: true}, true, "agent is busy; as of 2027-"},
	} {
		if got := c.away.String(); !strings.HasPrefix(got, c.text) || c.away.Up() != c.up {
			t.Errorf("%+v is up: %t, %s", c.away, c.away.Up(), got)
		}
	}
}
