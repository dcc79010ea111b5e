package queuemanager

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"ferry/internal/agent"
	"ferry/internal/coordination"
	"ferry/internal/node/agents"
	"ferry/internal/node/member"
	"ferry/internal/node/process"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/cluster"
	"ferry/internal/qmgr/listen"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Config is the settings of a queue manager and of the services in its process.
type Config struct {
	Name, Dir, Listen string
	Enrol             string       // HOST:PORT where joiners ask; "": the port after the queue manager's
	Insecure          bool         // no identities and no TLS
	Elsewhere         bool         // the authority of the network is in another process
	Entry             member.Entry // where the authority is elsewhere
	Cluster           *cluster.Cluster
	Stored            int64 // bytes of stored delivery; 0: the default
	ChannelListen     string
	Channels          []channel.Channel
	Coordination, XML bool
	Agents            []agent.Config
	Console           process.Console
	Log               *slog.Logger
}

// OwnState checks that the directories of a queue manager and of coordination belong to this user.
func OwnState(dir string) error {
	for _, own := range []string{"qm", filepath.Join("coordination", "audit")} {
		if err := keyfile.CheckNotForeign(filepath.Join(dir, own)); err != nil {
			return err
		}
	}
	return nil
}

// SecretsOf returns the directories of a queue manager's state that no transfer of its agents may touch.
func SecretsOf(dir string) (all []string) {
	for _, own := range []string{authorityDir, identitiesDir, "agents", "qm", "coordination"} {
		all = append(all, filepath.Join(dir, own))
	}
	return all
}

// HasAuthority reports whether the authority of a network is in a state directory.
func HasAuthority(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, authorityDir))
	return err == nil
}

// AgentDir returns the state directory of an agent beside a queue manager with the state directory dir.
func AgentDir(dir, name string) string { return filepath.Join(dir, "agents", name) }

// Run runs the queue manager and the services beside it until ctx ends or one of them has to stop.
func (u *Config) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var names []string
	for n := range u.Agents {
		names = append(names, string(u.Agents[n].Name))
	}
	clients, err := process.ShareFiles(u.Agents, true)
	if err != nil {
		return err
	}

	h, server, err := u.manager(ctx, clients)
	if err != nil {
		return err
	}
	defer server.Shutdown()
	defer h.stop()

	process.Watch(ctx, end, server)
	own, err := h.caller(server, wire.Up, identity.Manager, "ferry up", u.Log)
	if err != nil {
		return err
	}
	own.Early = true
	conn, err := qmgr.Connect(ctx, own)
	if err != nil {
		return err
	}
	defer conn.Close()
	desk, err := OpenResponder(conn, server.Channels(), h.document, names)
	if err != nil {
		return err
	}
	if err := awaitCluster(ctx, u.Console, server); err != nil {
		return cmp.Or(process.Lost(ctx), err)
	}

	beside := &services{ctx: ctx, end: end, log: u.Log}
	if u.Coordination {
		own, err := h.caller(server, wire.Coordination, identity.Coordination, "ferry coordination", u.Log)
		if err != nil {
			return err
		}
		conn, err := qmgr.Connect(ctx, own)
		if err != nil {
			return err
		}
		defer conn.Close()
		cfg := coordination.Config{Dir: filepath.Join(u.Dir, "coordination"), Log: u.Log, XML: u.XML}
		if err := beside.coordinate(cfg, conn, desk); err != nil {
			return err
		}
	}
	desk.Begin()
	defer beside.stop() // before the connection of coordination is closed

	fmt.Fprintf(u.Console.Out, "queue manager %s ready at %s%s\n", server.Name(), server.URL(), u.remark())
	if at := server.Channels().Addr(); at != "" {
		fmt.Fprintf(u.Console.Out, "channels of other queue managers come in at %s\n", at)
	}
	process.LimitMemory(u.Agents, true)
	process.SetSlack(process.SlackOfManager)
	for i, n := range names {
		own, err := h.caller(server, transfer.AgentName(n).Token(), identity.Agent, n, u.Log)
		if transfer.KindOf(err) == transfer.KindDenied { // that error does not concern the other services
			u.Console.Notice(err.Error())
			continue
		}
		if err != nil {
			return err
		}
		if err := beside.run(service{name: "agent " + n, dir: u.Agents[i].Dir, start: func() (run, stop func(), err error) {
			a, err := agents.StartAgent(ctx, own, u.Agents[i], func() {})
			if err != nil {
				return nil, nil, err
			}
			process.Watch(ctx, end, a)
			a.Ended = func() { desk.ready[n].Store(false) }
			desk.ready[n].Store(true)
			fmt.Fprintf(u.Console.Out, "agent %s ready\n", a.Name())
			return func() { agents.WaitAll(ctx, u.Console, []agents.Running{a}, false) }, a.Close, nil
		}}); err != nil {
			return cmp.Or(process.Lost(ctx), err)
		}
	}

	<-ctx.Done()
	u.Log.Info("stopping")
	return process.Lost(ctx)
}

