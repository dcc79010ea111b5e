package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/agent"
	"ferry/internal/audit"
	"ferry/internal/client"
	"ferry/internal/clock"
	"ferry/internal/filelock"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

type logT = *slog.Logger

// The two agents of one box.
const (
	boxSource transfer.AgentName = "HERE"
	boxDest   transfer.AgentName = "THERE"
)

// A box is a queue manager and two agents in this process, for one transfer.
type box struct {
	dir    string
	lock   io.Closer // of dir
	server *qmgr.Server
	conns  []*qmgr.Conn
	agents []*agent.Agent
	kept   bool // the audit records are in the user's log, or with coordination
	lose   func(keeper)

	stopped bool // the agents are
}

// sendOneBox moves files on this host, by the same protocol as any other
// transfer.
func sendOneBox(cmd *cobra.Command, f *sendFlags, q *transfer.Request, streams map[transfer.AgentName]*agent.Streams) error {
	q.Source, q.Destination = boxSource, boxDest
	if f.detach {
		return transfer.Errorf(transfer.KindUsage, "--detach needs agents that go on running; on this host alone the transfer runs in this process")
	}
	log, err := f.log.logger(cmd)
	if err != nil {
		return err
	}
	return inBox(cmd, log, func(ctx context.Context, b *box, home string) error {
		for _, s := range streams {
			defer abandon(ctx, s)()
		}
		if err := b.open(ctx, home, log, streams); err != nil {
			return err
		}
		err := b.send(ctx, cmd, q, f)
		b.stopAgents()
		if kept := b.keepAudit(home); kept != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: the audit records of this transfer could not be kept now; the next run tries again: %v\n", kept)
		}
		return err
	})
}

// inBox runs what needs agents in this process, with a directory for them. The context
// ends with a signal, or when an agent has lost its directory.
func inBox(cmd *cobra.Command, log logT, run func(ctx context.Context, b *box, home string) error) error {
	home, err := stateDir()
	if err != nil {
		return err
	}
	boxes := filepath.Join(home, "onebox")
	if err := os.MkdirAll(boxes, 0o700); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be made: %w", err).WithHint("set XDG_STATE_HOME to a directory that can be written")
	}
	cleanBoxes(boxes, home, log)
	told, stop := untilSignal(cmd.Context())
	defer stop()
	ctx, end := context.WithCancelCause(told)
	defer end(nil)
	b := &box{lose: func(k keeper) { watchKeeper(ctx, end, k) }}
	defer b.close()
	if b.dir, err = os.MkdirTemp(boxes, "run-"); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be used: %w", err)
	}
	if b.lock, err = lockBox(b.dir); err != nil {
		return err
	}
	collectLess(slackOfOthers)
	return run(ctx, b, home)
}

// lockBox marks a run's directory as that of a living process.
func lockBox(dir string) (io.Closer, error) { return filelock.Take(filepath.Join(dir, "lock")) }

func (b *box) send(ctx context.Context, cmd *cobra.Command, q *transfer.Request, f *sendFlags) error {
	s := &client.Client{Conn: b.conns[0], Clock: clock.System, Who: q.Originator}
	if f.dryRun {
		return dryRun(ctx, cmd, s, q, f.json)
	}
	if err := s.CheckSize(q); err != nil {
		return err
	}
	return b.follow(ctx, s, q, newView(cmd, f.json, f.quiet))
}

// follow submits a request and follows it to its end. A signal cancels it.
func (b *box) follow(ctx context.Context, s *client.Client, q *transfer.Request, v *view) error {
	p, err := s.Submit(ctx, q, nil)
	if err == nil && !p.State.Final() {
		p, err = s.Watch(ctx, client.Of(q), v.show, nil)
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		if err := lost(ctx); err != nil {
			return err
		}
		return b.interrupted(s, q, v)
	}
	if err != nil {
		return err
	}
	return v.finish(p)
}

