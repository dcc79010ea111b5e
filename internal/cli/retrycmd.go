package cli

import (
	"github.com/spf13/cobra"
)

func newTransferRetry() *cobra.Command {
	q := &query{}
	f := &sendFlags{}
	var failed bool
	c := &cobra.Command{Use: "retry ID", Short: "Repeat a transfer that is over, or only its failed items; the result code is the new transfer's",
		Long: `Makes a new transfer of one that is over: the same sources, destination and
settings, as the audit log has them. The new one names the old one as its parent.
With --failed only the failed items are sent. --if-exists decides about files that have
arrived already, as with ferry send. A transfer that appends to files, or puts messages
into a queue, is not repeated as a whole unless it was successful.`,
		Example: "  ferry transfer retry 8057a4 --failed\n  ferry transfer retry 8057a4 --if-exists skip",
		Args:    oneID, RunE: func(cmd *cobra.Command, args []string) error {
			net, ctx, done, err := q.open(cmd)
			if err != nil {
				return err
			}
			defer done()
			req, err := net.Retry(ctx, args[0], failed, f.ifExists)
			if err != nil {
				return err
			}
			if err := req.Check(); err != nil {
				return err
			}
			f.json = q.json
			return submitAndWatch(ctx, cmd, net, req, f, newView(cmd, f.json, f.quiet))
		}}
	q.add(c)
	fl := c.Flags()
	fl.BoolVar(&failed, "failed", false, "send only the items that failed")
	fl.StringVar(&f.ifExists, "if-exists", "", "action if the destination exists, as with ferry send (default: as the first time)")
	fl.BoolVar(&f.dryRun, "dry-run", false, "list the files, and send nothing")
	fl.BoolVar(&f.detach, "detach", false, "print the ID and do not wait")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress and no notices")
	return c
}
