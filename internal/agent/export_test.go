package agent

import (
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
)

// Deliver hands the agent a message of its COMMAND queue, as often as a test likes.
func (a *Agent) Deliver(d qmgr.Delivery) { a.intake.submitted(d) }

// Command hands the agent a message of its CONTROL queue.
func (a *Agent) Command(d qmgr.Delivery) { a.intake.controlled(d) }

// Compared reports whether the agent has compared its ledger with coordination's log.
func (a *Agent) Compared() bool { return a.storing.Compared() }

// Mark is the mark of the agent's ledger.
func (a *Agent) Mark() (string, error) { return ledger.Mark(a.ledger) }

// Hold has the agent handle no control message until release.
func (a *Agent) Hold() (release func()) {
	a.own.mu.Lock()
	return a.own.mu.Unlock
}

// Waiting is the number of control messages that wait for the turn of their speaker.
func (a *Agent) Waiting() int { return a.replies.turns.Len() }
