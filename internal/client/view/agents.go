package view

import (
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A PingLine is the answer of an agent to a question about its state.
type PingLine struct {
	Agent   transfer.AgentName `json:"agent"`
	Seconds float64            `json:"seconds"`
	State   string             `json:"state"`
}

// PingOf returns the form of an agent's answer, with the time of the round trip.
func PingOf(agent transfer.AgentName, b *wire.Beat, took time.Duration) PingLine {
	return PingLine{agent, took.Seconds(), b.Status}
}

// An AgentLine is an agent that was removed or set.
type AgentLine struct {
	MessageType string                        `json:"message_type"` // removed, set
	Agent       transfer.AgentName            `json:"agent"`
	Rates       map[transfer.AgentName]string `json:"rates,omitempty"` // its rate to each agent; "": to all together
}

// AgentRemoved returns the form of an agent that was removed from the registry.
func AgentRemoved(agent transfer.AgentName) AgentLine {
	return AgentLine{MessageType: TypeRemoved, Agent: agent}
}

// AgentSet returns the form of an agent with new sending rates, from its answer.
func AgentSet(agent transfer.AgentName, b *wire.Beat) AgentLine {
	return AgentLine{TypeSet, agent, b.Rates}
}
