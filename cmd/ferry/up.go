package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"ferry/internal/agent"
	"ferry/internal/conversion"
	"ferry/internal/coordination"
	"ferry/internal/enrol"
	"ferry/internal/flow"
	"ferry/internal/identity"
	"ferry/internal/localfs"
	"ferry/internal/qmgr"
	"ferry/internal/tcp"
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
	fl.StringVar(&f.directListen, "direct-listen", "", "HOST:PORT of the direct lane, or none (default: a free port of the address by which the queue manager is reached)")
	fl.StringVar(&f.directAdvertise, "direct-advertise", "", "HOST:PORT that other agents are told to dial instead")
	fl.IntVar(&f.directConnections, "direct-connections", 1, "connections that are dialled to each other agent, 1 to 16")
	fl.BoolVar(&f.delay, "tcp-delay", false, "leave Nagle's algorithm on: small writes wait for an acknowledgement")
	fl.BoolVar(&f.quickAck, "tcp-quick-ack", false, "acknowledge what arrives at once (Linux)")
	fl.StringVar(&f.sendBuffer, "tcp-send-buffer", "0", "bytes of each connection's send buffer; 0: the system adapts it")
	fl.StringVar(&f.receiveBuffer, "tcp-receive-buffer", "0", "bytes of each connection's receive buffer; 0: the system adapts it")
	fl.StringVar(&f.encoding, "encoding", "UTF-8", "code page of text files here, where nothing else says it")
	fl.StringVar(&f.eol, "eol", "", "how lines of text files end here: lf, crlf or nl (default: as on this system; NL in EBCDIC)")
	fl.StringVar(&f.replace, "replace", "", "what takes the place of text that cannot be converted (default: the file fails)")
	fl.StringVar(&f.recordRoot, "record-root", "", "directory beneath a root in which data sets lie (default: the first root)")
	fl.StringArrayVar(&f.limits, "limit", nil, "bytes a second that it sends at most: 10M, or by the hour \"08:00,512K 19:00,off\" (also Mon-08:00,1M); AGENT=10M for what goes to one agent; may be repeated")
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
	if err := localfs.CheckRoots(roots); err != nil {
		return c, err
	}

	c = agent.Config{Name: n, Dir: dir, Roots: roots, MaxSource: f.maxSource, MaxDestination: f.maxDestination, MaxQueued: f.maxQueued,
		Memory: int64(memory), OutboxLimit: f.outboxLimit, Version: version, Log: log, Direct: direct,
		Settings: transfer.Settings{ChunkSize: chunk, WindowSize: f.window, FrameSize: f.frame, CheckpointInterval: f.checkpoint}}
	if c.Rates, err = parseLimits(f.limits); err != nil {
		return c, err
	}

	if c.RecordRoot, err = f.records(roots); err != nil {
		return c, err
	}

	c.Content = conversion.Defaults{Encoding: f.encoding, EOL: f.eol, Replace: f.replace}
	if err := c.Content.Check(); err != nil {
		return c, err
	}
	return c, c.Settings.Check()
}

// records is where data sets lie; empty where that is the first root.
func (f *agentFlags) records(roots []string) (string, error) {
	if f.recordRoot == "" {
		return "", nil
	}

	at, err := filepath.Abs(f.recordRoot)
	if err != nil {
		return "", transfer.Errorf(transfer.KindUsage, "--record-root %s: %w", f.recordRoot, err)
	}

	for _, r := range roots {
		dir := localfs.ParseRoot(r).Dir
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
			if err := u.check(); err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			err := up(ctx, cmd, u)
			if ctx.Err() != nil {
				return nil // told to stop, be it before it was up
			}
			return err
		}}
	fl := c.Flags()
	fl.StringVar(&u.name, "name", "QM", "name of the queue manager")
	fl.StringVar(&u.dir, "dir", "", "state directory (default: the user's; ferry config paths shows it)")
	fl.StringVar(&u.listen, "listen", "127.0.0.1:4222", "HOST:PORT of the queue manager; :PORT listens on every address of this host")
	fl.StringVar(&u.coordination, "coordination", "here", "here or none")
	fl.StringVar(&u.enrol, "enrol", "", "HOST:PORT where somebody with a token joins, open while there is a token (default: the port after --listen)")
	fl.BoolVar(&u.insecure, "insecure", false, "no identities and no TLS: whoever reaches --listen, which must be on this host alone, speaks as anybody")
	fl.StringArrayVar(&u.agents, "agent", nil, "NAME=ROOT: an agent in this process, with a directory that it may read and write, or NAME=ROOT,mounted (see ferry agent run --help); may be repeated, also to give one agent several roots")
	f.add(c)
	return c
}

// upFlags are the settings of `ferry up`.
type upFlags struct {
	agentFlags
	name, dir, listen, coordination, enrol string
	insecure                               bool
	agents                                 []string
}

// check refuses what cannot be meant, and fills in what is not given.
func (u *upFlags) check() error {
	if u.coordination != "here" && u.coordination != "none" {
		return transfer.Errorf(transfer.KindUsage, "--coordination %q is unknown; it is here or none", u.coordination)
	}
	if host, _, err := net.SplitHostPort(u.listen); u.insecure && err == nil && !loopback(host) {
		return transfer.Errorf(transfer.KindUsage, "--insecure listens on this host alone, and --listen %s is reached from others", u.listen).
			WithHint("leave out --insecure, or listen on 127.0.0.1")
	}
	if u.dir == "" {
		home, err := stateDir()
		if err != nil {
			return err
		}
		u.dir = home
	}
	return nil
}

// upToken is the token of `ferry up`, which `ferry ready` asks which agents it has.
const upToken = "up"

