package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	cliaudit "ferry/internal/cli/audit"
	"ferry/internal/cli/follow"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/transfer"
)

// each repeats transfers one after another until ctx ends, and explains errors. Its error is the result code of the first
// that was not successful.
func each(ctx context.Context, ids []string, one func(id string) error, explain func(error)) error {
	var first output.Exit
	for _, id := range ids {
		err := one(id)
		if err == nil {
			continue
		}
		var code output.Exit
		if !errors.As(err, &code) {
			explain(err)
			code = output.Exit(transfer.KindOf(err).Code())
		}
		if first == 0 {
			first = code
		}
		if ctx.Err() != nil {
			break
		}
	}
	if first != 0 {
		return first
	}
	return nil
}

func newTransferRetry() *cobra.Command {
	q := &session.Query{}
	f := &request.Flags{}
	which := &cliaudit.FilterFlags{}
	var failed bool
	c := &cobra.Command{Use: "retry ID... | --failed --since TIME [--job PATTERN]", Short: "Repeat transfers that are over, or only their failed items; the result code is the new transfer's",
		Long: `Makes a new transfer of one that is over: the same sources, destination and
settings, as the audit log has them. The new one names the old one as its parent, and ferry
transfer show names the new one with the old one.
With --failed only the failed items are sent. --if-exists decides about files that have
arrived already, as with ferry send. A transfer that appends to files, or puts messages
into a queue, is not repeated as a whole unless it was successful.
Several transfers are repeated one after another. The result code is then that of the first
new transfer that was not successful; a transfer that cannot be repeated does not keep the
others.
Without an ID, --failed repeats the failed and partial transfers that --since and the other
filters select, the oldest first. It leaves out those that were repeated before, and those
that the rules refused. Transfers of another user are repeated only with --user.
A new transfer has your name and your rights, also where the old one was another user's.`,
		Example: "  ferry transfer retry 8057a4 --failed\n  ferry transfer retry 8057a4 --if-exists skip\n  ferry transfer retry 8057a4 91c0e2 --failed\n  ferry transfer retry --failed --since yesterday --job 'nightly*'",
		Args: func(cmd *cobra.Command, args []string) error {
			chosen := which.Chosen(cmd)
			switch {
			case len(args) > 0 && chosen != "":
				return transfer.Errorf(transfer.KindUsage, "`ferry transfer retry` takes IDs or --%s, not both", chosen)
			case chosen != "" && !failed:
				return transfer.Errorf(transfer.KindUsage, "--%s selects transfers that have failed, and needs --failed", chosen)
			case chosen != "":
				return nil
			case len(args) == 0 && failed:
				return transfer.Errorf(transfer.KindUsage, "`ferry transfer retry --failed` needs IDs, or --since or another filter").WithHint("`ferry transfer ls --failed` lists the transfers")
			}
			return usage.IDs("transfer")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := which.Filter(time.Now())
			if err != nil {
				return err
			}
			net, ctx, done, err := q.Open(cmd)
			if err != nil {
				return err
			}
			defer done()
			f.JSON = q.JSON
			if len(args) > 0 {
				return repeat(ctx, cmd, net, f, args, func(string) bool { return failed })
			}
			filter.States, filter.Open = []transfer.State{transfer.Failed, transfer.Partial}, true
			var ids []string
			whole := map[string]bool{}
			others, denied := 0, 0
			if _, err := net.Transfers(ctx, filter, which.Limit, func(p *transfer.Progress) error {
				switch {
				case p.Code == transfer.KindDenied.Code():
					denied++
					return nil
				case filter.User == "" && net.Conn.Identity() != nil && p.Principal != net.Conn.Self():
					others++
					return nil
				}
				ids = append(ids, p.ID.String())
				whole[p.ID.String()] = p.Files == 0 && p.FilesFailed == 0 // it ended before any of its items was decided
				return nil
			}); err != nil {
				return err
			}
			if denied > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "ferry: left out %d transfers that the rules refused; ferry transfer retry ID repeats one in your name\n", denied)
			}
			if others > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "ferry: left out %d transfers of other users; --user NAME repeats those of one in your name, with your rights\n", others)
			}
			if len(ids) == 0 {
				if err := which.CheckAgents(ctx, net); err != nil {
					return err
				}
				session.None(cmd, "such transfer that was not repeated", net.Conn.Identity() != nil)
				return nil
			}
			slices.Reverse(ids)
			return repeat(ctx, cmd, net, f, ids, func(id string) bool { return !whole[id] })
		}}
	q.Add(c)
	fl := c.Flags()
	fl.BoolVar(&failed, "failed", false, "send only the items that failed")
	which.AddChoice(c)
	fl.StringVar(&f.IfExists, "if-exists", "", "action if the destination exists, as with ferry send (default: as the first time)")
	fl.BoolVar(&f.DryRun, "dry-run", false, "list the files, and send nothing")
	fl.BoolVar(&f.Detach, "detach", false, "print the ID and do not wait")
	fl.BoolVarP(&f.Quiet, "quiet", "q", false, "no progress and no notices")
	return c
}

// repeat repeats transfers, one after another. failed reports whether only the failed items of one are sent.
func repeat(ctx context.Context, cmd *cobra.Command, net *client.Client, f *request.Flags, ids []string, failed func(id string) bool) error {
	one := func(id string) error {
		req, err := net.Retry(ctx, id, failed(id), f.IfExists)
		if err == nil {
			err = req.Check()
		}
		if err != nil {
			return err
		}
		return follow.Submit(ctx, cmd, net, req, f, follow.NewView(cmd, f.JSON, f.Quiet))
	}
	if len(ids) == 1 {
		return one(ids[0])
	}
	return each(ctx, ids, one, func(err error) { output.Explain(cmd.ErrOrStderr(), err) })
}
