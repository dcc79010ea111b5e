package serve

import (
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/agent"
	cliidentity "ferry/internal/cli/identity"
	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/content/conversion"
	"ferry/internal/flow"
	"ferry/internal/node/agents"
	"ferry/internal/node/process"
	"ferry/internal/place/local/disk"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/policy"
	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
)

// agentFlags are the settings of an agent, for up and for agent run.
type agentFlags struct {
	chunkSize, memory                    string
	log                                  session.LogFlags
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
	programs                             programFlags
	limits                               []string
}

// programFlags are the programs that an agent runs.
type programFlags struct {
	dirs     string
	exits    []string
	exitTime time.Duration
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
	fl.StringVar(&f.sendBuffer, "tcp-send-buffer", "0", "bytes of each connection's send buffer, 64K or more; 0: the system adapts it")
	fl.StringVar(&f.receiveBuffer, "tcp-receive-buffer", "0", "bytes of each connection's receive buffer, 64K or more; 0: the system adapts it")
	fl.StringVar(&f.encoding, "encoding", "UTF-8", "code page of text files here, where nothing else says it")
	fl.StringVar(&f.eol, "eol", "", "how lines of text files end here: lf, crlf or nl (default: as on this system; NL in EBCDIC)")
	fl.StringVar(&f.replace, "replace", "", "replacement for text that cannot be converted (default: the file fails)")
	fl.StringVar(&f.recordRoot, "record-root", "", "directory of the data sets, beneath a root (default: the first root)")
	fl.StringArrayVar(&f.limits, "limit", nil, "bytes a second that it sends at most: 10M, or by the hour \"08:00,512K 19:00,off\" (also Mon-08:00,1M); AGENT=10M for the data to one agent; may be repeated")
	fl.StringVar(&f.sandbox.file, "sandbox", "", "file with rules as ferry policy apply takes them, which hold here beside those of the network and only take rights away")
	fl.StringVar(&f.programs.dirs, "programs", "", "directory of the programs that transfers may have run here before and after them; several as in PATH (default: none are run)")
	fl.StringArrayVar(&f.programs.exits, "exit", nil, "POINT=PROGRAM: have a program of --programs decide about each transfer or trigger here; POINT is source-start, source-end, destination-start, destination-end or monitor; may be repeated")
	fl.DurationVar(&f.programs.exitTime, "exit-time", transfer.DefaultExitTime, "time limit of one run of an exit")
	f.log.Add(c, "info")
}

// ParseLimits reads RATE and AGENT=RATE, where a rate may be a timetable.
func ParseLimits(limits []string) (map[transfer.AgentName]flow.Timetable, error) {
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

func (f *agentFlags) config(cmd *cobra.Command, name, dir string, roots []string, log *slog.Logger) (agent.Config, error) {
	var c agent.Config
	n, err := transfer.ParseAgentName(name)
	if err == nil {
		err = keyfile.CheckNotForeign(filepath.Join(dir, "items"))
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
	if f.outboxLimit < 1 {
		return c, transfer.Errorf(transfer.KindUsage, "--outbox-limit %d is out of range; it is 1 or more", f.outboxLimit)
	}
	if err := disk.CheckRoots(roots); err != nil {
		return c, err
	}
	if roots, err = absoluteRoots(roots); err != nil {
		return c, err
	}

	c = agent.Config{Name: n, Dir: dir, Roots: roots, MaxSource: f.maxSource, MaxDestination: f.maxDestination, MaxQueued: f.maxQueued,
		Memory: int64(memory), OutboxLimit: f.outboxLimit, Version: output.Version, Log: log, Direct: direct,
		Duties:   agents.Duties,
		Settings: transfer.Settings{ChunkSize: chunk, WindowSize: f.window, FrameSize: f.frame, CheckpointInterval: f.checkpoint}}
	if c.Rates, err = ParseLimits(f.limits); err != nil {
		return c, err
	}

	if c.RecordRoot, err = f.records(roots); err != nil {
		return c, err
	}

	if c.Sandbox, err = f.sandbox.read(cmd); err != nil {
		return c, err
	}
	c.Carve, c.Programs.Dirs = session.SecretDirs(cmd), f.programs.dirs
	if c.Programs.Exits, err = transfer.ParseExits(f.programs.exits, f.programs.exitTime); err != nil {
		return c, err
	}

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

// agentsOf returns the agents of a process without other services. It sets the limits of the process for them.
func agentsOf(cmd *cobra.Command, f *agentFlags, names []string, dir string, roots []string, log *slog.Logger) ([]agent.Config, error) {
	configs, err := agentConfigs(cmd, f, names, dir, roots, log)
	if err != nil {
		return nil, err
	}
	if _, err := process.ShareFiles(configs, false); err != nil {
		return nil, err
	}
	process.LimitMemory(configs, false)
	process.SetSlack(process.SlackOfOthers)
	return configs, nil
}

// agentConfigs are the settings of the agents of one process. One agent alone
// has the state directory to itself; each of several has a part of it.
func agentConfigs(cmd *cobra.Command, f *agentFlags, names []string, dir string, roots []string, log *slog.Logger) ([]agent.Config, error) {
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

// A sandboxFlag is the rules of an agent's own: of a file, or where none is named those of its properties.
type sandboxFlag struct {
	file  string
	rules *policy.Rules
}

// read returns the rules; nil where there are none.
func (f *sandboxFlag) read(cmd *cobra.Command) (*policy.Rules, error) {
	if f.file == "" {
		return f.rules, nil
	}
	data, err := cliidentity.ReadRules(cmd, f.file)
	if err != nil {
		return nil, err
	}
	return policy.Parse(data)
}

// absoluteRoots returns roots with absolute directories: a list of agents shows them on other hosts.
func absoluteRoots(roots []string) (all []string, err error) {
	for _, r := range roots {
		spec := disk.ParseRoot(r)
		dir, err := filepath.Abs(spec.Dir)
		if err != nil {
			return nil, err
		}
		if disk.ParseRoot(dir).Dir != dir {
			return nil, transfer.Errorf(transfer.KindUsage, "--root %s: the name of the directory %s ends as an option of a root does", r, dir).
				WithHint("rename the directory, or give its parent")
		}
		all = append(all, dir+strings.TrimPrefix(r, spec.Dir))
	}
	return all, nil
}
