package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"ferry/internal/agent"
	"ferry/internal/qmgr"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// A group is the agents of one process without a queue manager.
type group struct {
	network string
	entry   entry
	agents  []agent.Config
	console console
	log     *slog.Logger
}

// run runs the agents until told ends, or one of them has to stop.
func (g *group) run(told context.Context) error {
	ctx, end := context.WithCancelCause(told)
	defer end(nil)
	running, err := g.start(ctx, end)
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

	err = attend(ctx, g.console, running, true)
	g.log.Info("stopping", "agents", len(g.agents))
	return cmp.Or(lost(ctx), err)
}

// startAtOnce is the number of agents of one process that start at a time. Most of a start is waiting for the disk and
// for the queue manager.
const startAtOnce = 8

// start starts the agents, some at a time, and reports each that is ready. Where one cannot start, ctx ends, no more
// are started, and the error gives the reason. The agents that run are returned.
func (g *group) start(ctx context.Context, end context.CancelCauseFunc) (running []attended, err error) {
	slow := g.console.slow(g.network)
	defer slow()
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, startAtOnce)
	ready, said := make([]bool, len(g.agents)), 0
	for n, cfg := range g.agents {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			var a attended
			aerr := whileFull(ctx, cfg.Log, "agent "+string(cfg.Name), cfg.Dir, func() (err error) {
				a, err = g.join(ctx, cfg, slow)
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
				fmt.Fprintf(g.console.out, "agent %s ready\n", g.agents[said].Name)
			}
		})
	}
	all.Wait()
	return running, err
}

// join starts an agent with the identity in its directory, or with the one that serviceAt gets for it.
func (g *group) join(ctx context.Context, cfg agent.Config, connected func()) (a attended, err error) {
	return a, anew(ctx, func() (refused bool, err error) {
		i, err := serviceAt(ctx, g.entry, g.network, cfg.Dir, identity.Agent, string(cfg.Name), cfg.Log)
		if err != nil {
			return false, err
		}
		a, err = startAgent(ctx, qmgr.ConnConfig{URL: g.network, Name: string(cfg.Name), Self: cfg.Name.Token(), Identity: i,
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
