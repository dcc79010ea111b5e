package qmgr

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/gate"
	"ferry/internal/security/identity"
	"ferry/internal/sys/filelock"
	"ferry/internal/sys/space"
	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
)

// Limits of the embedded queue manager.
const (
	serverMaxPayload = 2 << 20  // bytes of one message: a chunk of 1 MiB and its frames
	serverMaxPending = 64 << 20 // bytes held for one connection before it is cut
	serverMaxMemory  = 64 << 20 // bytes of memory-only streams; Ferry has none
	defaultMaxStore  = 8 << 30
	minMaxStore      = 1 << 30 // the reservations by the streams' limits, and room beside them
	maxConsumers     = 20000   // of one stream; the library stops at 1,000
	writeDeadline    = 30 * time.Second
	minStrangers     = 4
	minOfOne         = 8
	maxOfOne         = 2048
	maxStrangersIn   = 1024
	fewClients       = 64 // with a lower limit of clients, none are reserved for strangers
)

// ServerConfig is the configuration of the embedded queue manager.
type ServerConfig struct {
	Name     string // the same at every start; default "QM"
	Dir      string // its own directory, which no two servers share; created
	Listen   string // HOST:PORT, port 0 for a free one; "" for in-process connections only
	MaxStore int64  // bytes of its store; default 8 GiB, at least 1 GiB
	// MaxStored is the limit of bytes of stored delivery, which are a part of MaxStore; 0: DefaultMaxStored, or as many
	// as the other streams leave.
	MaxStored int64
	Clients   int          // connections at once; default 65,536
	Guard     *Guard       // admits clients; nil: every client is admitted, under the name that it gives
	Cluster   *Cluster     // its cluster; nil: none
	Log       *slog.Logger // default: nothing is logged

	ChannelListen string    // HOST:PORT for the channels of other queue managers; "": none come in
	Channels      []Channel // to others, beside those that were defined before

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
	cfg         ServerConfig
	opts        *server.Options // as it was started with
	ns          *server.Server
	channels    *Channels
	forwarder   *forwarder // nil where there are no channels
	accountName string     // that has the queues
	lock        *dirLock
	about       *responder
	findings    findings
	broken      atomic.Pointer[string] // why messages cannot be stored at present
	full        atomic.Pointer[string] // why nothing else can be written at present
	room        room                   // for messages of application queues
	known       map[string]mark        // the contents of the marks; only remember uses it until it has ended
	member      *member                // its part in a cluster; nil: it is in none
	account     atomic.Pointer[admission]
	admitting   sync.Mutex
	unkept      bool          // claims that Guard.Keep could not keep
	ending      chan struct{} // closed by Shutdown
	tasks       sync.WaitGroup
	once        sync.Once
	places      []filelock.Place // where its files were when it had started
	gone        chan struct{}    // closed with lost set
	lost        error
}

// readyTimeout is the time in which a started server must report that it is ready.
const readyTimeout = 10 * time.Second

