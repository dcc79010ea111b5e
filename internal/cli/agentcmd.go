package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/agent"
	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func newAgent() *cobra.Command {
	c := &cobra.Command{Use: "agent", Short: "Run an agent, or look at agents", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newAgentRun(), newAgentLs(), newAgentShow(), newAgentPing(), newAgentSet(), newAgentRm())
	return c
}

func newAgentRun() *cobra.Command {
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
				return oneArg("the agent's name")(cmd, args)
			}
			if network == "" || dir == "" {
				return transfer.Errorf(transfer.KindUsage, "`ferry agent run` needs --network URL and --dir STATEDIR")
			}
			if join != "" && len(args) > 1 {
				return transfer.Errorf(transfer.KindUsage, "--join is for one agent, and %d are named", len(args))
			}
			run := agentRun
			if standby {
				run = agentStandby
			}
			return run(cmd, f, args, network, dir, join, roots)
		}}
	fl := c.Flags()
	fl.BoolVar(&standby, "standby", false, "be one of two instances of this agent that share --dir: stand by while the other one is active")
	addNetwork(fl, &network)
	addJoin(c, &join)
	fl.StringVar(&dir, "dir", "", "state directory of this agent; made if it is not there")
	fl.StringVar(&properties, "properties", "", "agent.properties of IBM MQ MFT, for settings that are given nowhere else")
	fl.StringArrayVar(&roots, "root", nil, "directory of files that the agent may read and write, or DIR,mounted for one that it uses only while a file system is mounted there; DIR,ro is only read, DIR,wo only written; may be repeated")
	f.add(c)
	return c
}

func agentRun(cmd *cobra.Command, f *agentFlags, names []string, network, dir, join string, roots []string) error {
	told, log, stop, err := f.log.serve(cmd)
	if err != nil {
		return err
	}
	defer stop()
	configs, err := agentsOf(cmd, f, names, dir, roots, log)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(told)
	defer end(nil)
	running, err := startAgents(ctx, end, cmd, network, join, configs)
	defer func() {
		for _, a := range running {
			a.close()
		}
	}()
	if told.Err() != nil {
		return nil // before all were up
	}
	if err != nil {
		return err
	}

	err = attend(ctx, cmd, running, true)
	log.Info("stopping", "agents", len(configs))
	return cmp.Or(lost(ctx), err)
}

// agentsOf returns the agents of a process without other services. It sets the limits of the process for them.
func agentsOf(cmd *cobra.Command, f *agentFlags, names []string, dir string, roots []string, log logT) ([]agent.Config, error) {
	configs, err := agentConfigs(cmd, f, names, dir, roots, log)
	if err != nil {
		return nil, err
	}
	if _, err := shareFiles(configs, false); err != nil {
		return nil, err
	}
	limitMemory(configs, false)
	collectLess(slackOfOthers)
	return configs, nil
}

// startAtOnce is the number of agents of one process that start at a time. Most of a start is waiting for the disk and
// for the queue manager.
const startAtOnce = 8

// startAgents starts agents, some at a time, and reports each that is ready. Where one cannot start, ctx ends, no more
// are started, and the error gives the reason. The agents that run are returned.
func startAgents(ctx context.Context, end context.CancelCauseFunc, cmd *cobra.Command, network, join string, configs []agent.Config) (running []attended, err error) {
	slow := slowNotice(cmd, network)
	defer slow()
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, startAtOnce)
	ready, said := make([]bool, len(configs)), 0
	for n, cfg := range configs {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			var a attended
			aerr := whileFull(ctx, cfg.Log, "agent "+string(cfg.Name), cfg.Dir, func() (err error) {
				a, err = joinAgent(ctx, cmd, network, join, cfg, slow)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if aerr != nil {
				if err == nil {
					err = cmp.Or(lost(ctx), aerr)
					end(err)
				}
				return
			}
			watchKeeper(ctx, end, a)
			running = append(running, a)
			ready[n] = true
			for ; said < len(ready) && ready[said]; said++ { // in the order of their names
				fmt.Fprintf(cmd.OutOrStdout(), "agent %s ready\n", configs[said].Name)
			}
		})
	}
	all.Wait()
	return running, err
}

