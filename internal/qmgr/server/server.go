package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/claims"
	"ferry/internal/qmgr/cluster"
	"ferry/internal/qmgr/forward"
	"ferry/internal/qmgr/gate"
	"ferry/internal/qmgr/listen"
	"ferry/internal/qmgr/registrations"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/storage"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
	"ferry/internal/sys/space"
	"ferry/internal/transfer"
)

// Limits of the embedded queue manager.
const (
	defaultMaxStore    = 8 << 30
	minMaxStore        = 1 << 30 // the reservations by the streams' limits, and room beside them
	writeDeadline      = 30 * time.Second
	minUnauthenticated = 4
	minOfOne           = 8
	maxOfOne           = 2048
	maxUnauthenticated = 1024
	fewClients         = 64 // with a lower limit of clients, none are reserved for those without an identity
)

// Config is the configuration of the embedded queue manager.
type Config struct {
	Name     string // the same at every start; default "QM"
	Dir      string // its own directory, which no two servers share; created
	Listen   string // HOST:PORT, port 0 for a free one; "" for in-process connections only
	MaxStore int64  // bytes of its store; default 8 GiB, at least 1 GiB
	// MaxStored is the limit of bytes of stored delivery, which are a part of MaxStore; 0: DefaultMaxStored, or as many
	// as the other streams leave.
	MaxStored int64
	Clients   int              // connections at once; default 65,536
	Guard     *Guard           // admits clients; nil: every client is admitted, under the name that it gives
	Cluster   *cluster.Cluster // its cluster; nil: none
	Log       *slog.Logger     // default: nothing is logged

	ChannelListen string            // HOST:PORT for the channels of other queue managers; "": none come in
	Channels      []channel.Channel // to others, beside those that were defined before

	has func(dir string, bytes, inodes uint64) bool // reports whether a disk has so much left; default space.Has
}

// An entrance is the listener for clients, if there is a Guard.
type entrance struct {
	listener net.Listener
	gate     *gate.Gate // admits them
	limits   *limits    // bounds the messages that they publish
}

// A Server is the embedded queue manager. It syncs every stored message before
// it acknowledges it.
type Server struct {
	entrance
	cfg  Config
	opts *server.Options // as it was started with
	*storage.Store
	channels  *channel.Channels
	forwarder *forward.Forwarder // nil where there are no channels
	lock      *storage.DirLock
	answers   *responder
	member    *cluster.Member // its part in a cluster; nil: it is in none
	account   atomic.Pointer[claims.Admission]
	unkept    bool // claims that Guard.Keep could not keep
	tasks     sync.WaitGroup
	once      sync.Once
}

// Start runs a queue manager until Shutdown. When it returns, clients can
// connect and everything in the store has been recovered; recovery is not
// interrupted by ctx. The kinds of its errors: KindUsage (name, address, port in
// use), KindUnwritable (directory), KindAlive (directory in use), KindNoManager
// (the store cannot be opened).
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg.Name = cmp.Or(cfg.Name, "QM")
	cfg.MaxStore = cmp.Or(cfg.MaxStore, max(defaultMaxStore, cfg.MaxStored+minMaxStore))
	if cfg.has == nil {
		cfg.has = space.Has
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}

	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	lock, err := storage.Lock(cfg.Dir)
	if err != nil {
		return nil, err
	}

	s := &Server{cfg: cfg, lock: lock, Store: storage.New(storage.Config{Name: cfg.Name, Dir: cfg.Dir, MaxStore: cfg.MaxStore, Identity: cfg.identity(), Log: cfg.Log, Has: cfg.has, Started: cluster.OpenRoutes})}
	if cfg.Guard != nil {
		err = cfg.Guard.apply(s, opts)
	}
	if err == nil && cfg.Cluster != nil {
		err = cfg.Cluster.Apply(cfg.Name, cfg.identity(), func(name string) error { return s.member.Admits(name) }, opts)
	}
	if err == nil {
		s.channels, err = channel.OpenAll(s.channelsConfig())
	}
	if err == nil && cfg.Listen != "" {
		opts.JetStreamDomain = cfg.domain()
		err = s.channels.Leafnodes(opts)
	}
	if err == nil {
		err = s.start(opts)
	}
	if err != nil {
		s.Shutdown()
		return nil, err
	}
	return s, nil
}

