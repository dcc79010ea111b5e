package serve

import (
	"context"
	"log/slog"
	"net"
	"strings"

	"github.com/spf13/cobra"

	cliaudit "ferry/internal/cli/audit"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/node/member"
	"ferry/internal/node/process"
	"ferry/internal/node/queuemanager"
	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// NewUp makes the command `ferry up`.
func NewUp() *cobra.Command {
	u := &upFlags{}
	f := &u.agentFlags
	c := &cobra.Command{Use: "up", Short: "Run a queue manager, coordination and agents in one process", Args: usage.NoArgs,
		Long: `Runs a queue manager that others reach at --listen, the coordination service, and
the agents that --agent names, until it is told to stop (SIGTERM or Ctrl-C).`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := u.check(cmd); err != nil {
				return err
			}
			if u.cluster != "" && u.authority == "none" && !cmd.Flags().Changed("coordination") {
				u.coordination = "none" // a network has one, and the first member has it
			}
			ctx, log, stop, err := u.log.Serve(cmd)
			if err != nil {
				return err
			}
			defer stop()
			err = process.WhileFull(ctx, log, "queue manager", u.dir, func() error { return u.run(ctx, cmd, log) })
			if ctx.Err() != nil {
				return nil // told to stop, possibly before it was up
			}
			return err
		}}
	fl := c.Flags()
	fl.StringVar(&u.name, "name", "QM", "name of the queue manager")
	fl.StringVar(&u.dir, "dir", "", "state directory (default: the user's; ferry config paths shows it)")
	fl.StringVar(&u.listen, "listen", "127.0.0.1:4222", "HOST:PORT of the queue manager; :PORT listens on every address of this host")
	fl.StringVar(&u.maxStored, "max-stored", "", "bytes of stored delivery that the queue manager may hold, 64 MiB or more (default: 3.5 GiB)")
	fl.StringVar(&u.authority, "authority", "here", "here, or none: the network's authority runs elsewhere (ferry authority run)")
	session.AddJoin(c, &u.join)
	fl.StringVar(&u.coordination, "coordination", "here", "here or none")
	cliaudit.AddPublishXML(fl, &u.publishXML)
	fl.StringVar(&u.enrol, "enrol", "", "HOST:PORT where agents, users and queue managers join with a token; open while there is a token (default: the port after --listen)")
	fl.StringVar(&u.cluster, "cluster", "", "name of the queue manager's cluster: the same at each member")
	fl.StringVar(&u.clusterListen, "cluster-listen", "127.0.0.1:6222", "HOST:PORT for routes of the other members of the cluster")
	fl.StringArrayVar(&u.routes, "route", nil, "HOST:PORT, the --cluster-listen of another member of the cluster; once for each of them")
	fl.BoolVar(&u.insecure, "insecure", false, "no identities and no TLS: each program that reaches --listen may use any name; --listen must be on this host alone")
	fl.StringVar(&u.channelListen, "channel-listen", "", "HOST:PORT for channels from other queue managers (default: none)")
	fl.StringArrayVar(&u.channels, "channel", nil, "NAME=nats://HOST:PORT: a channel to the queue manager NAME, at its --channel-listen; may be repeated")
	fl.StringArrayVar(&u.agents, "agent", nil, "NAME=ROOT: an agent in this process, with a directory that it may read and write, or NAME=ROOT,mounted (see ferry agent run --help); may be repeated, also to give one agent several roots")
	f.add(c)
	return c
}

// upFlags are the settings of `ferry up`.
type upFlags struct {
	agentFlags
	clusterFlags
	name, dir, listen, coordination, enrol string
	authority, join                        string
	insecure                               bool
	maxStored                              string
	stored                                 int64 // it, read
	agents                                 []string
	channelListen                          string
	channels                               []string
	publishXML                             bool
}