// interrupted cancels: in one box nothing is left running behind.
func (b *box) interrupted(s *client.Client, q *transfer.Request, v *view) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := s.Control(ctx, q.Source, "cancel", q.ID); err != nil && transfer.KindOf(err) != transfer.KindEnding {
		return err
	}
	p, err := s.Watch(ctx, client.Of(q), nil, nil)
	if err != nil {
		return err
	}
	return v.finish(p)
}

// open starts a queue manager and the two agents.
func (b *box) open(ctx context.Context, home string, log logT, streams map[transfer.AgentName]*agent.Streams) (err error) {
	if b.server, err = qmgr.StartServer(ctx, qmgr.ServerConfig{Name: "BOX", Dir: filepath.Join(b.dir, "qm"), Log: log}); err != nil {
		return err
	}
	here, err := hostPath(".") // where data sets lie
	if err != nil {
		return err
	}
	beside := map[transfer.AgentName]transfer.AgentName{boxSource: boxDest, boxDest: boxSource}
	var configs []agent.Config
	for _, name := range []transfer.AgentName{boxDest, boxSource} {
		configs = append(configs, agent.Config{Name: name, Dir: filepath.Join(b.dir, string(name)), Carve: home, Alone: true, Beside: beside[name],
			Roots: []string{rootOfHost()}, RecordRoot: string(here), Version: version, Log: log, Streams: streams[name],
			Direct: agent.Direct{Mode: wire.DirectPlain}}) // over loopback, where nobody is in between
	}
	if _, err := shareFiles(configs, true); err != nil {
		return err
	}
	for _, cfg := range configs {
		if _, err := b.start(ctx, cfg, qmgr.ConnConfig{Server: b.server, Name: string(cfg.Name), Log: log}); err != nil {
			return err
		}
	}
	return nil
}

// start starts an agent on a connection of its own.
func (b *box) start(ctx context.Context, cfg agent.Config, at qmgr.ConnConfig) (*agent.Agent, error) {
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
	b.lose(a)
	return a, nil
}

func rootOfHost() string {
	wd, err := os.Getwd()
	if err != nil {
		return "/"
	}
	return filepath.VolumeName(wd) + string(filepath.Separator)
}

// stopAgents stops the agents once the destination has had the source's last
// word, so that the record of both is complete.
func (b *box) stopAgents() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	b.agents[0].WaitIdle(ctx)
	for i := len(b.agents) - 1; i >= 0; i-- {
		b.agents[i].Halt()
	}
}

// openAudit opens the log of this user's own transfers, where `ferry audit`
// finds them. Another one-box run may be writing its records: that takes
// moments.
func openAudit(home string) (log *audit.Log, err error) {
	for range 400 {
		log, err = audit.OpenLog(filepath.Join(home, "audit"), time.Now)
		if kind := transfer.KindOf(err); kind != transfer.KindConflict && kind != transfer.KindAlive {
			return log, err
		}
		time.Sleep(25 * time.Millisecond)
	}
	return nil, err
}

// keepAudit moves the agents' audit records into that log.
func (b *box) keepAudit(home string) error {
	log, err := openAudit(home)
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

func (b *box) close() {
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

// cleanBoxes clears up behind runs that were killed (R32): their audit records
// are kept, their temporaries and directories removed. A run whose lock is held
// is alive.
func cleanBoxes(boxes, home string, log logT) {
	runs, _ := filepath.Glob(filepath.Join(boxes, "run-*"))
	for _, dir := range runs {
		lock, err := lockBox(dir)
		if err != nil {
			continue
		}
		if err := cleanBox(dir, home, log); err != nil {
			log.Warn("cannot clean up after a run that was killed; left for the next run", "dir", dir, "error", err)
		} else {
			os.RemoveAll(dir)
		}
		lock.Close()
	}
}

func cleanBox(dir, home string, log logT) error {
	records, err := openAudit(home)
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
		if name != boxSource && name != boxDest && !isStreamAgent(name) {
			continue
		}
		if err := agent.Sweep(name, filepath.Join(dir, e.Name()), rootOfHost(), records.Append, log); err != nil {
			return err
		}
	}
	return nil
}
