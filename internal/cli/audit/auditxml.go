package audit

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/qmgr"
	"ferry/internal/wire"
)

// AddPublishXML adds the flag of the processes that run coordination.
func AddPublishXML(fl *pflag.FlagSet, to *bool) {
	fl.BoolVar(to, "publish-xml", false, "publish what becomes of transfers, calls, monitors, schedules and agents in the XML of IBM MQ MFT, for ferry audit xml and clients of NATS")
}

func newAuditXML() *cobra.Command {
	q := &session.Query{}
	var live bool
	c := &cobra.Command{Use: "xml", Short: "Print what coordination publishes in XML (--publish-xml), as it comes, until it is stopped", Args: usage.NoArgs,
		Long: `Prints what coordination publishes of transfers in the XML of IBM MQ MFT's transfer
log: that one has started, which of its items have ended, and how it has ended itself; how
programs of calls have ended; and what has become of monitors and schedules. It takes a coordination with --publish-xml, and an identity that may see everybody's
transfers: of an admin, an operator or an auditor. What was published before it listens is in ferry audit ls alone.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			net, ctx, done, err := q.Open(cmd)
			if err != nil {
				return err
			}
			defer done()
			subjects := []string{wire.AllLogs}
			if live {
				subjects = append(subjects, wire.AllStatus)
			}
			for _, s := range subjects {
				stop, err := net.Conn.Subscribe(s, func(m qmgr.Message) { cmd.OutOrStdout().Write(m.Data) })
				if err != nil {
					return err
				}
				defer stop()
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "ferry: listening; who may not see everybody's transfers hears nothing")
			<-ctx.Done()
			return nil
		}}
	session.AddNetwork(c.Flags(), &q.Network)
	c.Flags().BoolVar(&live, "live", false, "print how far running transfers are, and the state of each agent at each heartbeat, too")
	q.Timeout = 5 * time.Second
	return c
}
