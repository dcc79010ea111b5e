package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/agent"
	"ferry/internal/coordination"
	"ferry/internal/qmgr"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/sys/filelock"
	"ferry/internal/sys/space"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// agentStandby runs agents until it is told to stop. Each of them is active or stands by.
func agentStandby(cmd *cobra.Command, f *agentFlags, names []string, network, dir, join string, roots []string) error {
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
	slow := slowNotice(cmd, network)
	defer slow()
	var all sync.WaitGroup
	defer all.Wait()
	failures := make(chan error, len(configs))
	for _, cfg := range configs {
		all.Go(func() {
			p := pair{cmd: cmd, network: network, join: join, cfg: cfg, connected: slow}
			if err := p.run(ctx); err != nil {
				failures <- err
				return
			}
			failures <- nil
		})
	}
	for left := len(configs); left > 0; left-- {
		err := <-failures
		switch {
		case err == nil, told.Err() != nil:
		case left == 1:
			return err
		default:
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: %s\n", printable(err.Error()))
		}
	}
	return nil
}

// A pair is this process's part of an agent with two instances.
type pair struct {
	cmd           *cobra.Command
	network, join string
	cfg           agent.Config
	connected     func()
}

// run is active or stands by, in turns, until ctx ends. An error is final: the identity is
// refused, the storage is not shared, or the agent cannot run at all.
func (p *pair) run(ctx context.Context) error {
	for full := false; ctx.Err() == nil; {
		again, err := p.turn(ctx)
		if transfer.Full(err) { // no other instance has more room
			if !full {
				p.say("waits for space in " + p.cfg.Dir)
			}
			full = true
			p.cfg.Log.Warn("the disk of the state directory is full; trying again", "agent", p.cfg.Name, "error", err, "shortage", space.Shortage(p.cfg.Dir))
			sleepFor(ctx, fullPause)
			continue
		}
		full, p.join = false, "" // which is used up
		if err != nil && !again {
			return err
		}
		if err != nil && ctx.Err() == nil {
			p.cfg.Log.Warn("no longer active; standing by", "agent", p.cfg.Name, "error", err)
		}
	}
	return nil
}

// sleepFor returns after a while, or when ctx ends.
func sleepFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// turn stands by until this instance is active, and runs the agent then, until it has to
// stop. again says that it may stand by after that.
func (p *pair) turn(ctx context.Context) (again bool, err error) {
	var i *identity.Identity
	var conn *qmgr.Conn
	var link *agentLink
	err = anew(ctx, func() (refused bool, err error) {
		// Each turn reads the identity again, because the other instance may have renewed it.
		if err = alone(ctx, p.cfg.Dir, func() (err error) {
			i, err = serviceAt(ctx, p.cmd, p.network, p.cfg.Dir, p.join, identity.Agent, string(p.cfg.Name), p.cfg.Log)
			return err
		}); err != nil {
			return false, err
		}
		link = newAgentLink(qmgr.ConnConfig{URL: p.network, Name: string(p.cfg.Name), Self: p.cfg.Name.Token(), Identity: i,
			TCP: p.cfg.Direct.Options, Timeout: -1, Log: p.cfg.Log})
		conn, err = qmgr.Connect(ctx, link.cfg)
		return transfer.KindOf(err) == transfer.KindDenied, err
	})
	if err != nil {
		return false, err
	}
	defer conn.Close()
	p.connected()

	waiting, over := context.WithCancelCause(ctx)
	defer over(nil)
	go func() {
		select {
		case err := <-link.refused:
			over(err)
		case <-waiting.Done():
		}
	}()
	go keepRead(waiting, i, p.cfg.Log)
	cfg := p.cfg
	if cfg.Claim, err = agent.StandBy(waiting, cfg, conn, func() { p.say("standing by") }); err != nil {
		return false, err
	}
	over(nil)
	reread(i, p.cfg.Log)
	active, stop := context.WithCancel(ctx)
	defer stop()
	a, err := link.start(active, cfg, conn)
	if err != nil {
		return errors.As(err, new(*agent.GivenUp)), err
	}
	defer a.close()
	p.say("ready")
	select {
	case err = <-a.Displaced():
		kind := transfer.KindOf(err)
		return kind == transfer.KindAlive || kind == transfer.KindUnreachable, err
	case err = <-a.refused:
		return false, err
	case <-ctx.Done():
		p.cfg.Log.Info("stopping", "agents", 1)
		return false, nil
	}
}

