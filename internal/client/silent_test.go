package client_test

import (
	"strings"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The error of an agent that does not answer in time has its state as coordination knows it, and a way to wait longer.
func TestASilentAgentIsKnown(t *testing.T) {
	connect := network(t.Context(), t)
	agent, coordination := connect("ALPHA"), connect(wire.Coordination)
	if _, err := agent.Subscribe(wire.AllAsks("ALPHA"), func(qmgr.Message) {}); err != nil {
		t.Fatal(err)
	}
	started := time.Date(2026, 11, 20, 22, 0, 0, 0, time.Local)
	if _, err := coordination.Subscribe(wire.AllAsks(wire.Coordination), func(m qmgr.Message) {
		coordination.Answer(wire.LastToken(m.Subject), m.Reply, wire.Marshal(wire.Answer{V: wire.Version,
			Agents: []wire.AgentStatus{{Beat: wire.Beat{Agent: "ALPHA", Started: started}, Status: wire.AgentActive, Age: 3 * time.Second}}}))
	}); err != nil {
		t.Fatal(err)
	}
	c := &client.Client{Conn: connect("user"), Clock: clock.System, Timeout: 100 * time.Millisecond, Network: "nats://hub"}
	until(t, "the state of the agent", func() bool {
		_, _, err := c.Ping(t.Context(), "ALPHA")
		switch transfer.KindOf(err) {
		case transfer.KindUnreachable: // the subscription has not reached the server yet
			return false
		case transfer.KindTimeout:
		default:
			t.Fatalf("a silent agent: %v", err)
		}
		return strings.Contains(err.Error(), "agent ALPHA has not answered within 100ms; it is registered since 2026-11-20 22:00:00, is ACTIVE, and was heard 3s ago") &&
			strings.Contains(transfer.AsError(err).Hint, "--timeout 1m")
	})
}
