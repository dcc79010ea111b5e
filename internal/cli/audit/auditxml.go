package audit

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/mft/translate"
	"ferry/internal/qmgr"
	"ferry/internal/wire"
)

// AddPublishXML adds the flag of the processes that run coordination.
func AddPublishXML(fl *pflag.FlagSet, to *bool) {
	fl.BoolVar(to, "publish-xml", false, "publish the progress of transfers, calls, monitors, schedules and agents in the XML of IBM MQ MFT, for ferry audit xml and clients of NATS")
}

func newAuditXML() *cobra.Command {
	q := &session.Query{}
	var live, topics bool
	c := &cobra.Command{Use: "xml", Short: "Print the XML that coordination publishes (--publish-xml), as it comes, until the command is stopped", Args: usage.NoArgs,
		Long: `Prints the messages that coordination publishes in the XML of IBM MQ MFT's transfer log:
the start of a transfer, the outcomes of its items and its own outcome; the outcomes of
programs of calls; and changes of monitors and schedules. It needs a coordination with
--publish-xml, and an identity that may see all transfers: of an admin, an operator or an
auditor. Only ferry audit ls has the messages that were published earlier.

--topics prints a line above each message with the topic under which MQ MFT publishes it:
SYSTEM.FTE/Log/AGENT/ID for a transfer, SYSTEM.FTE/Log/AGENT/Monitors for a monitor.`,
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
				stop, err := net.Conn.Subscribe(s, func(m qmgr.Message) {
					if topics {
						fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", translate.Topic(m.Subject), m.Data)
						return
					}
					cmd.OutOrStdout().Write(m.Data)
				})
				if err != nil {
					return err
				}
				defer stop()
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "ferry: listening; an identity that may not see all transfers receives nothing")
			<-ctx.Done()
			return nil
		}}
	session.AddNetwork(c.Flags(), &q.Network)
	c.Flags().BoolVar(&live, "live", false, "print how far running transfers are, and the state of each agent at each heartbeat, too")
	c.Flags().BoolVar(&topics, "topics", false, "print the topic of MQ MFT on a line above each message")
	q.Timeout = 5 * time.Second
	return c
}
