package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/coordination/status"
	"ferry/internal/wire"
)

// Standbys are shown beside the active instance and do not change its picture. They are forgotten when they are silent,
// stop, or become active.
func TestStandbys(t *testing.T) {
	withPicture(t, func(t *testing.T, p *status.Picture) {
		shows := func(want string) {
			t.Helper()
			var all []string
			for _, a := range p.Agents() {
				all = append(all, fmt.Sprint(a.Agent, " ", a.Status, " ", a.Instance))
				for _, s := range a.Standbys {
					all = append(all, fmt.Sprint("+", s.Instance, " ", s.Age))
				}
			}
			if got := strings.Join(all, ", "); got != want {
				t.Errorf("it shows %q, not %q", got, want)
			}
		}
		standby := func(instance, state string) bool {
			return p.Standby(&wire.Standby{Agent: "ALPHA", Instance: instance, Host: instance, Status: state})
		}
		beat := func(instance string) {
			if _, err := p.Beat(&wire.Beat{Agent: "ALPHA", Instance: instance, Status: wire.AgentReady}); err != nil {
				t.Fatal(err)
			}
		}

		if !standby("b", wire.AgentStandby) {
			t.Error("an agent is not new when its standby is heard first")
		}
		shows("ALPHA UNREACHABLE , +b 0s")
		beat("a")
		if standby("b", wire.AgentStandby) {
			t.Error("it is new twice")
		}
		standby("c", wire.AgentStandby)
		wait(5 * time.Second)
		beat("a")
		standby("c", wire.AgentStandby)
		shows("ALPHA READY a, +b 5s, +c 0s")
		standby("c", wire.AgentStopped)
		shows("ALPHA READY a, +b 5s")
		beat("b")
		shows("ALPHA READY b")
		standby("d", wire.AgentStandby)
		wait(16 * time.Second)
		shows("ALPHA UNREACHABLE b")
		for n := range 100 {
			standby(fmt.Sprint(n), wire.AgentStandby)
		}
		if n := len(p.Agents()[0].Standbys); n != 8 {
			t.Errorf("%d are remembered", n)
		}
	})
}
