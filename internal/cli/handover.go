package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/transfer"
)

// A controlLine is a transfer that was handed over, cancelled or resumed.
type controlLine struct {
	MessageType string         `json:"message_type"` // submitted, not_submitted, cancel, resume
	ID          transfer.ID    `json:"id"`
	State       transfer.State `json:"state,omitempty"` // empty: it is not known

	Handover client.Handover `json:"handover,omitempty"` // how far a submitted request has come
}

// Times of a handover.
const (
	detachWait = 5 * time.Second // for the agent's receipt
	undoWait   = 3 * time.Second // to take back a job or a call that may have been stored
)

// A handing is a transfer, a job or a call on its way to its agent.
type handing struct {
	cmd   *cobra.Command
	noun  string // as in the names of its commands
	agent transfer.AgentName
	id    transfer.ID
	json  bool

	// undo takes back a request that may have been stored. It is nil where the client does that.
	undo func(context.Context) error
}

// say prints the ID, or with --json how far the handover has come.
func (h *handing) say(state transfer.State, at client.Handover) {
	line := controlLine{MessageType: "submitted", ID: h.id, State: state, Handover: at}
	switch {
	case !h.json && (at == client.NotSent || at == client.Refused):
	case !h.json:
		fmt.Fprintln(h.cmd.OutOrStdout(), h.id)
	case at == client.NotSent || at == client.Refused:
		line.MessageType = "not_submitted"
		output.JSON(h.cmd, line)
	default:
		output.JSON(h.cmd, line)
	}
}

// detach gives it to its agent, and prints the ID at the agent's receipt. After detachWait the
// end follows the handover: queued where the queue manager has stored it, else an error.
func (h *handing) detach(ctx context.Context, give func(context.Context) (transfer.State, error)) error {
	waiting, cancel := context.WithTimeout(ctx, detachWait)
	defer cancel()
	state, err := give(waiting)
	switch at := client.HandoverOf(err); {
	case err == nil:
		h.say(state, client.Receipted)
		return nil
	case at != client.Stored:
		return h.unfinished(err)
	}
	h.say(transfer.Queued, client.Stored)
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %[2]s %[3]s is queued; `ferry %[2]s watch %[3]s` follows it, `ferry %[2]s cancel %[3]s` ends it", context.Cause(ctx), h.noun, h.id)
	}
	fmt.Fprintf(h.cmd.ErrOrStderr(), "ferry: queued: agent %s has not taken the %s yet\n", h.agent, h.noun)
	return output.Exit(transfer.CodeQueued)
}

// unfinished returns the error of a handover that has ended before the queue manager's acknowledgement. Any other error
// is returned as it is.
func (h *handing) unfinished(err error) error {
	var e *client.HandoverError
	if !errors.As(err, &e) {
		return err
	}
	own := *e
	own.Name = fmt.Sprintf("%s %s", h.noun, h.id)
	own.Hint = fmt.Sprintf("`ferry %[1]s show %[2]s` says whether it was, and `ferry %[1]s cancel %[2]s` ends it", h.noun, h.id)
	if e.At == client.Unacknowledged && h.undo != nil {
		ctx, cancel := context.WithTimeout(context.Background(), undoWait)
		defer cancel()
		if undone := h.undo(ctx); undone == nil || transfer.KindOf(undone) == transfer.KindNotFound {
			h.say("", client.Refused)
			return transfer.Errorf(transfer.KindNoManager, "the queue manager has not acknowledged %s, and it is cancelled: %v", own.Name, e.Err)
		}
	}
	h.say("", own.At)
	return &own
}

// signalEnded reports whether err comes from a wait that a signal has ended.
func signalEnded(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.As(err, new(*client.HandoverError)))
}

// interrupted is the end of the wait by a signal. A stored request continues without this command, and a second Ctrl-C
// within a few seconds cancels it.
func (h *handing) interrupted(ctx context.Context, err error, cancel func() error) error {
	goesOn := "goes on"
	switch client.HandoverOf(err) {
	case client.Receipted:
	case client.Stored:
		goesOn = fmt.Sprintf("is queued and goes on when agent %s takes it", h.agent)
		if h.json {
			h.say(transfer.Queued, client.Stored)
		}
	default:
		return h.unfinished(err)
	}

	stderr := h.cmd.ErrOrStderr()
	if sig, ok := session.Signalled(ctx); ok && sig.Sig == syscall.SIGTERM {
		fmt.Fprintf(stderr, "ferry: told to stop: %[1]s %[2]s %[3]s; `ferry %[1]s watch %[2]s` follows it, `ferry %[1]s cancel %[2]s` ends it\n", h.noun, h.id, goesOn)
		return output.Exit(session.CodeTerminated)
	}

	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	fmt.Fprintf(stderr, "ferry: %s %s %s; Ctrl-C again within 3 s cancels it\n", h.noun, h.id, goesOn)
	select {
	case <-again:
	case <-time.After(3 * time.Second):
		fmt.Fprintf(stderr, "ferry: `ferry %s watch %s` follows it\n", h.noun, h.id)
		return output.Exit(session.CodeInterrupted)
	}
	return cancel()
}
