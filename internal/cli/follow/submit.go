package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/node/process"
	"ferry/internal/transfer"
)

// Submit submits the request and follows it to its end.
func Submit(ctx context.Context, cmd *cobra.Command, s *client.Client, q *transfer.Request, f *request.Flags, v *View) error {
	if err := s.Check(ctx, q); err != nil {
		return session.Unsent(ctx, err)
	}

	if f.DryRun {
		return session.Unsent(ctx, Preview(ctx, cmd, s, q, f.JSON))
	}

	notice := func(err error) { v.Notice("%v", err) }
	h := &Handover{Cmd: cmd, Noun: "transfer", Agent: q.Source, ID: q.ID, JSON: f.JSON}
	if f.Detach {
		return h.Detach(ctx, func(ctx context.Context) (transfer.State, error) {
			p, err := s.Submit(ctx, q, nil)
			if p == nil {
				return transfer.Accepted, err
			}
			return p.State, err
		})
	}

	p, err := s.Run(ctx, q, v.Show, notice)
	if err != nil {
		v.Clear()
	}
	switch {
	case SignalEnded(ctx, err):
		return h.Interrupted(ctx, err, func() error { return cancelled(cmd, s, q, v) })
	case err != nil:
		return h.Unfinished(err)
	}
	return v.Finish(p)
}

// cancelled cancels a transfer and waits for its end.
func cancelled(cmd *cobra.Command, s *client.Client, q *transfer.Request, v *View) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	p, err := s.Cancel(ctx, client.Of(q))
	if err != nil {
		return err
	}
	if !p.State.Final() {
		fmt.Fprintf(cmd.ErrOrStderr(), "ferry: transfer %s is being cancelled\n", q.ID)
		return output.Exit(transfer.CodeCancelled)
	}
	return v.Finish(p)
}

// InProcess submits a request to agents of this process and follows it to its end. A signal cancels it, so that no
// transfer is left running.
func InProcess(ctx context.Context, c *client.Client, q *transfer.Request, v *View) error {
	p, err := c.Submit(ctx, q, nil)
	if err == nil && (p == nil || !p.State.Final()) {
		p, err = c.Watch(ctx, client.Of(q), v.Show, nil)
	}

	if SignalEnded(ctx, err) {
		if err := process.Lost(ctx); err != nil {
			return err
		}
		p, err = interruptedInBox(ctx, c, q)
	}
	if err != nil {
		return err
	}
	return v.Finish(p)
}

// interruptedInBox cancels a transfer after a signal. Where its source is an agent that does not answer, the error is
// that of the signal: the cancel waits for the agent.
func interruptedInBox(told context.Context, c *client.Client, q *transfer.Request) (*transfer.Progress, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cancelWait)
	defer cancel()
	_, err := c.Cancel(ctx, client.Of(q))
	var p *transfer.Progress
	if err == nil || transfer.KindOf(err) == transfer.KindEnding {
		p, err = c.Watch(ctx, client.Of(q), nil, nil)
	}
	var h *client.HandoverError
	stored := errors.As(err, &h) && h.At == client.Stored
	if sig, ok := session.Signalled(told); ok && err != nil && (stored || ctx.Err() != nil) {
		return nil, fmt.Errorf("%w: agent %s has not answered, and cancels the transfer when it is there", sig, q.Source)
	}
	return p, err
}

// cancelWait bounds the wait for the end of a transfer that a signal has cancelled.
const cancelWait = 10 * time.Second

// Times between two questions about a job or a call.
const (
	JobLookFirst = 50 * time.Millisecond
	JobLookMost  = time.Second
)

// Hand submits a request to a network, and waits for its end unless the flags say otherwise.
func Hand(f *request.Flags, cmd *cobra.Command, q *transfer.Request) error {
	if err := session.NeedNetwork(f.Network); err != nil {
		return err
	}
	net, ctx, done, err := f.Connected(cmd)
	if err != nil {
		return err
	}
	defer done()
	return Submit(ctx, cmd, net, q, f, NewView(cmd, f.JSON, f.Quiet))
}