// options checks the configuration and converts it to the library's.
func (cfg Config) options() (*server.Options, error) {
	if strings.ContainsAny(cfg.Name, " \t\r\n") {
		return nil, transfer.Errorf(transfer.KindUsage, "queue manager name %q is not valid: it has a space", cfg.Name)
	}

	if cfg.Dir == "" {
		return nil, transfer.Errorf(transfer.KindUsage, "queue manager %s has no directory", cfg.Name)
	}

	if cfg.MaxStore < minMaxStore {
		return nil, transfer.Errorf(transfer.KindUsage, "a store of %s is too small for queue manager %s; it needs %s",
			transfer.FormatBytes(cfg.MaxStore), cfg.Name, transfer.FormatBytes(minMaxStore))
	}

	if cfg.MaxStored != 0 && (cfg.MaxStored < streams.MinMaxStored || cfg.MaxStored > cfg.MaxStore-minMaxStore) {
		return nil, transfer.Errorf(transfer.KindUsage, "%s for stored delivery do not fit queue manager %s: from %s to %s do",
			transfer.FormatBytes(cfg.MaxStored), cfg.Name, transfer.FormatBytes(streams.MinMaxStored), transfer.FormatBytes(cfg.MaxStore-minMaxStore))
	}

	opts := &server.Options{
		ServerName: cfg.Name,
		NoSigs:     true, // signals are the process's business, not the library's
		NoLog:      true, // ours is set before the start
		JetStream:  true,
		StoreDir:   cfg.Dir,
		SyncAlways: true,
		// Explicit limits: by default the library takes three quarters of the
		// memory and all of the disk.
		JetStreamMaxMemory:     streams.MaxMemory,
		JetStreamMaxStore:      cfg.MaxStore,
		JetStreamLimits:        server.JSLimitOpts{DefaultMaxConsumers: streams.MaxConsumers},
		DisableJetStreamBanner: true,
		MaxPayload:             streams.MaxPayload,
		MaxPending:             streams.MaxPending,
		MaxConn:                cfg.members(),
		PingInterval:           20 * time.Second,
		MaxPingsOut:            3,
		// A client on a slow link may take long over the data queued for it. It is cut only when no byte at all has
		// gone out within the deadline.
		WriteDeadline: writeDeadline,
		WriteTimeout:  server.WriteTimeoutPolicyRetry,
	}
	opts.DontListen = cfg.Listen == "" || cfg.Guard != nil // the Guard's gate listens instead
	if cfg.Listen != "" {
		host, port, err := listen.Split("--listen", cfg.Listen)
		if err != nil {
			return nil, err
		}
		if !opts.DontListen {
			opts.Host, opts.Port = host, port
		}
	}
	return opts, nil
}

// unauthenticated returns the number of connections that may wait for their identity at once: each takes a descriptor,
// and may send nothing for a while.
func (cfg *Config) unauthenticated() int {
	if cfg.Guard == nil {
		return 0
	}
	return min(max(cmp.Or(cfg.Clients, server.DEFAULT_MAX_CONNECTIONS)/8, minUnauthenticated), maxUnauthenticated)
}

// mostOfOne returns the number of connections that one name may have at once: an agent needs three, a user one for each
// command that runs.
func (cfg *Config) mostOfOne() int {
	return min(max(cmp.Or(cfg.Clients, server.DEFAULT_MAX_CONNECTIONS)/4, minOfOne), maxOfOne)
}

// members returns the number of connections that are left for admitted clients.
func (cfg *Config) members() int {
	if cfg.Clients < fewClients {
		return cfg.Clients
	}
	return cfg.Clients - cfg.unauthenticated()
}

// identity returns the queue manager's own identity; nil if it has none.
func (cfg *Config) identity() *identity.Identity {
	if cfg.Guard == nil {
		return nil
	}
	return cfg.Guard.Identity
}

