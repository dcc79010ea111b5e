package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/agent"
	"ferry/internal/audit"
	"ferry/internal/clock"
	"ferry/internal/config"
	"ferry/internal/qmgr"
	"ferry/internal/submit"
	"ferry/internal/transfer"
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
	unlock func()
	server *qmgr.Server
	conns  []*qmgr.Conn
	agents []*agent.Agent
}

// sendOneBox moves files on this host, by the same protocol as any other
// transfer.
func sendOneBox(cmd *cobra.Command, f *sendFlags, q *transfer.Request) error {
	q.Source, q.Destination = boxSource, boxDest
	log, err := logger(cmd, f.logLevel)
	if err != nil {
		return err
	}
	if f.detach {
		return transfer.Errorf(transfer.KindUsage, "--detach needs agents that go on running; on this host alone the transfer runs in this process")
	}
	home, err := config.StateDir()
	if err != nil {
		return err
	}
	boxes := filepath.Join(home, "onebox")
	if err := os.MkdirAll(boxes, 0o700); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be made: %w", err).WithHint("set XDG_STATE_HOME to a directory that can be written")
	}
	cleanBoxes(boxes, log)
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, err := openBox(ctx, boxes, home, log)
	if err != nil {
		return err
	}
	defer b.close()
	err = b.send(ctx, cmd, q, f)
	b.stopAgents()
	if kept := b.keepAudit(filepath.Join(home, "audit")); kept != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "ferry: the audit records of this transfer could not be kept: %v\n", kept)
	}
	return err
}

func (b *box) send(ctx context.Context, cmd *cobra.Command, q *transfer.Request, f *sendFlags) error {
	s := &submit.Submitter{Conn: b.conns[0], Clock: clock.System, Who: q.Originator}
	v := newView(cmd, f.json, f.quiet)
	if f.dryRun {
		return dryRun(ctx, cmd, s, q, f.json)
	}
	p, err := s.Submit(ctx, q, nil)
	if err == nil && !p.State.Final() {
		p, err = s.Watch(ctx, q.Source, q.ID, v.show, nil)
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return b.interrupted(s, q, v)
	}
	if err != nil {
		return err
	}
	return v.finish(p)
}

// interrupted cancels: in one box nothing is left running behind.
func (b *box) interrupted(s *submit.Submitter, q *transfer.Request, v *view) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := s.Control(ctx, q.Source, "cancel", q.ID); err != nil && transfer.KindOf(err) != transfer.KindEnding {
		return err
	}
	p, err := s.Watch(ctx, q.Source, q.ID, nil, nil)
	if err != nil {
		return err
	}
	return v.finish(p)
}

func openBox(ctx context.Context, boxes, home string, log logT) (b *box, err error) {
	b = &box{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.dir, err = os.MkdirTemp(boxes, "run-"); err != nil {
		return b, transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be used: %w", err)
	}
	if b.unlock, err = lockBox(b.dir); err != nil {
		return b, err
	}
	if b.server, err = qmgr.StartServer(ctx, qmgr.ServerConfig{Name: "BOX", Dir: filepath.Join(b.dir, "qm"), Log: log}); err != nil {
		return b, err
	}
	for _, name := range []transfer.AgentName{boxDest, boxSource} {
		conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{Server: b.server, Name: string(name), Log: log})
		if err != nil {
			return b, err
		}
		b.conns = append(b.conns, conn)
		a, err := agent.Start(ctx, agent.Config{Name: name, Dir: filepath.Join(b.dir, string(name)), Carve: home, Alone: true,
			Roots: []string{rootOfHost()}, Version: version, Log: log}, conn)
		if err != nil {
			return b, err
		}
		b.agents = append(b.agents, a)
	}
	return b, nil
}

func rootOfHost() string {
	wd, err := os.Getwd()
	if err != nil {
		return "/"
	}
	return filepath.VolumeName(wd) + string(filepath.Separator)
}

func (b *box) stopAgents() {
	for i := len(b.agents) - 1; i >= 0; i-- {
		b.agents[i].Halt()
	}
}

// keepAudit moves the agents' audit records into the log of this user's own
// transfers, where `ferry audit` finds them.
func (b *box) keepAudit(dir string) error {
	var log *audit.Log
	var err error
	for try := 0; ; try++ { // another one-box run may be writing its records
		log, err = audit.OpenLog(dir, time.Now)
		if transfer.KindOf(err) != transfer.KindAlive || try == 200 {
			break
		}
		time.Sleep(25 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	defer log.Close()
	for _, a := range b.agents {
		if err := a.DrainOutbox(log.Append); err != nil {
			return err
		}
	}
	return nil
}

func (b *box) close() {
	for i := len(b.agents) - 1; i >= 0; i-- {
		b.agents[i].Stop()
	}
	for _, c := range b.conns {
		c.Close()
	}
	if b.server != nil {
		b.server.Shutdown()
	}
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
	if b.unlock != nil {
		b.unlock()
	}
}

// cleanBoxes removes what runs that were killed have left: their temporaries,
// then their directories (R32). A run whose lock is held is alive.
func cleanBoxes(boxes string, log logT) {
	runs, _ := filepath.Glob(filepath.Join(boxes, "run-*"))
	for _, dir := range runs {
		unlock, err := lockBox(dir)
		if err != nil {
			continue
		}
		for _, name := range []transfer.AgentName{boxDest, boxSource} {
			if err := agent.Sweep(filepath.Join(dir, string(name)), rootOfHost(), log); err != nil {
				log.Warn("temporaries of a run that was killed may be left behind", "dir", dir, "err", err)
			}
		}
		os.RemoveAll(dir)
		unlock()
	}
}
