package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/qmgr"
	"ferry/internal/wire"
)

func addPublishXML(fl *pflag.FlagSet, to *bool) {
	fl.BoolVar(to, "publish-xml", false, "publish the progress of transfers, calls, monitors, schedules and agents in the XML of IBM MQ MFT, for ferry audit xml and clients of NATS")
}

func newAuditXML() *cobra.Command {
	q := &query{}
	var live bool
	c := &cobra.Command{Use: "xml", Short: "Print the XML that coordination publishes (--publish-xml), as it comes, until the command is stopped", Args: noArgs,
		Long: `Prints the messages that coordination publishes in the XML of IBM MQ MFT's transfer log:
the start of a transfer, the outcomes of its items and its own outcome; the outcomes of
programs of calls; and changes of monitors and schedules. It needs a coordination with
--publish-xml, and an identity that may see all transfers: of an admin, an operator or an
auditor. Only ferry audit ls has the messages that were published earlier.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			net, ctx, done, err := q.open(cmd)
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
			fmt.Fprintln(cmd.ErrOrStderr(), "ferry: listening; an identity that may not see all transfers receives nothing")
			<-ctx.Done()
			return nil
		}}
	addNetwork(c.Flags(), &q.network)
	c.Flags().BoolVar(&live, "live", false, "print how far running transfers are, and the state of each agent at each heartbeat, too")
	q.timeout = fteAcknowledge
	return c
}
