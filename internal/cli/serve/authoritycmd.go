package serve

import (
	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client/view"
	"ferry/internal/node/process"
	"ferry/internal/node/queuemanager"
	"ferry/internal/transfer"
)

// NewAuthority makes the command `ferry authority`.
func NewAuthority() *cobra.Command {
	c := &cobra.Command{Use: "authority", Short: "Run the network's authority on its own, and look after its keys", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newAuthorityRun(), newAuthorityExport(), newAuthorityRotate())
	return c
}

func newAuthorityRotate() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "rotate", Short: "Have the authority begin to sign with new keys; the old ones stay good until nothing needs them",
		Long: `Has the authority make a new root with new issuers, and new keys for the JWTs that
queue managers ask for. Each agent and user then renews its identity by itself. Identities
signed with the old keys stay valid until they expire: nothing is interrupted. The
authority drops the old keys after 39 days, or at the next rotation once all identities
have been renewed. Without this command the authority rotates a year before its issuers end.`,
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, a, network, done, err := q.AskAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			if err := a.Rotate(ctx); err != nil {
				return err
			}
			output.Result(cmd, q.JSON, view.Authorised(view.TypeRotated, network), "the authority of the network %s signs with new keys; make a new backup of it\n", network)
			return nil
		}}
	q.Add(c)
	return c
}

// authorityFlags are the settings of `ferry authority run`.
type authorityFlags struct {
	queuemanager.Authority
	log session.LogFlags
}

func newAuthorityRun() *cobra.Command {
	f := &authorityFlags{}
	c := &cobra.Command{Use: "run", Short: "Run the network's authority apart from its queue managers",
		Long: `Runs the authority, which enrols, renews and revokes, in a process of its own. The queue
manager is started with ` + "`ferry up --authority none`" + `. At its first start the authority makes the
network, an identity of this user, and a token for the first queue manager, which it writes
to DIR/first-qm.token. Transfers and connections do not ask it: it may be away for a week.`,
		Example: "  ferry authority run --dir /var/lib/ferry-authority --network nats://hub:4222 --enrol hub2:4223\n" +
			"  ferry up --authority none --join first-qm.token --listen :4222",
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Network == "" || f.Dir == "" {
				return transfer.Errorf(transfer.KindUsage, "`ferry authority run` needs --network URL and --dir DIR")
			}
			ctx, log, stop, err := f.log.Serve(cmd)
			if err != nil {
				return err
			}
			defer stop()
			process.SetSlack(process.SlackOfOthers)
			err = process.WhileFull(ctx, log, "authority", f.Dir, func() error { return f.Run(ctx, cmd.OutOrStdout(), log) })
			if ctx.Err() != nil {
				return nil // told to stop, possibly before the network was reached
			}
			return err
		}}
	fl := c.Flags()
	fl.StringVar(&f.Dir, "dir", "", "directory of the authority; made if it is not there")
	fl.StringVar(&f.Network, "network", "", "URL of a queue manager")
	fl.StringVar(&f.Enrol, "enrol", "", "HOST:PORT where agents, users and queue managers join with a token; open while there is a token (default: the port after the queue manager's; on this host alone where that is)")
	fl.StringVar(&f.QM, "qm", "QM", "name of the first queue manager; the authority writes a token for it")
	fl.BoolVar(&f.External, "external", false, "the queue manager is a server of NATS with the configuration of ferry authority export: do its errands, too")
	f.log.Add(c, "info")
	return c
}
