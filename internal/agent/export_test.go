package agent

import "ferry/internal/qmgr"

// Deliver hands the agent a message of its COMMAND queue, as often as a test likes.
func (a *Agent) Deliver(d qmgr.Delivery) { a.intake.submitted(d) }
