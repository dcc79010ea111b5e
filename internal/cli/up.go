package cli

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"ferry/internal/agent"
	"ferry/internal/content/conversion"
	"ferry/internal/coordination"
	"ferry/internal/flow"
	"ferry/internal/place/local/disk"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/trust"
	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// agentFlags are the settings of an agent, for up and for agent run.
type agentFlags struct {
	chunkSize, memory                    string
	log                                  logFlags
	window, frame, checkpoint            int
	maxSource, maxDestination, maxQueued int
	outboxLimit                          int64
	direct, directListen                 string
	directAdvertise                      string
	directConnections                    int
	delay, quickAck                      bool
	sendBuffer, receiveBuffer            string
	encoding, eol, replace, recordRoot   string
	sandbox                              sandboxFlag
	programs                             string
	limits                               []string
}

func (f *agentFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.chunkSize, "chunk-size", "auto", "bytes of one data message, 4K to 1M; auto is 256K, or 1M on the direct lane")
	fl.IntVar(&f.window, "window", 0, "chunks to one acknowledgement; 0 begins with 10 and finds out")
	fl.IntVar(&f.frame, "frame", 0, "windows that a sender may run ahead; 0 begins with 5 and finds out")
	fl.IntVar(&f.checkpoint, "checkpoint-interval", 1, "frames to one checkpoint")
	fl.IntVar(&f.maxSource, "max-source-transfers", 25, "transfers sent at once")
	fl.IntVar(&f.maxDestination, "max-destination-transfers", 25, "transfers received at once")
	fl.IntVar(&f.maxQueued, "max-queued-transfers", 1000, "transfers running or waiting at the source")
	fl.StringVar(&f.memory, "memory", "64M", "bytes of data in flight to this agent")
	fl.Int64Var(&f.outboxLimit, "outbox-limit", 100_000, "audit records that may wait for coordination")
	fl.StringVar(&f.direct, "direct", "tls", "direct lane between agents: tls, plain or off; the same at both ends of a transfer")
	fl.StringVar(&f.directListen, "direct-listen", "", "HOST:PORT of the direct lane, or none (default: a free port of the address that connects to the queue manager)")
	fl.StringVar(&f.directAdvertise, "direct-advertise", "", "HOST:PORT that other agents are told to dial instead")
	fl.IntVar(&f.directConnections, "direct-connections", 1, "connections that are dialled to each other agent, 1 to 16")
	fl.BoolVar(&f.delay, "tcp-delay", false, "leave Nagle's algorithm on: small writes wait for an acknowledgement")
	fl.BoolVar(&f.quickAck, "tcp-quick-ack", false, "acknowledge arriving data at once (Linux)")
	fl.StringVar(&f.sendBuffer, "tcp-send-buffer", "0", "bytes of each connection's send buffer; 0: the system adapts it")
	fl.StringVar(&f.receiveBuffer, "tcp-receive-buffer", "0", "bytes of each connection's receive buffer; 0: the system adapts it")
	fl.StringVar(&f.encoding, "encoding", "UTF-8", "code page of text files here, where nothing else says it")
	fl.StringVar(&f.eol, "eol", "", "how lines of text files end here: lf, crlf or nl (default: as on this system; NL in EBCDIC)")
	fl.StringVar(&f.replace, "replace", "", "replacement for text that cannot be converted (default: the file fails)")
	fl.StringVar(&f.recordRoot, "record-root", "", "directory of the data sets, beneath a root (default: the first root)")
	fl.StringArrayVar(&f.limits, "limit", nil, "bytes a second that it sends at most: 10M, or by the hour \"08:00,512K 19:00,off\" (also Mon-08:00,1M); AGENT=10M for the data to one agent; may be repeated")
	fl.StringVar(&f.sandbox.file, "sandbox", "", "file with rules as ferry policy apply takes them, which hold here beside those of the network and only take rights away")
	fl.StringVar(&f.programs, "programs", "", "directory of the programs that transfers may have run here before and after them (default: none are run)")
	f.log.add(c, "info")
}

// parseLimits reads RATE and AGENT=RATE, where a rate may be a timetable.
func parseLimits(limits []string) (map[transfer.AgentName]flow.Timetable, error) {
	all := map[transfer.AgentName]flow.Timetable{}
	for _, l := range limits {
		var to transfer.AgentName
		if name, rate, ok := strings.Cut(l, "="); ok {
			n, err := transfer.ParseAgentName(name)
			if err != nil {
				return nil, err
			}
			to, l = n, rate
		}
		table, err := flow.ParseTimetable(l)
		if err != nil {
			return nil, err
		}
		all[to] = table
	}
	return all, nil
}

