package transfer

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"ferry/internal/cli/follow"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
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
	var failed bool
	c := &cobra.Command{Use: "retry ID...", Short: "Repeat transfers that are over, or only their failed items; the result code is the new transfer's",
		Long: `Makes a new transfer of one that is over: the same sources, destination and
settings, as the audit log has them. The new one names the old one as its parent.
With --failed only the failed items are sent. --if-exists decides about files that have
arrived already, as with ferry send. A transfer that appends to files, or puts messages
into a queue, is not repeated as a whole unless it was successful.
Several transfers are repeated one after another. The result code is then that of the first
new transfer that was not successful; a transfer that cannot be repeated does not keep the
others.`,
		Example: "  ferry transfer retry 8057a4 --failed\n  ferry transfer retry 8057a4 --if-exists skip\n  ferry transfer retry 8057a4 91c0e2 --failed",
		Args:    usage.IDs("transfer"), RunE: func(cmd *cobra.Command, args []string) error {
			net, ctx, done, err := q.Open(cmd)
			if err != nil {
				return err
			}
			defer done()
			f.JSON = q.JSON
			one := func(id string) error {
				req, err := net.Retry(ctx, id, failed, f.IfExists)
				if err == nil {
					err = req.Check()
				}
				if err != nil {
					return err
				}
				return follow.Submit(ctx, cmd, net, req, f, follow.NewView(cmd, f.JSON, f.Quiet))
			}
			if len(args) == 1 {
				return one(args[0])
			}
			return each(ctx, args, one, func(err error) { output.Explain(cmd.ErrOrStderr(), err) })
		}}
	q.Add(c)
	fl := c.Flags()
	fl.BoolVar(&failed, "failed", false, "send only the items that failed")
	fl.StringVar(&f.IfExists, "if-exists", "", "action if the destination exists, as with ferry send (default: as the first time)")
	fl.BoolVar(&f.DryRun, "dry-run", false, "list the files, and send nothing")
	fl.BoolVar(&f.Detach, "detach", false, "print the ID and do not wait")
	fl.BoolVarP(&f.Quiet, "quiet", "q", false, "no progress and no notices")
	return c
}
