package agents

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"ferry/internal/agent"
	"ferry/internal/node/member"
	"ferry/internal/node/process"
	"ferry/internal/qmgr"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// A Group is the agents of one process without a queue manager.
type Group struct {
	Network string
	Entry   member.Entry
	Agents  []agent.Config
	Console process.Console
	Log     *slog.Logger
}

// Run runs the agents until told ends, or one of them has to stop.
func (g *Group) Run(told context.Context) error {
	ctx, end := context.WithCancelCause(told)
	defer end(nil)
	running, err := g.start(ctx, end)
	defer func() {
		for _, a := range running {
			a.Close()
		}
	}()
	if told.Err() != nil {
		return nil // before all were up
	}
	if err != nil {
		return err
	}

	err = WaitAll(ctx, g.Console, running, true)
	g.Log.Info("stopping", "agents", len(g.Agents))
	return cmp.Or(process.Lost(ctx), err)
}

// startAtOnce is the number of agents of one process that start at a time. Most of a start is waiting for the disk and
// for the queue manager.
const startAtOnce = 8

// start starts the agents, some at a time, and reports each that is ready. Where one cannot start, ctx ends, no more
// are started, and the error gives the reason. The agents that run are returned.
func (g *Group) start(ctx context.Context, end context.CancelCauseFunc) (running []Running, err error) {
	slow := g.Console.Slow(g.Network)
	defer slow()
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, startAtOnce)
	ready, said := make([]bool, len(g.Agents)), 0
	for n, cfg := range g.Agents {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			var a Running
			aerr := process.WhileFull(ctx, cfg.Log, "agent "+string(cfg.Name), cfg.Dir, func() (err error) {
				a, err = g.join(ctx, cfg, slow)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if aerr != nil {
				if err == nil {
					err = cmp.Or(process.Lost(ctx), aerr)
					end(err)
				}
				return
			}
			process.Watch(ctx, end, a)
			running = append(running, a)
			ready[n] = true
			for ; said < len(ready) && ready[said]; said++ { // in the order of their names
				fmt.Fprintf(g.Console.Out, "agent %s ready\n", g.Agents[said].Name)
			}
		})
	}
	all.Wait()
	return running, err
}

// join starts an agent with the identity in its directory, or with the one that serviceAt gets for it.
func (g *Group) join(ctx context.Context, cfg agent.Config, connected func()) (a Running, err error) {
	return a, member.RetryRefused(ctx, func() (refused bool, err error) {
		i, err := member.ServiceAt(ctx, g.Entry, g.Network, cfg.Dir, identity.Agent, string(cfg.Name), cfg.Log)
		if err != nil {
			return false, err
		}
		a, err = StartAgent(ctx, qmgr.ConnConfig{URL: g.Network, Name: string(cfg.Name), Self: cfg.Name.Token(), Identity: i,
			TCP: cfg.Direct.Options, Timeout: -1, Log: cfg.Log}, cfg, connected)
		return transfer.KindOf(err) == transfer.KindDenied, err
	})
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
func (l *agentLink) start(ctx context.Context, cfg agent.Config, conn *qmgr.Conn) (Running, error) {
	if i := l.cfg.Identity; i != nil && l.cfg.Server == nil {
		go member.KeepRenewed(ctx, i, func(ctx context.Context) error { return enrol.Client{Conn: conn}.Renew(ctx, i) }, cfg.Log)
	}
	if r := conn.Facts().Reduced; r != "" {
		cfg.Log.Warn("reduced durability", "error", r)
	}

	a, err := agent.Start(ctx, cfg, conn)
	if err != nil {
		conn.Close()
		return Running{}, err
	}

	l.running.Store(a)
	a.Reconnected() // where the connection was lost meanwhile
	return Running{Agent: a, refused: l.refused, Close: sync.OnceFunc(func() { a.Stop(); conn.Close() })}, nil
}

// StartAgent connects an agent and brings it up.
func StartAgent(ctx context.Context, cc qmgr.ConnConfig, cfg agent.Config, connected func()) (Running, error) {
	link := newAgentLink(cc)
	conn, err := qmgr.Connect(ctx, link.cfg)
	if err != nil {
		return Running{}, err
	}
	connected()
	return link.start(ctx, cfg, conn)
}
