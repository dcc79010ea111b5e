package cli

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
	"ferry/internal/qmgr"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A managerConfig is the settings of a queue manager and of the services in its process.
type managerConfig struct {
	name, dir, listen string
	enrol             string // HOST:PORT where joiners ask; "": the port after the queue manager's
	insecure          bool   // no identities and no TLS
	elsewhere         bool   // the authority of the network is in another process
	entry             entry  // where the authority is elsewhere
	cluster           *qmgr.Cluster
	stored            int64 // bytes of stored delivery; 0: the default
	channelListen     string
	channels          []qmgr.Channel
	coordination, xml bool
	agents            []agent.Config
	console           console
	log               *slog.Logger
}

// ownState checks that the directories of a queue manager and of coordination belong to this user.
func ownState(dir string) error {
	for _, own := range []string{"qm", filepath.Join("coordination", "audit")} {
		if err := keyfile.Own(filepath.Join(dir, own)); err != nil {
			return err
		}
	}
	return nil
}

// secretsOf returns the directories of a queue manager's state that no transfer of its agents may touch.
func secretsOf(dir string) (all []string) {
	for _, own := range []string{authorityDir, identitiesDir, "agents", "qm", "coordination"} {
		all = append(all, filepath.Join(dir, own))
	}
	return all
}

// hasAuthority reports whether the authority of a network is in a state directory.
func hasAuthority(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, authorityDir))
	return err == nil
}

// agentDir returns the state directory of an agent beside a queue manager with the state directory dir.
func agentDir(dir, name string) string { return filepath.Join(dir, "agents", name) }

// run runs the queue manager and the services beside it until ctx ends or one of them has to stop.
func (u *managerConfig) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var names []string
	for n := range u.agents {
		names = append(names, string(u.agents[n].Name))
	}
	clients, err := shareFiles(u.agents, true)
	if err != nil {
		return err
	}

	h, server, err := u.manager(ctx, clients)
	if err != nil {
		return err
	}
	defer server.Shutdown()
	defer h.stop()

	watchKeeper(ctx, end, server)
	own, err := h.caller(server, wire.Up, identity.Manager, "ferry up", u.log)
	if err != nil {
		return err
	}
	own.Early = true
	conn, err := qmgr.Connect(ctx, own)
	if err != nil {
		return err
	}
	defer conn.Close()
	desk, err := openDesk(conn, server.Channels(), h.document, names)
	if err != nil {
		return err
	}
	if err := awaitCluster(ctx, u.console, server); err != nil {
		return cmp.Or(lost(ctx), err)
	}

	beside := &services{ctx: ctx, end: end, log: u.log}
	if u.coordination {
		own, err := h.caller(server, wire.Coordination, identity.Coordination, "ferry coordination", u.log)
		if err != nil {
			return err
		}
		conn, err := qmgr.Connect(ctx, own)
		if err != nil {
			return err
		}
		defer conn.Close()
		cfg := coordination.Config{Dir: filepath.Join(u.dir, "coordination"), Log: u.log, XML: u.xml}
		if err := beside.coordinate(cfg, conn, desk); err != nil {
			return err
		}
	}
	desk.begin()
	defer beside.stop() // before the connection of coordination is closed

	fmt.Fprintf(u.console.out, "queue manager %s ready at %s%s\n", server.Name(), server.URL(), u.remark())
	if at := server.Channels().Addr(); at != "" {
		fmt.Fprintf(u.console.out, "channels of other queue managers come in at %s\n", at)
	}
	limitMemory(u.agents, true)
	collectLess(slackOfManager)
	for i, n := range names {
		own, err := h.caller(server, transfer.AgentName(n).Token(), identity.Agent, n, u.log)
		if transfer.KindOf(err) == transfer.KindDenied { // that error does not concern the other services
			u.console.notice(err.Error())
			continue
		}
		if err != nil {
			return err
		}
		if err := beside.run(service{name: "agent " + n, dir: u.agents[i].Dir, start: func() (run, stop func(), err error) {
			a, err := startAgent(ctx, own, u.agents[i], func() {})
			if err != nil {
				return nil, nil, err
			}
			watchKeeper(ctx, end, a)
			a.ended = func() { desk.ready[n].Store(false) }
			desk.ready[n].Store(true)
			fmt.Fprintf(u.console.out, "agent %s ready\n", a.Name())
			return func() { attend(ctx, u.console, []attended{a}, false) }, a.close, nil
		}}); err != nil {
			return cmp.Or(lost(ctx), err)
		}
	}

	<-ctx.Done()
	u.log.Info("stopping")
	return lost(ctx)
}

// remark is a note in the message of the start: the queue manager is insecure, or it listens on every address.
func (u *managerConfig) remark() string {
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

// A house knows the services beside a queue manager. A nil home is a house without identities.
type house interface {
	caller(server *qmgr.Server, token string, role identity.Role, name string, log *slog.Logger) (qmgr.ConnConfig, error)
	// document is the newest trust document; nil where there are no identities.
	document() (*trust.Document, error)
	stop()
}

// manager starts the queue manager and, unless it is insecure or elsewhere, the network's authority.
func (u *managerConfig) manager(ctx context.Context, clients int) (house, *qmgr.Server, error) {
	if u.elsewhere {
		return u.outpost(ctx, clients)
	}
	return u.founded(ctx, clients)
}

// server returns the configuration of the queue manager, without its guard.
func (u *managerConfig) server(clients int) qmgr.ServerConfig {
	return qmgr.ServerConfig{Name: u.name, Dir: filepath.Join(u.dir, "qm"), Listen: u.listen, MaxStored: u.stored, ChannelListen: u.channelListen, Clients: clients, Cluster: u.cluster, Channels: u.channels, Log: u.log}
}

// founded starts a queue manager with the authority beside it.
func (u *managerConfig) founded(ctx context.Context, clients int) (h *home, server *qmgr.Server, err error) {
	cfg := u.server(clients)
	if u.insecure {
		u.log.Warn("insecure: whoever reaches the queue manager speaks as anybody", "listen", u.listen)
		if err := forgetAddresses(u.listen); err != nil {
			return nil, nil, err
		}
		server, err = qmgr.StartServer(ctx, cfg)
		return nil, server, err
	}

	if h, err = openHome(ctx, u.dir, u.log); err != nil {
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
