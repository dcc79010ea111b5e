package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/node/process"
	"ferry/internal/transfer"
)

// submitAndWatch submits the request and follows it to its end.
func submitAndWatch(ctx context.Context, cmd *cobra.Command, s *client.Client, q *transfer.Request, f *sendFlags, v *view) error {
	if err := s.Check(ctx, q); err != nil {
		return session.Unsent(ctx, err)
	}

	if f.dryRun {
		return session.Unsent(ctx, dryRun(ctx, cmd, s, q, f.json))
	}

	notice := func(err error) { v.notice("%v", err) }
	h := &handing{cmd: cmd, noun: "transfer", agent: q.Source, id: q.ID, json: f.json}
	if f.detach {
		return h.detach(ctx, func(ctx context.Context) (transfer.State, error) {
			p, err := s.Submit(ctx, q, nil)
			if p == nil {
				return transfer.Accepted, err
			}
			return p.State, err
		})
	}

	p, err := s.Run(ctx, q, v.show, notice)
	if err != nil {
		v.clear()
	}
	switch {
	case signalEnded(ctx, err):
		return h.interrupted(ctx, err, func() error { return cancelled(cmd, s, q, v) })
	case err != nil:
		return h.unfinished(err)
	}
	return v.finish(p)
}

// cancelled cancels a transfer and waits for its end.
func cancelled(cmd *cobra.Command, s *client.Client, q *transfer.Request, v *view) error {
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
	return v.finish(p)
}

// follow submits a request to agents of this process and follows it to its end. A signal cancels it, so that no
// transfer is left running.
func follow(ctx context.Context, c *client.Client, q *transfer.Request, v *view) error {
	p, err := c.Submit(ctx, q, nil)
	if err == nil && (p == nil || !p.State.Final()) {
		p, err = c.Watch(ctx, client.Of(q), v.show, nil)
	}

	if signalEnded(ctx, err) {
		if err := process.Lost(ctx); err != nil {
			return err
		}
		p, err = interruptedInBox(c, q)
	}
	if err != nil {
		return err
	}
	return v.finish(p)
}

func interruptedInBox(c *client.Client, q *transfer.Request) (*transfer.Progress, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := c.Cancel(ctx, client.Of(q)); err != nil && transfer.KindOf(err) != transfer.KindEnding {
		return nil, err
	}
	return c.Watch(ctx, client.Of(q), nil, nil)
}

// Times between two questions about a job or a call.
const (
	jobLookFirst = 50 * time.Millisecond
	jobLookMost  = time.Second
)

// hand submits a request to a network, and waits for its end unless the flags say otherwise.
func (f *sendFlags) hand(cmd *cobra.Command, q *transfer.Request) error {
	if err := session.NeedNetwork(f.network); err != nil {
		return err
	}
	net, ctx, done, err := f.connected(cmd)
	if err != nil {
		return err
	}
	defer done()
	return submitAndWatch(ctx, cmd, net, q, f, newView(cmd, f.json, f.quiet))
}