// start opens the store and the listener. A server without a listener serves one process and keeps nothing for a later
// run.
func (s *Server) start(opts *server.Options) error {
	if s.cfg.Listen != "" && s.cfg.Guard != nil {
		var err error
		if s.listener, err = net.Listen("tcp", s.cfg.Listen); err != nil {
			return listen.Error("--listen", s.cfg.Listen, err)
		}
	}
	if err := s.channels.Listens(); err != nil {
		return err
	}
	if s.cfg.Listen != "" {
		_, staged := storage.Staged(s.Store)
		storage.MakeRoom(s.Store, staged+storage.MarginBytes, storage.MarginInodes)
	}
	if s.cfg.Cluster != nil {
		var err error
		if s.member, err = cluster.Join(s.memberConfig()); err != nil {
			return err
		}
	} else if s.cfg.Listen != "" {
		if err := cluster.CheckNotMember(s.Store); err != nil {
			return err
		}
		if err := s.Inspect(opts); errors.As(err, new(*transfer.Error)) {
			return err
		} else if err != nil {
			return transfer.Errorf(transfer.KindNoManager, "the store of queue manager %s in %s cannot be opened: %w", s.cfg.Name, s.cfg.Dir, err)
		}
	}

	log := storage.NewLog(s.cfg.Log)
	log.Links = s.channels.Notes.Heard
	s.opts = opts.Clone() // the server changes its own
	ns, err := s.Run(opts, log)
	if err != nil {
		return err
	}

	s.NS, s.channels.NS, s.channels.Opts = ns, ns, s.opts
	if s.member == nil {
		if err := storage.Healthy(s.Store, log); err != nil {
			return err
		}
	}

	if s.cfg.Listen != "" {
		if err := s.NoteOpenPaths(); err != nil {
			return err
		}
		if s.member == nil {
			s.tasks.Go(s.Remember)
		}
		s.tasks.Go(s.channels.Watch)
		s.tasks.Go(func() { s.Mend(log) })
		s.tasks.Go(s.boundPending)
	}

	s.answers, err = answerAbout(s)
	if err == nil && s.member != nil {
		if err = s.member.Attend(s.answers.Conn); err == nil {
			s.tasks.Go(s.member.Watch)
			s.tasks.Go(func() { s.member.MaintainQueues(opts) })
			s.tasks.Go(s.member.Remember)
		}
	}
	if err == nil && s.listener != nil {
		s.limits = newLimits(s) // before channels forward messages
	}
	if err == nil && s.cfg.Listen != "" {
		if s.forwarder, err = forward.Start(s.forwardConfig()); err == nil {
			s.answers.registrar.SetForwarder(s.forwarder)
		}
	}
	if err == nil && s.listener != nil {
		s.tasks.Go(s.limits.run)
		s.gate = s.cfg.Guard.open(s, s.listener)
		err = s.channels.Open()
	}
	return err
}