func (f *agentFlags) config(cmd *cobra.Command, name, dir string, roots []string, log logT) (agent.Config, error) {
	var c agent.Config
	n, err := transfer.ParseAgentName(name)
	if err == nil {
		err = keyfile.Own(filepath.Join(dir, "items"))
	}
	if err != nil {
		return c, err
	}

	var chunk int
	if f.chunkSize != "auto" {
		if chunk, err = transfer.ParseSize(f.chunkSize); err != nil {
			return c, err
		}
	}

	memory, err := transfer.ParseSize(f.memory)
	if err != nil {
		return c, err
	}

	direct, err := f.directLane()
	if err != nil {
		return c, err
	}

	for what, v := range map[string]int{"max-source-transfers": f.maxSource, "max-destination-transfers": f.maxDestination, "max-queued-transfers": f.maxQueued} {
		if v < 1 || v > 100_000 {
			return c, transfer.Errorf(transfer.KindUsage, "--%s %d is out of range; it goes from 1 to 100000", what, v)
		}
	}
	if err := disk.CheckRoots(roots); err != nil {
		return c, err
	}

	c = agent.Config{Name: n, Dir: dir, Roots: roots, MaxSource: f.maxSource, MaxDestination: f.maxDestination, MaxQueued: f.maxQueued,
		Memory: int64(memory), OutboxLimit: f.outboxLimit, Version: version, Log: log, Direct: direct,
		Duties:   duties,
		Settings: transfer.Settings{ChunkSize: chunk, WindowSize: f.window, FrameSize: f.frame, CheckpointInterval: f.checkpoint}}
	if c.Rates, err = parseLimits(f.limits); err != nil {
		return c, err
	}

	if c.RecordRoot, err = f.records(roots); err != nil {
		return c, err
	}

	if c.Sandbox, err = f.sandbox.read(cmd); err != nil {
		return c, err
	}
	c.Carve, c.Programs = secretDirs(cmd), f.programs

	c.Content = conversion.Defaults{Encoding: f.encoding, EOL: f.eol, Replace: f.replace}
	if err := c.Content.Check(); err != nil {
		return c, err
	}
	return c, c.Settings.Check()
}

// records returns the directory of data sets; empty where that is the first root.
func (f *agentFlags) records(roots []string) (string, error) {
	if f.recordRoot == "" {
		return "", nil
	}

	at, err := filepath.Abs(f.recordRoot)
	if err != nil {
		return "", transfer.Errorf(transfer.KindUsage, "--record-root %s: %w", f.recordRoot, err)
	}

	for _, r := range roots {
		dir := disk.ParseRoot(r).Dir
		root, err := filepath.Abs(dir)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, at); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(at), nil
		}
	}

	return "", transfer.Errorf(transfer.KindUsage, "--record-root %s lies beneath no --root", f.recordRoot).
		WithHint("choose a directory beneath one, or give it as a root, too")
}

// directLane is the agent's part of the direct lane.
func (f *agentFlags) directLane() (d agent.Direct, err error) {
	switch f.direct {
	case "tls", "plain", agent.DirectOff:
	default:
		return d, transfer.Errorf(transfer.KindUsage, "--direct %q is unknown; it is one of tls, plain, off", f.direct)
	}

	for _, a := range []struct{ flag, value string }{{"direct-listen", f.directListen}, {"direct-advertise", f.directAdvertise}} {
		if a.value == "" || a.value == "none" && a.flag == "direct-listen" {
			continue
		}
		if _, _, err := net.SplitHostPort(a.value); err != nil {
			return d, transfer.Errorf(transfer.KindUsage, "--%s %q is no HOST:PORT", a.flag, a.value)
		}
	}

	if f.directConnections < 1 || f.directConnections > 16 {
		return d, transfer.Errorf(transfer.KindUsage, "--direct-connections %d is out of range; it goes from 1 to 16", f.directConnections)
	}

	d = agent.Direct{Mode: f.direct, Listen: f.directListen, Advertise: f.directAdvertise, Connections: f.directConnections}
	d.Options, err = f.tcpOptions()
	return d, err
}

// tcpOptions are those of both lanes' connections.
func (f *agentFlags) tcpOptions() (o tcp.Options, err error) {
	o.Delay, o.QuickAck = f.delay, f.quickAck
	if o.SendBuffer, err = transfer.ParseSize(f.sendBuffer); err != nil {
		return o, err
	}
	if o.ReceiveBuffer, err = transfer.ParseSize(f.receiveBuffer); err != nil {
		return o, err
	}
	if err := o.Check(); err != nil {
		return o, transfer.Errorf(transfer.KindUsage, "%w", err)
	}
	return o, nil
}