// StartServer runs a queue manager until Shutdown. When it returns, clients can
// connect and everything in the store has been recovered; recovery is not
// interrupted by ctx. The kinds of its errors: KindUsage (name, address, port in
// use), KindUnwritable (directory), KindAlive (directory in use), KindNoManager
// (the store cannot be opened).
func StartServer(ctx context.Context, cfg ServerConfig) (*Server, error) {
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

	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}

	s := &Server{cfg: cfg, accountName: server.DEFAULT_GLOBAL_ACCOUNT, lock: lock, ending: make(chan struct{}), gone: make(chan struct{})}
	if cfg.Guard != nil {
		err = cfg.Guard.apply(s, opts)
	}
	if err == nil && cfg.Cluster != nil {
		err = cfg.Cluster.apply(s, opts)
	}
	if err == nil {
		s.channels, err = openChannels(s)
	}
	if err == nil && cfg.Listen != "" {
		opts.JetStreamDomain = cfg.domain()
		err = s.channels.leafnodes(opts)
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
func (cfg ServerConfig) options() (*server.Options, error) {
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

	if cfg.MaxStored != 0 && (cfg.MaxStored < MinMaxStored || cfg.MaxStored > cfg.MaxStore-minMaxStore) {
		return nil, transfer.Errorf(transfer.KindUsage, "%s for stored delivery do not fit queue manager %s: from %s to %s do",
			transfer.FormatBytes(cfg.MaxStored), cfg.Name, transfer.FormatBytes(MinMaxStored), transfer.FormatBytes(cfg.MaxStore-minMaxStore))
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
		JetStreamMaxMemory:     serverMaxMemory,
		JetStreamMaxStore:      cfg.MaxStore,
		JetStreamLimits:        server.JSLimitOpts{DefaultMaxConsumers: maxConsumers},
		DisableJetStreamBanner: true,
		MaxPayload:             serverMaxPayload,
		MaxPending:             serverMaxPending,
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
		host, port, err := splitListen("--listen", cfg.Listen)
		if err != nil {
			return nil, err
		}
		if !opts.DontListen {
			opts.Host, opts.Port = host, port
		}
	}
	return opts, nil
}

// strangers returns the number of connections that may wait for their identity at once: each takes a descriptor, and
// may send nothing for a while.
func (cfg *ServerConfig) strangers() int {
	if cfg.Guard == nil {
		return 0
	}
	return min(max(cmp.Or(cfg.Clients, server.DEFAULT_MAX_CONNECTIONS)/8, minStrangers), maxStrangersIn)
}

// mostOfOne returns the number of connections that one name may have at once: an agent needs three, a user one for each
// command that runs.
func (cfg *ServerConfig) mostOfOne() int {
	return min(max(cmp.Or(cfg.Clients, server.DEFAULT_MAX_CONNECTIONS)/4, minOfOne), maxOfOne)
}

// members returns the number of connections that are left for admitted clients.
func (cfg *ServerConfig) members() int {
	if cfg.Clients < fewClients {
		return cfg.Clients
	}
	return cfg.Clients - cfg.strangers()
}

// identity returns the queue manager's own identity; nil if it has none.
func (cfg *ServerConfig) identity() *identity.Identity {
	if cfg.Guard == nil {
		return nil
	}
	return cfg.Guard.Identity
}

// splitListen reads HOST:PORT of a flag into the library's form. There a port 0 would mean the default port, and -1 any
// free one.
func splitListen(flag, listen string) (string, int, error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, transfer.Errorf(transfer.KindUsage, "%s %q is malformed; write it as HOST:PORT", flag, listen)
	}

	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, transfer.Errorf(transfer.KindUsage, "%s %q has no port number from 0 to 65535", flag, listen)
	}

	host = cmp.Or(host, "0.0.0.0")
	if port == 0 {
		return host, server.RANDOM_PORT, nil
	}

	// The library reports a port in use as text, after the store is open. Try
	// the port first, for the cause itself.
	l, err := net.Listen("tcp", net.JoinHostPort(host, text))
	if err != nil {
		return "", 0, listenError(flag, listen, err)
	}

	l.Close()
	return host, int(port), nil
}

func listenError(flag, listen string, err error) error {
	cause := err
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		cause = op.Err
	}

	if sys := (*os.SyscallError)(nil); errors.As(err, &sys) {
		cause = sys.Err
	}

	e := transfer.Errorf(transfer.KindUsage, "the queue manager cannot listen on %s: %w", listen, cause)
	if tcp.InUse(err) {
		e.Kind = transfer.KindInUse // it may be free in a moment
		return e.WithHint("is another queue manager running there? choose another address with " + flag)
	}
	return e.WithHint("choose another address with " + flag)
}

// start opens the store and the listener. A server without a listener serves one process and keeps nothing for a later
// run.
func (s *Server) start(opts *server.Options) error {
	if s.cfg.Listen != "" && s.cfg.Guard != nil {
		var err error
		if s.listener, err = net.Listen("tcp", s.cfg.Listen); err != nil {
			return listenError("--listen", s.cfg.Listen, err)
		}
	}
	if err := s.channels.listens(); err != nil {
		return err
	}
	if s.cfg.Listen != "" {
		_, staged := staged(s)
		makeRoom(s, staged+spareBytes, spareInodes)
	}
	if s.cfg.Cluster != nil {
		if err := join(s); err != nil {
			return err
		}
	} else if s.cfg.Listen != "" {
		if err := alone(s); err != nil {
			return err
		}
		if err := s.inspect(opts); errors.As(err, new(*transfer.Error)) {
			return err
		} else if err != nil {
			return transfer.Errorf(transfer.KindNoManager, "the store of queue manager %s in %s cannot be opened: %w", s.cfg.Name, s.cfg.Dir, err)
		}
	}

	log := newServerLog(s.cfg.Log)
	log.links = &s.channels.notes
	s.opts = opts.Clone() // the server changes its own
	ns, err := s.run(opts, log)
	if err != nil {
		return err
	}

	s.ns = ns
	if err := healthy(s, log); err != nil {
		return err
	}

	if s.cfg.Listen != "" {
		if err := s.notePlaces(); err != nil {
			return err
		}
		if s.member == nil {
			s.tasks.Go(s.remember)
		}
		s.tasks.Go(s.channels.watch)
		s.tasks.Go(func() { s.mend(log) })
		s.tasks.Go(s.boundPending)
	}

	s.about, err = answerAbout(s)
	if err == nil && s.member != nil {
		if err = s.member.attend(s.about.ownConn); err == nil {
			s.tasks.Go(s.member.watch)
			s.tasks.Go(func() { s.member.tend(opts) })
			s.tasks.Go(s.member.remember)
		}
	}
	if err == nil && s.listener != nil {
		s.limits = newLimits(s) // before channels forward messages
	}
	if err == nil && s.cfg.Listen != "" {
		if s.forwarder, err = startForwarder(s); err == nil {
			s.about.registrar.hands(s.forwarder)
		}
	}
	if err == nil && s.listener != nil {
		s.tasks.Go(s.limits.run)
		s.gate = s.cfg.Guard.open(s, s.listener)
		err = s.channels.open()
	}
	return err
}

