package follow

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
	"ferry/internal/client/view"
	"ferry/internal/transfer"
)

// Times of a handover.
const (
	DetachWait = 5 * time.Second // for the agent's receipt
	undoWait   = 3 * time.Second // to take back a job or a call that may have been stored
)

// A Handover is a transfer, a job or a call on its way to its agent.
type Handover struct {
	Cmd   *cobra.Command
	Noun  string // as in the names of its commands
	Agent transfer.AgentName
	ID    transfer.ID
	JSON  bool

	// undo takes back a request that may have been stored. It is nil where the client does that.
	Undo func(context.Context) error
}

// say prints the ID, or with --json how far the handover has come.
func (h *Handover) say(state transfer.State, at client.Handover) {
	switch {
	case h.JSON:
		output.JSON(h.Cmd, view.HandoverOf(h.ID, state, at))
	case at != client.NotSent && at != client.Refused:
		fmt.Fprintln(h.Cmd.OutOrStdout(), h.ID)
	}
}

// Detach gives it to its agent, and prints the ID at the agent's receipt. After DetachWait the
// end follows the handover: queued where the queue manager has stored it, else an error.
func (h *Handover) Detach(ctx context.Context, give func(context.Context) (transfer.State, error)) error {
	waiting, cancel := context.WithTimeout(ctx, DetachWait)
	defer cancel()
	state, err := give(waiting)
	switch at := client.HandoverOf(err); {
	case err == nil:
		h.say(state, client.Receipted)
		return nil
	case at != client.Stored:
		return h.Unfinished(err)
	}
	h.say(transfer.Queued, client.Stored)
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %[2]s %[3]s is queued; `ferry %[2]s watch %[3]s` follows it, `ferry %[2]s cancel %[3]s` ends it", context.Cause(ctx), h.Noun, h.ID)
	}
	fmt.Fprintf(h.Cmd.ErrOrStderr(), "ferry: queued: agent %s has not taken the %s yet\n", h.Agent, h.Noun)
	return output.Exit(transfer.CodeQueued)
}

// Unfinished returns the error of a handover that has ended before the queue manager's acknowledgement. Any other error
// is returned as it is. With --json it prints the ID of a transfer that its agent has refused: lists have it.
func (h *Handover) Unfinished(err error) error {
	if refused := (*client.RefusedError)(nil); errors.As(err, &refused) && h.ID == refused.ID {
		h.say(transfer.Failed, client.Refused)
	}
	var e *client.HandoverError
	if !errors.As(err, &e) {
		return err
	}
	own := *e
	own.Name = fmt.Sprintf("%s %s", h.Noun, h.ID)
	own.Hint = fmt.Sprintf("`ferry %[1]s show %[2]s` says whether it was, and `ferry %[1]s cancel %[2]s` ends it", h.Noun, h.ID)
	if e.At == client.Unacknowledged && h.Undo != nil {
		ctx, cancel := context.WithTimeout(context.Background(), undoWait)
		defer cancel()
		if undone := h.Undo(ctx); undone == nil || transfer.KindOf(undone) == transfer.KindNotFound {
			h.say("", client.Refused)
			return transfer.Errorf(transfer.KindNoManager, "the queue manager has not acknowledged %s, and it is cancelled: %v", own.Name, e.Err)
		}
	}
	h.say("", own.At)
	return &own
}

// SignalEnded reports whether err comes from a wait that a signal has ended.
func SignalEnded(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.As(err, new(*client.HandoverError)))
}

// WatchEnded is the end of a command that only follows. After a signal it says that the followed object continues.
func WatchEnded(ctx context.Context, cmd *cobra.Command, noun, id string, err error) error {
	if !SignalEnded(ctx, err) {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "ferry: told to stop: %[1]s %[2]s goes on; `ferry %[1]s watch %[2]s` follows it, `ferry %[1]s cancel %[2]s` ends it\n", noun, id)
	if sig, ok := session.Signalled(ctx); ok {
		return output.Exit(sig.Code())
	}
	return output.Exit(session.CodeInterrupted)
}

// Interrupted is the end of the wait by a signal. A stored request continues without this command, and a second Ctrl-C
// within a few seconds cancels it.
func (h *Handover) Interrupted(ctx context.Context, err error, cancel func() error) error {
	goesOn := "goes on"
	switch client.HandoverOf(err) {
	case client.Receipted:
	case client.Stored:
		goesOn = fmt.Sprintf("is queued and goes on when agent %s takes it", h.Agent)
		if h.JSON {
			h.say(transfer.Queued, client.Stored)
		}
	default:
		return h.Unfinished(err)
	}

	stderr := h.Cmd.ErrOrStderr()
	if sig, ok := session.Signalled(ctx); ok && sig.Sig == syscall.SIGTERM {
		fmt.Fprintf(stderr, "ferry: told to stop: %[1]s %[2]s %[3]s; `ferry %[1]s watch %[2]s` follows it, `ferry %[1]s cancel %[2]s` ends it\n", h.Noun, h.ID, goesOn)
		return output.Exit(session.CodeTerminated)
	}

	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	fmt.Fprintf(stderr, "ferry: %s %s %s; Ctrl-C again within 3 s cancels it\n", h.Noun, h.ID, goesOn)
	select {
	case <-again:
	case <-time.After(3 * time.Second):
		fmt.Fprintf(stderr, "ferry: `ferry %s watch %s` follows it\n", h.Noun, h.ID)
		return output.Exit(session.CodeInterrupted)
	}
	return cancel()
}