// joinAgent starts an agent with the identity in its directory, or with the one that serviceAt gets for it.
func joinAgent(ctx context.Context, cmd *cobra.Command, network, join string, cfg agent.Config, connected func()) (a attended, err error) {
	return a, anew(ctx, func() (refused bool, err error) {
		i, err := serviceAt(ctx, cmd, network, cfg.Dir, join, identity.Agent, string(cfg.Name), cfg.Log)
		if err != nil {
			return false, err
		}
		a, err = startAgent(ctx, qmgr.ConnConfig{URL: network, Name: string(cfg.Name), Self: cfg.Name.Token(), Identity: i,
			TCP: cfg.Direct.Options, Timeout: -1, Log: cfg.Log}, cfg, connected)
		return transfer.KindOf(err) == transfer.KindDenied, err
	})
}

// agentConfigs are the settings of the agents of one process. One agent alone
// has the state directory to itself; each of several has a part of it.
func agentConfigs(cmd *cobra.Command, f *agentFlags, names []string, dir string, roots []string, log logT) ([]agent.Config, error) {
	var all []agent.Config
	seen := map[transfer.AgentName]bool{}
	for _, name := range names {
		own := dir
		if len(names) > 1 {
			own = filepath.Join(dir, strings.ToUpper(name))
		}
		cfg, err := f.config(cmd, name, own, roots, log)
		if err != nil {
			return nil, err
		}
		if seen[cfg.Name] {
			return nil, transfer.Errorf(transfer.KindUsage, "agent %s is named twice", cfg.Name)
		}
		seen[cfg.Name] = true
		if len(roots) == 0 {
			return nil, transfer.Errorf(transfer.KindUsage, "agent %s has no root", cfg.Name).
				WithHint("give --root DIR, a directory of files that it may read and write")
		}
		all = append(all, cfg)
	}
	return all, nil
}

func newCoordination() *cobra.Command {
	c := &cobra.Command{Use: "coordination", Short: "Run the coordination service on its own", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	var network, dir, join string
	var external, standby, xml bool
	var lf logFlags
	run := &cobra.Command{Use: "run", Short: "Keep the registry and the audit log, and answer queries", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if network == "" || dir == "" {
				return transfer.Errorf(transfer.KindUsage, "`ferry coordination run` needs --network URL and --dir DIR")
			}
			if err := keyfile.Own(filepath.Join(dir, "audit")); err != nil {
				return err
			}
			told, log, stop, err := lf.serve(cmd)
			if err != nil {
				return err
			}
			defer stop()
			collectLess(slackOfOthers)
			ctx, end := context.WithCancelCause(told)
			defer end(nil)
			if external {
				stop, err := errandsBeside(ctx, cmd, network, dir, log)
				if err != nil {
					return cmp.Or(lost(ctx), err)
				}
				defer stop()
			}
			var i *identity.Identity
			enrolled := func() (err error) {
				i, err = serviceAt(ctx, cmd, network, dir, join, identity.Coordination, "", log)
				return err
			}
			if standby {
				err = alone(ctx, dir, enrolled)
			} else {
				err = enrolled()
			}
			if err != nil {
				return cmp.Or(lost(ctx), err)
			}
			c := coordinator{cmd: cmd, network: network, dir: dir, i: i, standby: standby, xml: xml, log: log}
			for ctx.Err() == nil {
				if err := c.turn(ctx); err != nil && ctx.Err() == nil {
					return err
				}
			}
			return lost(ctx)
		}}
	addNetwork(run.Flags(), &network)
	addJoin(run, &join)
	run.Flags().StringVar(&dir, "dir", "", "directory of the audit log and the registry; made if it is not there")
	addPublishXML(run.Flags(), &xml)
	run.Flags().BoolVar(&standby, "standby", false, "be one of two coordination services that share --dir: stand by while the other one is active")
	run.Flags().BoolVar(&external, "external", false, "the queue manager is a server of NATS with the configuration of ferry authority export: do its errands, so that the authority may be away")
	lf.add(run, "info")
	c.AddCommand(run)
	return c
}

// A query asks the network something and waits a few seconds for the answer.
type query struct {
	network string
	json    bool
	timeout time.Duration
	who     transfer.Originator // as a document says; zero: this user
}

func (q *query) add(c *cobra.Command) {
	addNetwork(c.Flags(), &q.network)
	c.Flags().BoolVar(&q.json, "json", false, "one JSON object a line")
	c.Flags().DurationVar(&q.timeout, "timeout", 5*time.Second, "how long to wait for an answer")
}