func newUp() *cobra.Command {
	u := &upFlags{}
	f := &u.agentFlags
	c := &cobra.Command{Use: "up", Short: "Run a queue manager, coordination and agents in one process", Args: noArgs,
		Long: `Runs a queue manager that others reach at --listen, the coordination service, and
the agents that --agent names, until it is told to stop (SIGTERM or Ctrl-C).`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := u.check(cmd); err != nil {
				return err
			}
			if u.cluster != "" && u.authority == "none" && !cmd.Flags().Changed("coordination") {
				u.coordination = "none" // a network has one, and the first member has it
			}
			ctx, log, stop, err := u.log.serve(cmd)
			if err != nil {
				return err
			}
			defer stop()
			err = whileFull(ctx, log, "queue manager", u.dir, func() error { return up(ctx, cmd, u, log) })
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
	addJoin(c, &u.join)
	fl.StringVar(&u.coordination, "coordination", "here", "here or none")
	addPublishXML(fl, &u.publishXML)
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
	name, dir, listen, coordination, enrol string
	authority, join                        string
	cluster, clusterListen                 string
	routes                                 []string
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
		home, err := stateDir()
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
		if _, err := os.Lstat(filepath.Join(u.dir, authorityDir)); !cmd.Flags().Changed("authority") && !u.insecure && err != nil {
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
		if host, _, err := net.SplitHostPort(at); u.insecure && err == nil && !loopback(host) {
			return transfer.Errorf(transfer.KindUsage, "--insecure listens on this host alone, and --%s %s is reached from others", flag, at).
				WithHint("leave out --insecure, or listen on 127.0.0.1")
		}
	}
	return u.checkCluster()
}

func up(ctx context.Context, cmd *cobra.Command, u *upFlags, log logT) error {
	names, roots, err := agentRoots(u.agents)
	if err != nil {
		return err
	}
	for _, own := range []string{"qm", filepath.Join("coordination", "audit")} {
		if err := keyfile.Own(filepath.Join(u.dir, own)); err != nil {
			return err
		}
	}

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var configs []agent.Config
	for _, n := range names {
		cfg, err := u.config(cmd, n, filepath.Join(u.dir, "agents", n), roots[n], log)
		if err != nil {
			return err
		}
		for _, own := range []string{authorityDir, identitiesDir, "agents", "qm", "coordination"} {
			cfg.Carve = append(cfg.Carve, filepath.Join(u.dir, own))
		}
		configs = append(configs, cfg)
	}

	clients, err := shareFiles(configs, true)
	if err != nil {
		return err
	}

	h, server, err := u.manager(ctx, cmd, clients, log)
	if err != nil {
		return err
	}
	defer server.Shutdown()
	defer h.stop()

	watchKeeper(ctx, end, server)
	own, err := h.caller(server, wire.Up, identity.Manager, "ferry up", log)
	if err != nil {
		return err
	}
	own.Early = true
	conn, err := qmgr.Connect(ctx, own)
	if err != nil {
		return err
	}
	defer conn.Close()
	desk, err := openDesk(conn, server.Channels(), h.document, names)
	if err != nil {
		return err
	}
	if err := awaitCluster(ctx, cmd, server); err != nil {
		return cmp.Or(lost(ctx), err)
	}

	beside := &services{ctx: ctx, end: end, log: log}
	if u.coordination == "here" {
		own, err := h.caller(server, wire.Coordination, identity.Coordination, "ferry coordination", log)
		if err != nil {
			return err
		}
		conn, err := qmgr.Connect(ctx, own)
		if err != nil {
			return err
		}
		defer conn.Close()
		cfg := coordination.Config{Dir: filepath.Join(u.dir, "coordination"), Log: log, XML: u.publishXML}
		if err := beside.coordinate(cfg, conn, desk); err != nil {
			return err
		}
	}
	desk.begun.Store(true)
	defer beside.stop() // before the connection of coordination is closed

	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "queue manager %s ready at %s%s\n", server.Name(), server.URL(), u.remark())
	if at := server.Channels().Addr(); at != "" {
		fmt.Fprintf(out, "channels of other queue managers come in at %s\n", at)
	}
	limitMemory(configs, true)
	collectLess(slackOfManager)
	for i, n := range names {
		own, err := h.caller(server, transfer.AgentName(n).Token(), identity.Agent, n, log)
		if transfer.KindOf(err) == transfer.KindDenied { // that error does not concern the other services
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: %s\n", printable(err.Error()))
			continue
		}
		if err != nil {
			return err
		}
		if err := beside.run(service{name: "agent " + n, dir: configs[i].Dir, start: func() (run, stop func(), err error) {
			a, err := startAgent(ctx, own, configs[i], func() {})
			if err != nil {
				return nil, nil, err
			}
			watchKeeper(ctx, end, a)
			a.ended = func() { desk.ready[n].Store(false) }
			desk.ready[n].Store(true)
			fmt.Fprintf(out, "agent %s ready\n", a.Name())
			return func() { attend(ctx, cmd, []attended{a}, false) }, a.close, nil
		}}); err != nil {
			return cmp.Or(lost(ctx), err)
		}
	}

	<-ctx.Done()
	log.Info("stopping")
	return lost(ctx)
}

