package monitor

import (
	"testing"

	"ferry/internal/automation/monitor"
	"ferry/internal/client"
	"ferry/internal/wire"
)

// A monitor of an agent that is up and does not answer is not away.
func TestStateOfAMonitor(t *testing.T) {
	up, stopped := &client.Away{State: "READY", Busy: true}, &client.Away{State: wire.AgentStopped}
	for _, c := range []struct {
		away        *client.Away
		state, want string
	}{
		{nil, monitor.StateWatching, monitor.StateWatching},
		{stopped, monitor.StateAway, monitor.StateAway},
		{stopped, monitor.StatePaused, monitor.StatePaused},
		{up, monitor.StateAway, monitor.StateUnknown},
		{up, monitor.StatePaused, monitor.StatePaused},
	} {
		m := &monitor.Shown{}
		m.State = c.state
		at := client.AtAgent{Away: c.away}
		if got := viewOf(at, m).State; got != c.want || monitorRow(at, m)[2] != c.want {
			t.Errorf("with %+v, %s is shown as %s and %s, not %s", c.away, c.state, got, monitorRow(at, m)[2], c.want)
		}
	}
}
