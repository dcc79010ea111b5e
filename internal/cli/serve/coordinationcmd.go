package serve

import (
	"path/filepath"

	"github.com/spf13/cobra"

	cliaudit "ferry/internal/cli/audit"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/node/coordinator"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// NewCoordination makes the command `ferry coordination`.
func NewCoordination() *cobra.Command {
	c := &cobra.Command{Use: "coordination", Short: "Run the coordination service on its own", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	var network, dir, join string
	var external, standby, xml bool
	var lf session.LogFlags
	run := &cobra.Command{Use: "run", Short: "Keep the registry and the audit log, and answer queries", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if network == "" || dir == "" {
				return transfer.Errorf(transfer.KindUsage, "`ferry coordination run` needs --network URL and --dir DIR")
			}
			if err := keyfile.CheckNotForeign(filepath.Join(dir, "audit")); err != nil {
				return err
			}
			told, log, stop, err := lf.Serve(cmd)
			if err != nil {
				return err
			}
			defer stop()
			c := coordinator.Coordinator{Console: session.ConsoleOf(cmd), Network: network, Dir: dir, Entry: session.EntryOf(cmd, join), Standby: standby, External: external, XML: xml, Log: log}
			return c.Run(told)
		}}
	session.AddNetwork(run.Flags(), &network)
	session.AddJoin(run, &join)
	run.Flags().StringVar(&dir, "dir", "", "directory of the audit log and the registry; made if it is not there")
	cliaudit.AddPublishXML(run.Flags(), &xml)
	run.Flags().BoolVar(&standby, "standby", false, "be one of two coordination services that share --dir: stand by while the other one is active")
	run.Flags().BoolVar(&external, "external", false, "the queue manager is a server of NATS with the configuration of ferry authority export: do its errands, so that the authority may be away")
	lf.Add(run, "info")
	c.AddCommand(run)
	return c
}