// open connects; the caller closes.
func (q *query) open(cmd *cobra.Command) (*client.Client, context.Context, func(), error) {
	if q.network == "" {
		return nil, nil, nil, transfer.Errorf(transfer.KindUsage, "no network is given").WithHint("give --network URL or set FERRY_NETWORK")
	}

	ctx, stop := untilSignal(cmd.Context())
	log, err := errorLogger(cmd)
	if err != nil {
		stop()
		return nil, nil, nil, err
	}

	conn, err := connectUser(ctx, cmd, q.network, "ferry query", q.timeout, log)
	if err != nil {
		stop()
		return nil, nil, nil, err
	}
	net := newClient(conn, q.network, q.timeout)
	if q.who != (transfer.Originator{}) {
		net.Who = q.who
	}
	return net, ctx, func() { conn.Close(); stop() }, nil
}

// newClient is a client for this user.
func newClient(conn *qmgr.Conn, network string, timeout time.Duration) *client.Client {
	return &client.Client{Conn: conn, Clock: clock.System, Who: client.Me(), Network: network, Timeout: timeout}
}

// openAgent connects to ask about the agent of a name; the caller closes.
func (q *query) openAgent(cmd *cobra.Command, arg string) (transfer.AgentName, *client.Client, context.Context, func(), error) {
	name, err := transfer.ParseAgentName(arg)
	if err != nil {
		return "", nil, nil, nil, err
	}
	c, ctx, done, err := q.open(cmd)
	return name, c, ctx, done, err
}

func newAgentLs() *cobra.Command {
	q := &query{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List agents", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		net, ctx, done, err := q.open(cmd)
		if err != nil {
			return err
		}
		defer done()
		rows := [][]string{{"AGENT", "STATE", "HEARD", "UP SINCE", "HOST", "MODE", "SENDING", "WAITING", "RECEIVING"}}
		err = net.Agents(ctx, func(a *wire.AgentStatus) error {
			if q.json {
				printJSON(cmd, a)
			}
			rows = append(rows, []string{string(a.Agent), a.Status, age(a.Age), upSince(a), a.Host, a.Mode,
				fmt.Sprint(a.SourceRun), fmt.Sprint(a.SourceWait), fmt.Sprint(a.DestRun)})
			for _, s := range a.Standbys {
				rows = append(rows, []string{string(a.Agent), s.Status, age(s.Age), stamp(s.Started), s.Host, "", "", "", ""})
			}
			return nil
		})
		if err == nil && !q.json {
			table(cmd.OutOrStdout(), rows)
		}
		return err
	}}
	q.add(c)
	return c
}

// age describes the time since a heartbeat.
func age(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(time.Second).String() + " ago"
}

// upSince returns the time at which the agent started, while it runs.
func upSince(a *wire.AgentStatus) string {
	if a.Status == wire.AgentStopped || a.Status == wire.AgentUnreachable {
		return "-"
	}
	return stamp(a.Started)
}

func newAgentRm() *cobra.Command {
	q := &query{}
	c := &cobra.Command{Use: "rm NAME", SuggestFor: []string{"remove", "delete"}, Short: "Take an agent that is away out of the registry; its record in the audit log stays", Args: oneArg("the agent's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, net, ctx, done, err := q.openAgent(cmd, args[0])
			if err != nil {
				return err
			}
			defer done()
			if err := net.RemoveAgent(ctx, name); err != nil {
				return err
			}
			if q.json {
				printJSON(cmd, agentLine{MessageType: "removed", Agent: name})
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "agent %s removed\n", name)
			}
			return nil
		}}
	q.add(c)
	return c
}

func newAgentSet() *cobra.Command {
	q := &query{}
	var limits []string
	c := &cobra.Command{Use: "set NAME --limit RATE", Short: "Change how fast an agent sends, while it runs", Args: oneArg("the agent's name"),
		Long: `Changes the sending rate of an agent, for running transfers, too. The change holds
until the agent is started again. Then its own --limit holds.`,
		Example: "  ferry agent set ALPHA --limit 10M\n  ferry agent set ALPHA --limit BETA=\"08:00,512K 19:00,off\"\n  ferry agent set ALPHA --limit off",
		RunE: func(cmd *cobra.Command, args []string) error {
			tables, err := parseLimits(limits)
			if err == nil && len(tables) == 0 {
				err = transfer.Errorf(transfer.KindUsage, "`ferry agent set` needs a setting to change").WithHint("give --limit RATE, or --limit off")
			}
			if err != nil {
				return err
			}
			name, net, ctx, done, err := q.openAgent(cmd, args[0])
			if err != nil {
				return err
			}
			defer done()
			rates := map[transfer.AgentName]string{}
			for to, t := range tables {
				rates[to] = t.String()
			}
			now, err := net.SetRates(ctx, name, rates)
			if err != nil {
				return err
			}
			if q.json {
				printJSON(cmd, agentLine{"set", name, now.Rates})
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "agent %s sends at most: %s\n", name, ratesText(now.Rates))
			}
			return nil
		}}
	q.add(c)
	c.Flags().StringArrayVar(&limits, "limit", nil, "bytes a second: 10M, off, or by the hour \"08:00,512K 19:00,off\"; AGENT=10M for the data to one agent; may be repeated")
	return c
}