// alone runs do in a state directory while the other instance does not: two instances that enrol at once would each
// make keys.
func alone(ctx context.Context, dir string, do func() error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be made: %w", err)
	}
	for {
		lock, err := filelock.Take(filepath.Join(dir, "standby.enrol"))
		if err == nil {
			defer lock.Close()
			return do()
		}
		if !errors.Is(err, filelock.ErrHeld) {
			return transfer.Errorf(transfer.KindUnwritable, "the state directory %s cannot be locked: %w", dir, err)
		}
		select {
		case <-time.After(anewPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// keepRead reads the identity again at each interval. Both instances have one identity in the state directory, and only
// the active one renews it.
func keepRead(ctx context.Context, i *identity.Identity, log logT) {
	t := time.NewTicker(renewEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			reread(i, log)
		case <-ctx.Done():
			return
		}
	}
}

func reread(i *identity.Identity, log logT) {
	if i == nil {
		return
	}
	if err := i.Reread(); err != nil {
		log.Warn("the identity that this instance shares cannot be read again", "identity", i.Name(), "error", err)
	}
}

func (p *pair) say(what string) {
	fmt.Fprintf(p.cmd.OutOrStdout(), "agent %s %s\n", p.cfg.Name, what)
}

// A coordinator is coordination in this process.
type coordinator struct {
	cmd          *cobra.Command
	network, dir string
	i            *identity.Identity
	standby, xml bool
	log          logT
}

// turn runs coordination until ctx ends, or until it has to stop. A coordination with a standby may then stand by
// itself; the error is nil.
func (c *coordinator) turn(ctx context.Context) error {
	conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{URL: c.network, Name: "ferry coordination", Self: wire.Coordination, Identity: c.i, Timeout: -1, Log: c.log})
	if err != nil {
		return err
	}
	defer conn.Close()
	cfg := coordination.Config{Dir: c.dir, Log: c.log, XML: c.xml}
	if c.standby {
		waiting, over := context.WithCancel(ctx)
		defer over()
		go keepRead(waiting, c.i, c.log)
		if cfg.Claim, err = coordination.StandBy(ctx, cfg, conn, func() { fmt.Fprintln(c.cmd.OutOrStdout(), "coordination standing by") }); err != nil {
			return err
		}
		over()
		reread(c.i, c.log)
	}

	active, stop := context.WithCancel(ctx)
	defer stop()
	if c.i != nil {
		go keepRenewed(active, c.i, func(ctx context.Context) error { return enrol.Asker{Conn: conn}.Renew(ctx, c.i) }, c.log)
	}
	var s *coordination.Service
	start := func() (err error) {
		s, err = coordination.Start(ctx, cfg, conn)
		return err
	}
	if !c.standby {
		err = whileFull(ctx, c.log, "coordination", c.dir, start)
	} else if err = start(); transfer.Full(err) {
		c.log.Warn("the disk of coordination is full; standing by", "dir", c.dir, "error", err, "shortage", space.Shortage(c.dir))
		sleepFor(ctx, fullPause)
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Stop()
	fmt.Fprintln(c.cmd.OutOrStdout(), "coordination ready")
	select {
	case <-s.Gone():
	case <-ctx.Done():
		return nil
	}
	err = s.Lost()
	if kind := transfer.KindOf(err); c.standby && (kind == transfer.KindAlive || kind == transfer.KindUnreachable) {
		c.log.Warn("coordination is no longer active; standing by", "error", err)
		return nil
	}
	return err
}
