// Package onebox runs agents in the process of a command, for as long as one transfer
// takes: a queue manager and two agents for files of this host, or one agent of a network
// for a stream. Each run has a directory of its own, with a lock; the next run clears up
// behind runs that were killed (R32).
package onebox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ferry/internal/agent"
	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The two agents of one host.
const (
	Source transfer.AgentName = "HERE"
	Dest   transfer.AgentName = "THERE"
)

// Config says where and how agents run.
type Config struct {
	StateHome string // the user's state home, which has the directories of runs and the audit log
	Root      string // files may be read and written beneath it
	Records   string // where data sets lie
	Version   string
	Log       *slog.Logger
	// Share divides the files that the process may have open; manager says that a queue
	// manager has some of them.
	Share func(agents []agent.Config, manager bool) error
	// Started is called for each agent, which may lose its directory while it runs.
	Started func(*agent.Agent)
}

// A Box is the agents of one run.
type Box struct {
	cfg    Config
	dir    string
	lock   io.Closer // of dir
	server *server.Server
	conns  []*qmgr.Conn
	user   *qmgr.Conn // of the user of this process; one of conns
	agents []*agent.Agent
	kept   bool // the audit records are in the user's log, or with coordination

	stopped bool // the agents are
}

// New makes the directory of a run, and clears up behind others. Close ends it.
func New(cfg Config) (b *Box, err error) {
	runs := filepath.Join(cfg.StateHome, "onebox")
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return nil, transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be made: %w", err).WithHint("set XDG_STATE_HOME to a directory that can be written")
	}

	b = &Box{cfg: cfg}
	b.clearUp(runs)
	for range runAttempts {
		b.dir, b.lock, err = makeRun(runs)
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, filelock.ErrHeld) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, transfer.Errorf(transfer.KindUnwritable, "the state directory %s cannot be used: %w", runs, err)
}

// runAttempts bounds the directories that New makes for one run.
const runAttempts = 20

// makeRun makes the directory of a run and locks it. It fails where another run takes the new directory for one
// of a run that was killed, which may happen until it is locked. That run removes it.
func makeRun(runs string) (dir string, held io.Closer, err error) {
	if dir, err = os.MkdirTemp(runs, "run-"); err != nil {
		return "", nil, err
	}
	if held, err = lock(dir); err != nil {
		os.Remove(dir) // which fails where the other run has its file there
		return "", nil, err
	}
	if _, err = os.Lstat(filepath.Join(dir, lockName)); err != nil { // removed between the opening of the file and its lock
		held.Close()
		return "", nil, err
	}
	return dir, held, nil
}

const lockName = "lock"

// lock marks a run's directory as that of a living process.
func lock(dir string) (io.Closer, error) { return filelock.Take(filepath.Join(dir, lockName)) }

// Open starts a queue manager, which does not listen, and the two agents of this host.
// An agent with streams reads or writes those instead of files. The source has the duties.
func (b *Box) Open(ctx context.Context, streams map[transfer.AgentName]*agent.Streams, duties ...duty.Maker) (err error) {
	c := &b.cfg
	if b.server, err = server.Start(ctx, server.Config{Name: "BOX", Dir: filepath.Join(b.dir, "qm"), Log: c.Log}); err != nil {
		return err
	}

	beside := map[transfer.AgentName]transfer.AgentName{Source: Dest, Dest: Source}
	var configs []agent.Config
	for _, name := range []transfer.AgentName{Dest, Source} {
		configs = append(configs, agent.Config{Name: name, Dir: filepath.Join(b.dir, string(name)), Carve: []string{c.StateHome}, Alone: true, Beside: beside[name],
			Roots: []string{c.Root}, RecordRoot: c.Records, Version: c.Version, Log: c.Log, Streams: streams[name],
			Direct: agent.Direct{Mode: wire.DirectPlain}}) // over loopback, where no attacker is in between
	}
	configs[1].Duties = duties
	if err := c.Share(configs, true); err != nil {
		return err
	}

	for _, cfg := range configs {
		if _, err := b.start(ctx, cfg, qmgr.ConnConfig{Server: b.server}); err != nil {
			return err
		}
	}
	return b.asks(ctx, qmgr.ConnConfig{Server: b.server})
}

// A Caller is the user of a stream in a network, and how the stream's agent connects to it.
type Caller struct {
	User  *qmgr.Conn // which the Box closes
	Agent qmgr.ConnConfig
	Name  transfer.AgentName // of the agent
}

// Join starts the agent of a stream on a network. Leave ends it.
func (b *Box) Join(ctx context.Context, s *agent.Streams, as Caller) (*agent.Agent, error) {
	c, name := &b.cfg, as.Name
	b.user, b.conns = as.User, append(b.conns, as.User)
	configs := []agent.Config{{Name: name, Dir: filepath.Join(b.dir, string(name)), Carve: []string{c.StateHome}, Version: c.Version, Log: c.Log, Streams: s,
		MaxSource: 1, MaxDestination: 1, Direct: agent.Direct{Mode: wire.DirectTLS, Listen: "none"}}}
	if err := c.Share(configs, false); err != nil {
		return nil, err
	}
	return b.start(ctx, configs[0], as.Agent)
}

