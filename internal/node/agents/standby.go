package agents

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"ferry/internal/agent"
	"ferry/internal/node/member"
	"ferry/internal/node/process"
	"ferry/internal/qmgr"
	"ferry/internal/security/identity"
	"ferry/internal/sys/space"
	"ferry/internal/transfer"
)

// StandBy runs the agents until told ends. Each of them is active or stands by.
func (g *Group) StandBy(told context.Context) error {
	ctx, end := context.WithCancelCause(told)
	defer end(nil)
	slow := g.Console.Slow(g.Network)
	defer slow()
	var all sync.WaitGroup
	defer all.Wait()
	failures := make(chan error, len(g.Agents))
	for _, cfg := range g.Agents {
		all.Go(func() {
			p := instance{console: g.Console, network: g.Network, entry: g.Entry, cfg: cfg, connected: slow}
			if err := p.run(ctx); err != nil {
				failures <- err
				return
			}
			failures <- nil
		})
	}
	for left := len(g.Agents); left > 0; left-- {
		err := <-failures
		switch {
		case err == nil, told.Err() != nil:
		case left == 1:
			return err
		default:
			g.Console.Notice(err.Error())
		}
	}
	return nil
}

// An instance is this process's part of an agent with two instances.
type instance struct {
	console   process.Console
	network   string
	entry     member.Entry
	cfg       agent.Config
	connected func()
}

// run is active or stands by, in turns, until ctx ends. An error is final: the identity is
// refused, the storage is not shared, or the agent cannot run at all.
func (p *instance) run(ctx context.Context) error {
	for full := false; ctx.Err() == nil; {
		again, err := p.runOnce(ctx)
		if transfer.Full(err) { // no other instance has more room
			if !full {
				p.say("waits for space in " + p.cfg.Dir)
			}
			full = true
			p.cfg.Log.Warn("the disk of the state directory is full; trying again", "agent", p.cfg.Name, "error", err, "shortage", space.Shortage(p.cfg.Dir))
			process.SleepFor(ctx, process.FullPause)
			continue
		}
		full, p.entry.Token = false, p.entry.Later // the first one is used up
		if err != nil && !again {
			return err
		}
		if err != nil && ctx.Err() == nil {
			p.cfg.Log.Warn("no longer active; standing by", "agent", p.cfg.Name, "error", err)
		}
	}
	return nil
}

// runOnce stands by until this instance is active, and runs the agent then, until it has to
// stop. again says that it may stand by after that.
func (p *instance) runOnce(ctx context.Context) (again bool, err error) {
	var i *identity.Identity
	var conn *qmgr.Conn
	var link *agentLink
	err = member.RetryRefused(ctx, func() (refused bool, err error) {
		// Each turn reads the identity again, because the other instance may have renewed it.
		if err = member.Exclusively(ctx, p.cfg.Dir, func() (err error) {
			i, err = member.ServiceAt(ctx, p.entry, p.network, p.cfg.Dir, identity.Agent, string(p.cfg.Name), p.cfg.Log)
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
	go member.KeepReread(waiting, i, p.cfg.Log)
	cfg := p.cfg
	if cfg.DirLock, err = agent.StandBy(waiting, cfg, conn, func() { p.say("standing by") }); err != nil {
		return false, err
	}
	over(nil)
	member.Reread(i, p.cfg.Log)
	active, stop := context.WithCancel(ctx)
	defer stop()
	a, err := link.start(active, cfg, conn)
	if err != nil {
		return errors.As(err, new(*agent.GivenUp)), err
	}
	defer a.Close()
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

func (p *instance) say(what string) {
	fmt.Fprintf(p.console.Out, "agent %s %s\n", p.cfg.Name, what)
}