// ratesText describes the sending rates of an agent.
func ratesText(rates map[transfer.AgentName]string) string {
	var all []string
	for _, to := range slices.Sorted(maps.Keys(rates)) {
		if to == "" {
			all = append(all, rates[to])
		} else {
			all = append(all, rates[to]+" to "+string(to))
		}
	}
	return or(printable(strings.Join(all, "; ")), "no limit")
}

func newAgentShow() *cobra.Command {
	q := &query{}
	c := &cobra.Command{Use: "show NAME", Short: "Show one agent", Args: oneArg("the agent's name"), RunE: func(cmd *cobra.Command, args []string) error {
		name, net, ctx, done, err := q.openAgent(cmd, args[0])
		if err != nil {
			return err
		}
		defer done()
		a, err := net.Agent(ctx, name)
		if err != nil {
			return err
		}
		if q.json {
			printJSON(cmd, a)
			return nil
		}
		rows := [][]string{
			{"agent", string(a.Agent)}, {"state", a.Status}, {"reason", a.Reason}, {"last heard of", age(a.Age)},
			{"host", a.Host + " (" + a.Platform + ")"}, {"version", a.Version}, {"started", stamp(a.Started)},
			{"queue manager", strings.TrimSpace(printable(a.Manager) + " in " + a.Mode + " mode")}, {"durability", or(a.Durability, "synced always")},
			{"roots", strings.Join(a.Roots, " ")}, {"sending", fmt.Sprintf("%d of %d, %d waiting of %d, %d parked", a.SourceRun, a.MaxSource, a.SourceWait, a.MaxQueued, a.Parked)},
			{"receiving", fmt.Sprintf("%d of %d", a.DestRun, a.MaxDest)}, {"sends at most", ratesText(a.Rates)}, {"audit outbox", plural(int64(a.Outbox), "record")},
			{"chunk, window, frame, checkpoint", settingsText(a.Settings)}, {"platform lacks", or(strings.Join(a.Limits, "; "), "nothing")},
			{"incarnation", a.Incarnation}, {"instance", a.Instance},
		}
		for _, s := range a.Standbys {
			rows = append(rows, []string{"standby", fmt.Sprintf("%s (%s), version %s, since %s, heard %s, instance %s", s.Host, s.Platform, s.Version, stamp(s.Started), age(s.Age), s.Instance)})
		}
		table(cmd.OutOrStdout(), rows)
		return nil
	}}
	q.add(c)
	return c
}

func or(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

func settingsText(s transfer.Settings) string {
	if s.ChunkSize == 0 {
		return "-" // not negotiated yet
	}
	return fmt.Sprintf("%s, %d, %d, %d", transfer.FormatBytes(int64(s.ChunkSize)), s.WindowSize, s.FrameSize, s.CheckpointInterval)
}

func newAgentPing() *cobra.Command {
	q := &query{}
	c := &cobra.Command{Use: "ping NAME", Short: "Ask an agent whether it is there", Args: oneArg("the agent's name"), RunE: func(cmd *cobra.Command, args []string) error {
		name, net, ctx, done, err := q.openAgent(cmd, args[0])
		if err != nil {
			return err
		}
		defer done()
		b, took, err := net.Ping(ctx, name)
		if err != nil {
			return err
		}
		if q.json {
			printJSON(cmd, pingLine{name, took.Seconds(), b.Status})
		} else {
			fmt.Fprintf(cmd.OutOrStdout(), "agent %s answered in %.1f ms: %s\n", name, float64(took.Microseconds())/1000, printable(b.Status))
		}
		return nil
	}}
	q.add(c)
	return c
}
