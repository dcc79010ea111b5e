package transfer

import (
	"github.com/spf13/cobra"

	"ferry/internal/cli/follow"
	"ferry/internal/cli/request"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
)

func newTransferRetry() *cobra.Command {
	q := &session.Query{}
	f := &request.Flags{}
	var failed bool
	c := &cobra.Command{Use: "retry ID", Short: "Repeat a transfer that is over, or only its failed items; the result code is the new transfer's",
		Long: `Makes a new transfer of one that is over: the same sources, destination and
settings, as the audit log has them. The new one names the old one as its parent.
With --failed only the failed items are sent. --if-exists decides about files that have
arrived already, as with ferry send. A transfer that appends to files, or puts messages
into a queue, is not repeated as a whole unless it was successful.`,
		Example: "  ferry transfer retry 8057a4 --failed\n  ferry transfer retry 8057a4 --if-exists skip",
		Args:    usage.OneID("transfer"), RunE: func(cmd *cobra.Command, args []string) error {
			net, ctx, done, err := q.Open(cmd)
			if err != nil {
				return err
			}
			defer done()
			req, err := net.Retry(ctx, args[0], failed, f.IfExists)
			if err != nil {
				return err
			}
			if err := req.Check(); err != nil {
				return err
			}
			f.JSON = q.JSON
			return follow.Submit(ctx, cmd, net, req, f, follow.NewView(cmd, f.JSON, f.Quiet))
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