// upAnswer is what it says.
type upAnswer struct {
	V      int             `json:"v"`
	Agents map[string]bool `json:"agents"` // name, ready
}

func up(ctx context.Context, cmd *cobra.Command, u *upFlags) error {
	log, err := u.log.logger(cmd)
	if err != nil {
		return err
	}

	names, roots, err := agentRoots(u.agents)
	if err != nil {
		return err
	}

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var configs []agent.Config
	for _, n := range names {
		cfg, err := u.config(cmd, n, filepath.Join(u.dir, "agents", n), roots[n], log)
		if err != nil {
			return err
		}
		configs = append(configs, cfg)
	}

	clients, err := shareFiles(configs, true)
	if err != nil {
		return err
	}

	h, server, err := u.manager(ctx, clients, log)
	if err != nil {
		return err
	}
	defer server.Shutdown()
	defer h.stop()

	watchKeeper(ctx, end, server)
	own, err := h.caller(server, upToken, identity.Manager, "ferry up", log)
	if err != nil {
		return err
	}
	conn, err := qmgr.Connect(ctx, own)
	if err != nil {
		return err
	}
	defer conn.Close()

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
		service, err := coordination.Start(ctx, coordination.Config{Dir: filepath.Join(u.dir, "coordination"), Log: log}, conn)
		if err != nil {
			return err
		}
		defer service.Stop()
		watchKeeper(ctx, end, service)
	}

	ready, err := answerUp(conn, names)
	if err != nil {
		return err
	}

	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "queue manager %s ready at %s%s\n", server.Name(), server.URL(), u.remark())
	limitMemory(configs, true)
	collectLess(slackOfManager)
	var running []attended
	for i, n := range names {
		own, err := h.caller(server, transfer.AgentName(n).Token(), identity.Agent, n, log)
		if transfer.KindOf(err) == transfer.KindDenied { // the others have nothing to do with that
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: %s\n", printable(err.Error()))
			continue
		}
		if err != nil {
			return err
		}
		a, err := startAgent(ctx, own, configs[i], func() {})
		if err != nil {
			return cmp.Or(lost(ctx), err)
		}
		defer a.close()
		watchKeeper(ctx, end, a)
		a.ended = func() { ready[n].Store(false) }
		running = append(running, a)
		ready[n].Store(true)
		fmt.Fprintf(out, "agent %s ready\n", a.Name())
	}

	err = attend(ctx, cmd, running, false)
	log.Info("stopping")
	return cmp.Or(lost(ctx), err)
}

// remark is said of a queue manager that others should know of.
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

// manager starts the queue manager and, unless it is insecure, the network's authority.
func (u *upFlags) manager(ctx context.Context, clients int, log logT) (h *home, server *qmgr.Server, err error) {
	cfg := qmgr.ServerConfig{Name: u.name, Dir: filepath.Join(u.dir, "qm"), Listen: u.listen, Clients: clients, Log: log}
	if u.insecure {
		log.Warn("insecure: whoever reaches the queue manager speaks as anybody", "listen", u.listen)
		if err := forgetAddresses(u.listen); err != nil {
			return nil, nil, err
		}
		server, err = qmgr.StartServer(ctx, cfg)
		return nil, server, err
	}

	if h, err = openHome(ctx, u.dir, log); err != nil {
		return nil, nil, err
	}
	if cfg.Guard, err = h.guard(u.name); err == nil {
		server, err = qmgr.StartServer(ctx, cfg)
	}
	if err == nil {
		err = h.attend(server, u.listen, u.enrol)
	}
	if err != nil {
		h.stop()
		if server != nil {
			server.Shutdown()
		}
		return nil, nil, err
	}
	return h, server, nil
}

// agentRoots reads NAME=ROOT, in the order in which the names come first.
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
				WithHint("give --agent " + string(n) + "=DIR, the directory whose files it may read and write")
		}
		if roots[string(n)] == nil {
			names = append(names, string(n))
		}
		roots[string(n)] = append(roots[string(n)], root)
	}
	return names, roots, nil
}

func answerUp(conn *qmgr.Conn, names []string) (map[string]*atomic.Bool, error) {
	ready := map[string]*atomic.Bool{}
	for _, n := range names {
		ready[n] = new(atomic.Bool)
	}

	_, err := conn.Subscribe(wire.AllAsks(upToken), func(m qmgr.Message) {
		ans := upAnswer{V: 1, Agents: map[string]bool{}}
		for n, r := range ready {
			ans.Agents[n] = r.Load()
		}
		if data, err := json.Marshal(ans); err == nil && m.Reply != "" {
			conn.Answer(wire.LastToken(m.Subject), m.Reply, data) // or nobody of ours asks
		}
	})
	return ready, err
}

// startAgent connects an agent and brings it up.
func startAgent(ctx context.Context, cc qmgr.ConnConfig, cfg agent.Config, connected func()) (attended, error) {
	var running atomic.Pointer[agent.Agent]
	cc.OnConnect = func() {
		if a := running.Load(); a != nil {
			a.Reconnected()
		}
	}
	refused := make(chan error, 1)
	cc.OnRefused = func(err error) {
		select {
		case refused <- err:
		default: // it was said
		}
	}
	conn, err := qmgr.Connect(ctx, cc)
	if err != nil {
		return attended{}, err
	}

	connected()
	if i := cc.Identity; i != nil && cc.Server == nil {
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

	running.Store(a)
	a.Reconnected() // where the connection was lost meanwhile
	return attended{Agent: a, refused: refused, close: sync.OnceFunc(func() { a.Stop(); conn.Close() })}, nil
}