// asks connects the user of this process, who submits and asks questions; no agent does that for a user.
func (b *Box) asks(ctx context.Context, at qmgr.ConnConfig) error {
	at.Name, at.Self, at.Log = "ferry", client.Me().Principal(), b.cfg.Log
	conn, err := qmgr.Connect(ctx, at)
	if err == nil {
		b.user, b.conns = conn, append(b.conns, conn)
	}
	return err
}

// start starts an agent on a connection of its own.
func (b *Box) start(ctx context.Context, cfg agent.Config, at qmgr.ConnConfig) (*agent.Agent, error) {
	at.Name, at.Self, at.Log = string(cfg.Name), cfg.Name.Token(), b.cfg.Log
	conn, err := qmgr.Connect(ctx, at)
	if err != nil {
		return nil, err
	}
	b.conns = append(b.conns, conn)
	a, err := agent.Start(ctx, cfg, conn)
	if err != nil {
		return nil, err
	}
	b.agents = append(b.agents, a)
	b.cfg.Started(a)
	return a, nil
}

// Client speaks to the box's own queue manager, or to the network that it has joined.
func (b *Box) Client(who transfer.Originator) *client.Client {
	return &client.Client{Conn: b.user, Clock: clock.System, Who: who}
}

// Keep stops the agents once the destination has the source's last message, so that the ledgers of both are complete.
// It moves their audit records into the user's own log. Records that cannot be kept now are kept by the next run.
func (b *Box) Keep() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	b.agents[0].WaitIdle(ctx)
	for _, a := range slices.Backward(b.agents) {
		a.Halt()
	}

	log, err := b.openAudit()
	if err != nil {
		return err
	}
	defer log.Close()

	for _, a := range slices.Backward(b.agents) { // the source's words come first
		if err := a.DrainOutbox(log.Append); err != nil {
			return err
		}
	}

	b.kept = true
	return nil
}

// leaveWait is how long Leave waits for coordination to receipt the audit records.
const leaveWait = 5 * time.Second

// Leave ends an agent that has joined a network, once coordination has its audit records; it gives how many of them
// coordination does not have.
func (b *Box) Leave(a *agent.Agent) (left int64) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	a.WaitIdle(ctx)
	for a.OutboxLeft() > 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}

	a.Stop()
	b.stopped = true
	left = a.OutboxLeft()
	b.kept = left == 0
	return left
}

// Close ends everything, and removes the directory of the run where its audit records are kept.
func (b *Box) Close() {
	for i := len(b.agents) - 1; i >= 0 && !b.stopped; i-- {
		b.agents[i].Stop()
	}

	for _, c := range b.conns {
		c.Close()
	}

	if b.server != nil {
		b.server.Shutdown()
	}

	if b.dir != "" && (b.kept || len(b.agents) == 0) {
		os.RemoveAll(b.dir) // otherwise the next run clears up
	}

	if b.lock != nil {
		b.lock.Close()
	}
}

// openAudit opens the log of this user's own transfers, where `ferry audit` finds them.
// Another run may be writing its records: that takes moments.
func (b *Box) openAudit() (log *audit.Log, err error) {
	for range 400 {
		log, err = audit.OpenLog(filepath.Join(b.cfg.StateHome, "audit"), time.Now)
		if kind := transfer.KindOf(err); kind != transfer.KindConflict && kind != transfer.KindAlive {
			return log, err
		}
		time.Sleep(25 * time.Millisecond)
	}
	return nil, err
}

// clearUp cleans up after runs that were killed: it keeps their audit records and removes their temporary files and
// directories. A run with a held lock is alive.
func (b *Box) clearUp(runs string) {
	dirs, _ := filepath.Glob(filepath.Join(runs, "run-*"))
	for _, dir := range dirs {
		held, err := lock(dir)
		if err != nil {
			continue
		}
		if err := b.clearRun(dir); err != nil {
			b.cfg.Log.Warn("cannot clear up after a run that was killed; left for the next run", "dir", dir, "error", err)
		} else {
			os.RemoveAll(dir)
		}
		held.Close()
	}
}

func (b *Box) clearRun(dir string) error {
	records, err := b.openAudit()
	if err != nil {
		return err
	}
	defer records.Close()

	agents, err := os.ReadDir(dir)
	if err != nil {
		return err
	}

	for _, e := range agents {
		name := transfer.AgentName(e.Name())
		if name != Source && name != Dest && !name.Stream() {
			continue
		}
		if err := agent.Sweep(name, filepath.Join(dir, e.Name()), b.cfg.Root, records.Append, b.cfg.Log); err != nil {
			return err
		}
	}
	return nil
}
