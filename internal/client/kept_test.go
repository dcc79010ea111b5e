package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
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

// Coordination answers one question about definitions of a user at a time. A client asks again while it is busy.
func TestKeptIsAskedAgainWhileBusy(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	connect := network(ctx, t)
	coordination, conn := connect(wire.Coordination), connect("ann")
	asked := 0
	if _, err := coordination.Subscribe(wire.AllAsks(wire.Coordination), func(m qmgr.Message) {
		ans := wire.Answer{V: wire.Version, Body: wire.Marshal(wire.Kept{Agents: []wire.KeptAgent{{Agent: "ALPHA"}}})}
		if asked++; asked == 1 {
			ans = wire.Answer{V: wire.Version, Error: transfer.Errorf(transfer.KindBusy, "coordination answers one of ann already")}
		}
		coordination.Answer(wire.LastToken(m.Subject), m.Reply, wire.Marshal(ans))
	}); err != nil {
		t.Fatal(err)
	}
	net := &client.Client{Conn: conn, Clock: clock.System, Timeout: time.Minute}
	var got []transfer.AgentName
	if err := net.Kept(ctx, wire.KeptAsked{}, func(of *wire.KeptAgent) error {
		got = append(got, of.Agent)
		return nil
	}); err != nil || len(got) != 1 || got[0] != "ALPHA" {
		t.Errorf("the definitions are of %v, %v", got, err)
	}
}
