package client

import (
	"context"
	"errors"
	"fmt"

	"ferry/internal/qmgr"
	"ferry/internal/transfer"
)

// A Handover is the progress of a request or a command on its way to its agent.
//
//	NotSent, Refused → any other
//	Unacknowledged   → Stored, Receipted, Refused (by the agent)
//	Stored           → Receipted, Refused (by the agent)
type Handover string

const (
	// NotSent: it was sent to no queue manager, or certainly none stored it.
	NotSent Handover = "not_sent"
	// Unacknowledged: it was sent, and the acknowledgement of the store has not come. It may
	// have been stored.
	Unacknowledged Handover = "unacknowledged"
	// Stored: the queue manager has acknowledged the store.
	Stored Handover = "stored"
	// Receipted: the agent has confirmed that its ledger has it.
	Receipted Handover = "receipted"
	// Refused: the queue manager has refused to store it, or the agent to take it. It never runs.
	Refused Handover = "refused"
)

// after returns the handover after one more try to store the message. A stored message stays stored.
func (h Handover) after(s qmgr.Storing, err error) Handover {
	switch kind := transfer.KindOf(err); {
	case h == Stored || h == Receipted:
		return h
	case err == nil:
		return Stored
	case h == Unacknowledged || s.Doubt:
		return Unacknowledged
	case kind == transfer.KindNoSpace || kind == transfer.KindTooLarge:
		return Refused
	}
	return NotSent
}

// A HandoverError is the error of a request or a command without a receipt of its agent. An agent's own refusal is
// another error.
type HandoverError struct {
	At    Handover
	Name  string // of the message, as "transfer 0192…"
	Agent transfer.AgentName
	Err   error  // why it came no further
	Hint  string // the next step if it may have been stored
}

// kind returns KindNoManager if no queue manager is known to have the message.
func (e *HandoverError) kind() transfer.Kind {
	if e.At == Stored {
		return transfer.KindTimeout
	}
	return transfer.KindNoManager
}

func (e *HandoverError) Error() string { return e.explained().Error() }

// As makes the error a *transfer.Error of its kind. The cause is in the text alone: its kind, or
// the signal that ended the wait, is not the kind of the handover.
func (e *HandoverError) As(target any) bool {
	t, ok := target.(**transfer.Error)
	if ok {
		*t = e.explained()
	}
	return ok
}

func (e *HandoverError) explained() *transfer.Error {
	switch e.At {
	case Stored:
		return transfer.Errorf(e.kind(), "agent %s has not answered; it gets %s when it is there: %v", e.Agent, e.Name, e.Err)
	case Unacknowledged:
		return transfer.Errorf(e.kind(), "%s may have been stored: the queue manager has not acknowledged it: %v", e.Name, e.Err).WithHint(e.Hint)
	case Refused:
		return transfer.Errorf(e.kind(), "the queue manager has not stored %s: %v", e.Name, e.Err).WithHint(again(e.Err, "submit it again when the queue manager takes messages"))
	}
	return transfer.Errorf(e.kind(), "%s was not sent: %v", e.Name, e.Err).WithHint(again(e.Err, "submit it again when the queue manager is there"))
}

// again returns the next step after an error of the queue manager. A queue manager without room is there.
func again(err error, hint string) string {
	if e := (*transfer.Error)(nil); transfer.KindOf(err) == transfer.KindNoSpace {
		if errors.As(err, &e) && e.Hint != "" {
			return e.Hint + "; then submit it again"
		}
		return "wait until the agents have read messages that wait, or withdraw some; then submit it again"
	}
	return hint
}

// A RefusedError is the refusal of a transfer by its source agent. Coordination lists the transfer as failed.
type RefusedError struct {
	ID  transfer.ID
	Err error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("transfer %s is refused: %v", e.ID, e.Err) }

func (e *RefusedError) Unwrap() error { return e.Err }

// HandoverOf returns the handover that an error reports; Receipted if the error is of another kind.
func HandoverOf(err error) Handover {
	var e *HandoverError
	if errors.As(err, &e) {
		return e.At
	}
	return Receipted
}

// why returns the reason of a handover that ends with ctx: the error of the last try, if it is known.
func why(ctx context.Context, last error) error {
	if last == nil || errors.Is(last, context.Canceled) {
		return context.Cause(ctx)
	}
	return last
}