// URL returns the address of the server for clients: nats://HOST:PORT, or "" if it takes in-process connections only.
// For a server that listens on every address it is the loopback one.
func (s *Server) URL() string {
	at := s.NS.Addr()
	if s.listener != nil {
		at = s.listener.Addr()
	}
	addr, ok := at.(*net.TCPAddr)
	if !ok {
		return ""
	}
	host, _, _ := net.SplitHostPort(s.cfg.Listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	u := url.URL{Scheme: "nats", Host: net.JoinHostPort(host, strconv.Itoa(addr.Port))}
	return u.String()
}

// Channels returns the channels to other queue managers.
func (s *Server) Channels() *channel.Channels { return s.channels }

// InProcessConn makes a connection within this process.
func (s *Server) InProcessConn() (net.Conn, error) { return s.NS.InProcessConn() }

// domain returns the queue manager's name among queue managers that channels join, one token: the members of a cluster
// have one queue.
func (cfg *Config) domain() string {
	if cfg.Cluster != nil {
		return transfer.Token(cfg.Cluster.Name)
	}
	return transfer.Token(cfg.Name)
}

// registryConfig returns the configuration of the registrations that the queue manager knows.
func (s *Server) registryConfig() registrations.Config {
	return registrations.Config{Name: s.cfg.Name, Domain: s.cfg.domain(), Dir: s.cfg.Dir, Identity: s.cfg.identity(), Admission: s.account.Load, Log: s.cfg.Log,
		OtherMembers: s.otherMembers}
}

// otherMembers returns the names of the other members of the queue manager's cluster.
func (s *Server) otherMembers() []string {
	if s.member == nil {
		return nil
	}
	return s.member.OtherMembers()
}

// routes returns the connected members of the queue manager's cluster, each with the number of its newest connection.
func (s *Server) routes() map[string]uint64 {
	if s.member == nil {
		return nil
	}
	return s.member.Routes()
}

// memberConfig returns the configuration of the queue manager's part in a cluster.
func (s *Server) memberConfig() cluster.Config {
	return cluster.Config{Store: s.Store, Cluster: s.cfg.Cluster, URL: s.URL, Host: s.Host,
		Number: func() uint64 {
			if a := s.account.Load(); a != nil {
				return claims.Number(a.Account)
			}
			return 0
		},
		Claims: func() roles.Claims { return claimsOf(s) }, Admit: s.admit,
		Ensure: func(ctx context.Context) error {
			_, err := s.answers.registrar.Admin.Ensure(ctx)
			return err
		}}
}

// channelsConfig returns the configuration of the queue manager's channels.
func (s *Server) channelsConfig() channel.Config {
	return channel.Config{Name: s.cfg.Name, Dir: s.cfg.Dir, Channels: s.cfg.Channels, Listen: s.cfg.ChannelListen, Alone: s.cfg.Listen == "", Identity: s.cfg.identity(), Account: s.AccountName,
		Unauthenticated: s.cfg.unauthenticated(), Admission: s.account.Load, Registry: registrations.New(s.registryConfig()), Ending: s.Ending, Log: s.cfg.Log,
		Waiting: func(peer string) int {
			if s.forwarder == nil {
				return 0
			}
			return s.forwarder.Waiting(s.forwarder.Announcer.DomainOf(peer))
		}}
}

// forwardConfig returns the configuration of the queue manager's forwarder.
func (s *Server) forwardConfig() forward.Config {
	cfg := forward.Config{Name: s.cfg.Name, Domain: s.cfg.domain(), Account: s.AccountName, Identity: s.cfg.identity(), MaxStored: s.cfg.MaxStored, Own: s.answers.Conn, NS: s.NS,
		Channels: s.channels, Registry: s.channels.Registry, OtherMembers: s.otherMembers, Routes: s.routes, Take: s.answers.registrar.Take, URL: s.URL, Faults: func() string { return storage.FaultsOf(s.Store) },
		Found: func(finding string) bool { return s.Findings.Add(finding, time.Now()) }, Log: s.cfg.Log}
	if s.cfg.Cluster != nil {
		cfg.Cluster = s.cfg.Cluster.Name
	}
	if s.limits != nil {
		cfg.Limits = s.limits
	}
	return cfg
}

// Name returns the server's name.
func (s *Server) Name() string { return s.cfg.Name }

// Host returns the server's address for other hosts. It is empty if the queue manager listens on every address of the
// host.
func (s *Server) Host() string {
	host, _, err := net.SplitHostPort(s.cfg.Listen)
	if err != nil {
		return "127.0.0.1" // only this process reaches it
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return ""
	}
	return host
}

// Shutdown ends the server and waits until its store is closed and its
// directory is free.
func (s *Server) Shutdown() {
	s.once.Do(func() {
		close(s.Ending)
		s.tasks.Wait()
		if s.gate != nil {
			s.gate.Close()
		} else if s.listener != nil {
			s.listener.Close()
		}
		s.forwarder.Stop()
		s.answers.stop()
		if s.NS != nil {
			s.NS.Shutdown()
			s.NS.WaitForShutdown()
			s.Leave()
		}
		s.channels.Close() // or the library would dial again meanwhile
		s.lock.Unlock()
	})
}
