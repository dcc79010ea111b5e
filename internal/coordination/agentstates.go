package coordination

import (
	"context"
	"log/slog"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An agentStateLogger logs changes in the state of agents. It compares the states of all agents
// with those of the previous comparison.
type agentStateLogger struct {
	log  *slog.Logger
	last map[transfer.AgentName]presence
}

// A presence is the state of an agent at the previous comparison.
type presence struct {
	instance string
	status   string // one of wire's words; "": silent in this run
}

// away reports whether the agent is not known to run.
func (p presence) away() bool {
	switch p.status {
	case "", wire.AgentUnreachable, wire.AgentStopping, wire.AgentStopped:
		return true
	}
	return false
}

// rollCallLines bounds the lines of one comparison: where a network comes back, the
// numbers say more than thousands of lines.
const rollCallLines = 100

// take compares. It reports whether an agent has gone away.
func (r *agentStateLogger) take(agents []wire.AgentStatus) (gone bool) {
	now := make(map[transfer.AgentName]presence, len(agents))
	lines, left := 0, 0
	for n := range agents {
		a := &agents[n]
		is := presence{a.Instance, a.Status}
		now[a.Agent] = is
		was := r.last[a.Agent]
		gone = gone || is.away() && !was.away()
		level, text := change(was, is)
		switch {
		case text == "":
		case lines == rollCallLines:
			left++
		default:
			lines++
			r.log.Log(context.Background(), level, text, "agent", a.Agent, "host", a.Host, "instance", a.Instance, "version", a.Version, "mode", a.Mode, "heard_seconds", int(a.Age.Seconds()))
		}
	}

	if left > 0 {
		r.log.Warn("more agents changed their state", "agents", left)
	}

	r.last = now
	return gone
}

// change returns the level and the text of the log line about an agent's change; "": no line.
func change(was, is presence) (slog.Level, string) {
	degraded := func(p presence) bool { return p.status == wire.AgentDegraded }
	switch {
	case was.away() && is.away():
		return 0, ""
	case was.away():
		return slog.LevelInfo, "agent is up"
	case is.status == wire.AgentUnreachable:
		return slog.LevelWarn, "agent is unreachable"
	case is.away():
		return slog.LevelInfo, "agent stopped"
	case was.instance != is.instance:
		return slog.LevelWarn, "agent restarted"
	case degraded(is) && !degraded(was):
		return slog.LevelWarn, "agent is degraded"
	case degraded(was) && !degraded(is):
		return slog.LevelInfo, "agent is no longer degraded"
	}
	return 0, ""
}
