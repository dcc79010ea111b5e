package coordination

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Only changes of agents are logged.
func TestRollCall(t *testing.T) {
	var text bytes.Buffer
	r := agentStateLogger{log: slog.New(slog.NewTextHandler(&text, nil))}
	at := func(status, instance string) wire.AgentStatus {
		return wire.AgentStatus{Status: status, Beat: wire.Beat{Agent: "ALPHA", Instance: instance}}
	}
	for n, c := range []struct {
		is   wire.AgentStatus
		want string
	}{
		{at(wire.AgentUnreachable, ""), ""}, // of an earlier run of coordination
		{at(wire.AgentReady, "a"), "agent is up"},
		{at(wire.AgentActive, "a"), ""},
		{at(wire.AgentReady, "a"), ""},
		{at(wire.AgentDegraded, "a"), "agent is degraded"},
		{at(wire.AgentDegraded, "a"), ""},
		{at(wire.AgentActive, "a"), "agent is no longer degraded"},
		{at(wire.AgentReady, "b"), "agent restarted"},
		{at(wire.AgentStopping, "b"), "agent stopped"},
		{at(wire.AgentStopped, "b"), ""},
		{at(wire.AgentReady, "c"), "agent is up"},
		{at(wire.AgentUnreachable, "c"), "agent is unreachable"},
		{at(wire.AgentUnreachable, "c"), ""},
		{at(wire.AgentStopped, "c"), ""},
		{at(wire.AgentActive, "c"), "agent is up"},
	} {
		text.Reset()
		r.take([]wire.AgentStatus{c.is})
		if got := text.String(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%d: %q, want %q", n, got, c.want)
		}
	}
}

// A network that comes back is no flood of lines.
func TestRollCallOfMany(t *testing.T) {
	var text bytes.Buffer
	r := agentStateLogger{log: slog.New(slog.NewTextHandler(&text, nil))}
	var all []wire.AgentStatus
	for n := range 5000 {
		all = append(all, wire.AgentStatus{Status: wire.AgentReady, Beat: wire.Beat{Agent: transfer.AgentName(fmt.Sprint("A", n))}})
	}
	r.take(all)
	if n := strings.Count(text.String(), "\n"); n != rollCallLines+1 || !strings.Contains(text.String(), "agents=4900") {
		t.Errorf("%d lines, the last is %q", n, text.String()[strings.LastIndex(strings.TrimSpace(text.String()), "\n"):])
	}
	text.Reset()
	r.take(all)
	if text.Len() > 0 {
		t.Errorf("%q", text.String())
	}
}