// healthy returns an error if the store was opened and cannot be used. It does not judge a member of a cluster: its
// store is good when it has caught up with the others.
func healthy(s *Server, log *serverLog) error {
	if s.member != nil {
		return nil
	}
	h := s.ns.Healthz(nil)
	for end := time.Now().Add(readyTimeout); h.Error != "" && strings.Contains(h.Error, "failed to be ready") && time.Now().Before(end); {
		h = s.ns.Healthz(nil) // it allows itself a millisecond, which a busy host may not
	}

	if errno := failedCall(h.Error + log.failed()); h.Error != "" && errno != 0 {
		if strings.Contains(h.Error, writeError) {
			log.unstored.last.Store(&h.Error) // mend opens the store again
			return nil
		}
		return transfer.Errorf(transfer.KindNoManager, "the store of queue manager %s in %s cannot be opened: %s: %w", s.cfg.Name, s.cfg.Dir, h.Error, errno)
	}
	if h.Error != "" {
		return transfer.Errorf(transfer.KindNoManager, "the store of queue manager %s in %s is damaged: %s",
			s.cfg.Name, filepath.Join(s.cfg.Dir, server.JetStreamStoreDir), h.Error).
			WithHint("move that directory aside and start again; accepted transfers are in the ledgers of the agents, not here")
	}
	return nil
}

// run starts the library's server and waits until it is ready.
func (s *Server) run(opts *server.Options, log *serverLog) (*server.Server, error) {
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "queue manager %s cannot start: %w", s.cfg.Name, err)
	}

	ns.SetLoggerV2(log, false, false, false)
	// Start returns with the store recovered and the listener open, or after it has logged a fatal error.
	ns.Start()
	if fatal := log.fatal(); fatal != "" {
		err = transfer.Errorf(transfer.KindNoManager, "queue manager %s cannot start in %s: %s", s.cfg.Name, s.cfg.Dir, fatal)
		if !s.cfg.has(s.cfg.Dir, 1, 1) { // the library has only words for that
			err = transfer.Errorf(transfer.KindNoManager, "queue manager %s cannot start in %s: %s: %w", s.cfg.Name, s.cfg.Dir, fatal, syscall.ENOSPC)
		}
	} else if openRoutes(ns, opts); !ns.ReadyForConnections(readyTimeout) {
		err = transfer.Errorf(transfer.KindNoManager, "queue manager %s is not ready after %s", s.cfg.Name, readyTimeout).
			WithHint("try again when this host is less busy")
	}
	if err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, err
	}
	return ns, nil
}

// URL returns the address of the server for clients: nats://HOST:PORT, or "" if it takes in-process connections only.
// For a server that listens on every address it is the loopback one.
func (s *Server) URL() string {
	at := s.ns.Addr()
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
func (s *Server) Channels() *Channels { return s.channels }

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
		close(s.ending)
		s.tasks.Wait()
		if s.gate != nil {
			s.gate.Close()
		} else if s.listener != nil {
			s.listener.Close()
		}
		s.forwarder.stop()
		s.about.stop()
		if s.ns != nil {
			s.ns.Shutdown()
			s.ns.WaitForShutdown()
			s.leave()
		}
		s.channels.close() // or the library would dial again meanwhile
		s.lock.unlock()
	})
}