// remark is a note in the message of the start: the queue manager is insecure, or it listens on every address.
func (u *upFlags) remark() string {
	host, _, err := net.SplitHostPort(u.listen)
	ip := net.ParseIP(host)
	switch {
	case u.insecure:
		return " (INSECURE: no TLS, no identities)"
	case err == nil && (host == "" || ip != nil && ip.IsUnspecified()):
		return " (on every address of this host)"
	}
	return ""
}

// A house knows the services beside a queue manager. A nil home is a house without identities.
type house interface {
	caller(server *server.Server, token string, role identity.Role, name string, log logT) (qmgr.ConnConfig, error)
	// document is the newest trust document; nil where there are no identities.
	document() (*trust.Document, error)
	stop()
}

// manager starts the queue manager and, unless it is insecure or elsewhere, the network's authority.
func (u *upFlags) manager(ctx context.Context, cmd *cobra.Command, clients int, log logT) (house, *server.Server, error) {
	if u.authority == "none" {
		return u.outpost(ctx, cmd, clients, log)
	}
	return u.founded(ctx, clients, log)
}

// server returns the configuration of the queue manager, without its guard.
func (u *upFlags) server(clients int, log logT) (server.Config, error) {
	cfg := server.Config{Name: u.name, Dir: filepath.Join(u.dir, "qm"), Listen: u.listen, MaxStored: u.stored, ChannelListen: u.channelListen, Clients: clients, Cluster: u.member(), Log: log}
	for _, text := range u.channels {
		c, err := channel.ParseChannel(text)
		if err != nil {
			return cfg, err
		}
		cfg.Channels = append(cfg.Channels, c)
	}
	return cfg, nil
}

// founded starts a queue manager with the authority beside it.
func (u *upFlags) founded(ctx context.Context, clients int, log logT) (h *home, manager *server.Server, err error) {
	cfg, err := u.server(clients, log)
	if err != nil {
		return nil, nil, err
	}
	if u.insecure {
		log.Warn("insecure: each program that reaches the queue manager may use any name", "listen", u.listen)
		if err := forgetAddresses(u.listen); err != nil {
			return nil, nil, err
		}
		manager, err = server.Start(ctx, cfg)
		return nil, manager, err
	}

	if h, err = openHome(ctx, u.dir, log); err != nil {
		return nil, nil, err
	}
	if cfg.Guard, err = h.guard(u.name); err == nil {
		manager, err = server.Start(ctx, cfg)
	}
	if err == nil {
		err = h.attend(manager, u.listen, u.enrol)
	}
	if err != nil {
		h.stop()
		if manager != nil {
			manager.Shutdown()
		}
		return nil, nil, err
	}
	return h, manager, nil
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

// An agentLink is the connection of an agent, which may be there before the agent is.
type agentLink struct {
	cfg     qmgr.ConnConfig
	running atomic.Pointer[agent.Agent]
	refused chan error
}

// newAgentLink completes how an agent connects.
func newAgentLink(cc qmgr.ConnConfig) *agentLink {
	l := &agentLink{cfg: cc, refused: make(chan error, 1)}
	l.cfg.OnConnect = func() {
		if a := l.running.Load(); a != nil {
			a.Reconnected()
		}
	}
	l.cfg.OnRefused = func(err error) {
		select {
		case l.refused <- err:
		default: // it was reported
		}
	}
	return l
}

// start brings the agent up on its connection, and keeps its identity renewed.
func (l *agentLink) start(ctx context.Context, cfg agent.Config, conn *qmgr.Conn) (attended, error) {
	if i := l.cfg.Identity; i != nil && l.cfg.Server == nil {
		go keepRenewed(ctx, i, func(ctx context.Context) error { return enrol.Asker{Conn: conn}.Renew(ctx, i) }, cfg.Log)
	}
	if r := conn.Facts().Reduced; r != "" {
		cfg.Log.Warn("reduced durability", "error", r)
	}

	a, err := agent.Start(ctx, cfg, conn)
	if err != nil {
		conn.Close()
		return attended{}, err
	}

	l.running.Store(a)
	a.Reconnected() // where the connection was lost meanwhile
	return attended{Agent: a, refused: l.refused, close: sync.OnceFunc(func() { a.Stop(); conn.Close() })}, nil
}

// startAgent connects an agent and brings it up.
func startAgent(ctx context.Context, cc qmgr.ConnConfig, cfg agent.Config, connected func()) (attended, error) {
	link := newAgentLink(cc)
	conn, err := qmgr.Connect(ctx, link.cfg)
	if err != nil {
		return attended{}, err
	}
	connected()
	return link.start(ctx, cfg, conn)
}
