package serve

import (
	"github.com/spf13/cobra"

	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/node/agents"
	"ferry/internal/transfer"
)

// NewAgentRun makes the command `ferry agent run`.
func NewAgentRun() *cobra.Command {
	var network, dir, join, properties string
	var roots []string
	var standby bool
	f := &agentFlags{}
	c := &cobra.Command{Use: "run NAME...", SuggestFor: []string{"start"}, Short: "Run an agent, or several in one process, against a queue manager",
		Long: `Runs an agent until it is told to stop (SIGTERM or Ctrl-C). Several names make
several agents in one process, with the same roots; each then keeps its state
in a directory of its own name in --dir.

With --standby a second host runs the same agent with the same --dir, on storage
that both share: one instance is active and the other stands by. The one that
stands by takes over when the active one stops, dies, or loses its queue manager.

With --properties settings that are given nowhere else are those of an
agent.properties of IBM MQ MFT, with the UserSandboxes.xml beside it, and NAME may
be left out. The log has the properties that Ferry does not take;
docs/coming-from-mq-mft.md has a table.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if properties != "" {
				var err error
				if args, err = f.takeProperties(cmd, properties, args); err != nil {
					return err
				}
			}
			if len(args) == 0 {
				return usage.OneArg("the agent's name")(cmd, args)
			}
			if network == "" || dir == "" {
				return transfer.Errorf(transfer.KindUsage, "`ferry agent run` needs --network URL and --dir STATEDIR").
					WithHint("FERRY_NETWORK and FERRY_DIR take their place")
			}
			if join != "" && len(args) > 1 {
				return transfer.Errorf(transfer.KindUsage, "--join is for one agent, and %d are named", len(args))
			}
			told, log, stop, err := f.log.Serve(cmd)
			if err != nil {
				return err
			}
			defer stop()
			configs, err := agentsOf(cmd, f, args, dir, roots, log)
			if err != nil {
				return err
			}
			g := &agents.Group{Network: network, Entry: session.EntryOf(cmd, join), Agents: configs, Console: session.ConsoleOf(cmd), Log: log}
			if standby {
				return g.StandBy(told)
			}
			return g.Run(told)
		}}
	fl := c.Flags()
	fl.BoolVar(&standby, "standby", false, "be one of two instances of this agent that share --dir: stand by while the other one is active")
	session.AddNetwork(fl, &network)
	session.AddJoin(c, &join)
	fl.StringVar(&dir, "dir", "", "state directory of this agent; made if it is not there")
	fl.StringVar(&properties, "properties", "", "agent.properties of IBM MQ MFT, for settings that are given nowhere else")
	fl.StringArrayVar(&roots, "root", nil, "directory of files that the agent may read and write, or DIR,mounted for one that it uses only while a file system is mounted there; DIR,ro is only read, DIR,wo only written; may be repeated")
	f.add(c)
	return c
}