// check refuses flags that contradict each other, and fills in the defaults.
func (u *upFlags) check(cmd *cobra.Command) error {
	if u.maxStored != "" {
		n, err := transfer.ParseSize(u.maxStored)
		if err != nil {
			return err
		}
		if u.stored = int64(n); u.stored < streams.MinMaxStored {
			return transfer.Errorf(transfer.KindUsage, "--max-stored %s is too little; it begins at %s", u.maxStored, transfer.FormatBytes(streams.MinMaxStored))
		}
	}
	if u.dir == "" {
		home, err := member.StateDir()
		if err != nil {
			return err
		}
		u.dir = home
	}
	for _, text := range u.channels {
		if _, err := channel.ParseChannel(text); err != nil {
			return err
		}
	}
	if len(u.channels) > 0 { // the network has both at the other end, most likely
		if !cmd.Flags().Changed("authority") && !u.insecure && !queuemanager.HasAuthority(u.dir) {
			u.authority = "none"
		}
		if !cmd.Flags().Changed("coordination") {
			u.coordination = "none"
		}
	}
	if u.coordination != "here" && u.coordination != "none" {
		return transfer.Errorf(transfer.KindUsage, "--coordination %q is unknown; it is here or none", u.coordination)
	}
	switch {
	case u.authority != "here" && u.authority != "none":
		return transfer.Errorf(transfer.KindUsage, "--authority %q is unknown; it is here or none", u.authority)
	case u.authority == "here" && u.join != "":
		return transfer.Errorf(transfer.KindUsage, "--join is for a queue manager of a network with its authority elsewhere").WithHint("give --authority none, too")
	case u.authority == "none" && (u.insecure || u.enrol != ""):
		return transfer.Errorf(transfer.KindUsage, "--insecure and --enrol have no place beside --authority none")
	}
	for flag, at := range map[string]string{"listen": u.listen, "channel-listen": u.channelListen} {
		if host, _, err := net.SplitHostPort(at); u.insecure && err == nil && !member.Loopback(host) {
			return transfer.Errorf(transfer.KindUsage, "--insecure listens on this host alone, and --%s %s is reached from others", flag, at).
				WithHint("leave out --insecure, or listen on 127.0.0.1")
		}
	}
	return u.checkCluster(u.name, u.insecure)
}

// agentRoots reads specifications NAME=ROOT. The names keep the order of their first occurrence.
func agentRoots(specs []string) (names []string, roots map[string][]string, err error) {
	roots = map[string][]string{}
	for _, s := range specs {
		name, root, ok := strings.Cut(s, "=")
		n, err := transfer.ParseAgentName(name)
		if err != nil {
			return nil, nil, err
		}
		if !ok || root == "" {
			return nil, nil, transfer.Errorf(transfer.KindUsage, "agent %s has no root", n).
				WithHint("give --agent " + string(n) + "=DIR, a directory of files that it may read and write")
		}
		if roots[string(n)] == nil {
			names = append(names, string(n))
		}
		roots[string(n)] = append(roots[string(n)], root)
	}
	return names, roots, nil
}

// run runs the queue manager and the agents of the flags until ctx ends.
func (u *upFlags) run(ctx context.Context, cmd *cobra.Command, log *slog.Logger) error {
	names, roots, err := agentRoots(u.agents)
	if err != nil {
		return err
	}
	if err := queuemanager.OwnState(u.dir); err != nil {
		return err
	}
	m := &queuemanager.Config{Name: u.name, Dir: u.dir, Listen: u.listen, Enrol: u.enrol, Insecure: u.insecure, Elsewhere: u.authority == "none", Entry: session.EntryOf(cmd, u.join),
		Cluster: u.member(), Stored: u.stored, ChannelListen: u.channelListen, Coordination: u.coordination == "here", XML: u.publishXML, Console: session.ConsoleOf(cmd), Log: log}
	for _, n := range names {
		cfg, err := u.config(cmd, n, queuemanager.AgentDir(u.dir, n), roots[n], log)
		if err != nil {
			return err
		}
		cfg.Carve = append(cfg.Carve, queuemanager.SecretsOf(u.dir)...)
		m.Agents = append(m.Agents, cfg)
	}
	for _, text := range u.channels {
		c, err := channel.ParseChannel(text)
		if err != nil {
			return err
		}
		m.Channels = append(m.Channels, c)
	}
	return m.Run(ctx)
}