// remark is a note in the message of the start: the queue manager is insecure, or it listens on every address.
func (u *Config) remark() string {
	host, _, err := net.SplitHostPort(u.Listen)
	ip := net.ParseIP(host)
	switch {
	case u.Insecure:
		return " (INSECURE: no TLS, no identities)"
	case err == nil && (host == "" || ip != nil && ip.IsUnspecified()):
		return " (on every address of this host)"
	}
	return ""
}

// hostServices connects the services beside a queue manager. A nil localAuthority is hostServices without identities.
type hostServices interface {
	caller(server *server.Server, token string, role identity.Role, name string, log *slog.Logger) (qmgr.ConnConfig, error)
	// document is the newest trust document; nil where there are no identities.
	document() (*trust.Document, error)
	stop()
}

// manager starts the queue manager and, unless it is insecure or elsewhere, the network's authority.
func (u *Config) manager(ctx context.Context, clients int) (hostServices, *server.Server, error) {
	if u.Elsewhere {
		return u.joined(ctx, clients)
	}
	return u.founded(ctx, clients)
}

// server returns the configuration of the queue manager, without its guard.
func (u *Config) server(clients int) server.Config {
	return server.Config{Name: u.Name, Dir: filepath.Join(u.Dir, "qm"), Listen: u.Listen, MaxStored: u.Stored, ChannelListen: u.ChannelListen, Clients: clients, Cluster: u.Cluster, Channels: u.Channels, Log: u.Log}
}

// checkAddresses returns the reason why the queue manager could not listen. A network is not founded for a queue manager
// that cannot start.
func (u *Config) checkAddresses() error {
	for flag, at := range map[string]string{"--listen": u.Listen, "--channel-listen": u.ChannelListen} {
		if at == "" {
			continue
		}
		if _, _, err := listen.Split(flag, at); err != nil {
			return err
		}
	}
	return nil
}

// founded starts a queue manager with the authority beside it.
func (u *Config) founded(ctx context.Context, clients int) (h *localAuthority, manager *server.Server, err error) {
	cfg := u.server(clients)
	if u.Insecure {
		u.Log.Warn("insecure: each program that reaches the queue manager may use any name", "listen", u.Listen)
		if err := forgetAddresses(u.Listen); err != nil {
			return nil, nil, err
		}
		manager, err = server.Start(ctx, cfg)
		return nil, manager, err
	}

	if !HasAuthority(u.Dir) {
		if err := u.checkAddresses(); err != nil {
			return nil, nil, err
		}
	}
	if h, err = openLocalAuthority(ctx, u.Dir, u.Log); err != nil {
		return nil, nil, err
	}
	if cfg.Guard, err = h.guard(u.Name); err == nil {
		manager, err = server.Start(ctx, cfg)
	}
	if err == nil {
		err = h.attend(manager, u.Listen, u.Enrol)
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
