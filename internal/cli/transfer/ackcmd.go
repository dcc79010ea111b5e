package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/transfer"
)

func newTransferAck() *cobra.Command {
	q := &session.Query{}
	s := &choice{verb: "ack"}
	var reason string
	c := &cobra.Command{Use: "ack ID... | --failed --since TIME [--job PATTERN]", SuggestFor: []string{"acknowledge"}, Short: "Acknowledge failures: lists of failures leave them out",
		Long: `Puts on record that you have seen the failure of a transfer and leave it as it is. ferry
transfer ls --failed and ferry status leave it out then; ferry transfer ls --failed --all has
it, and ferry transfer show names you, the time and the reason.
Without an ID, --failed acknowledges the failed and partial transfers that --since and the
other filters select and that were neither repeated nor acknowledged.
Failures of another user are acknowledged then only with --user, and --user '*' takes those of
all. Those that were repeated or acknowledged meanwhile are left out.
The transfers must be your own, or you need the authority operate at their source agents.`,
		Example: "  ferry transfer ack 8057a4 --reason 'sent by mail'\n  ferry transfer ack --failed --since yesterday --job 'nightly*' --reason 'BETA was rebuilt'",
		Args:    s.check,
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := s.which.Filter(time.Now())
			if err != nil {
				return err
			}
			net, ctx, done, err := q.Open(cmd)
			if err != nil {
				return err
			}
			defer done()
			ids := args
			if len(args) == 0 {
				others, err := s.failures(ctx, cmd, net, filter, func(p *transfer.Progress) { ids = append(ids, p.ID.String()) })
				if err != nil {
					return err
				}
				if others > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "ferry: left out %s of other users; --user NAME acknowledges those of one, and --user '*' all\n", output.Plural(others, "transfer"))
				}
				if len(ids) == 0 {
					if err := s.which.CheckAgents(ctx, net); err != nil {
						return err
					}
					session.None(cmd, "such open failure", net.Conn.Identity() != nil)
					return nil
				}
				slices.Reverse(ids)
			}
			return all(ctx, cmd, ids, func(ctx context.Context, id string) error {
				p, err := net.Transfer(ctx, id)
				if err != nil {
					return err
				}
				acknowledge := func() error { return client.Acknowledge(ctx, net, p.ID, reason) }
				if len(args) == 0 {
					err = ifOpen(cmd.ErrOrStderr(), p, acknowledge)
				} else {
					err = acknowledge()
				}
				if err == errClosed {
					return nil
				}
				if err != nil {
					return err
				}
				output.Result(cmd, q.JSON, view.ControlOf(view.TypeAcknowledged, p.ID, p.State), "%s acknowledged\n", p.ID)
				return nil
			})
		}}
	q.Add(c)
	c.Flags().BoolVar(&s.failed, "failed", false, "transfers that have failed; needed with --since and the other filters")
	s.which.AddChoice(c)
	c.Flags().StringVar(&reason, "reason", "", "the reason, for the audit log")
	return c
}

// errClosed says that a failure is not open any more.
var errClosed = errors.New("closed")

// ifOpen acknowledges the failure of a transfer that was open when the selection was made. If it is not open any more,
// ifOpen says so on out and returns errClosed: another operator may have been faster.
func ifOpen(out io.Writer, p *transfer.Progress, acknowledge func() error) error {
	over := closed(p)
	if over == "" {
		err := acknowledge()
		if transfer.KindOf(err) != transfer.KindConflict {
			return err
		}
		over = err.Error()
	}
	fmt.Fprintf(out, "ferry: left out transfer %s: %s\n", p.ID, over)
	return errClosed
}
