package storage

import (
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
)

// A Store is the store of an embedded queue manager in its directory, and the library's server that has it open.
type Store struct {
	Cfg         Config
	AccountName string // that has the queues
	NS          *server.Server
	Findings    streams.Findings
	broken      atomic.Pointer[string]  // why messages cannot be stored at present
	full        atomic.Pointer[string]  // why nothing else can be written at present
	Room        room                    // for messages of application queues
	Known       map[string]streams.Mark // the contents of the marks; only remember uses it until it has ended
	Admitting   sync.Mutex              // held while the claims of the server change
	Ending      chan struct{}           // closed when the queue manager ends
	openPaths   []filelock.PathIdentity // where its files were when it had started
	gone        chan struct{}           // closed with lost set
	lost        error
}

// A Config is the configuration of a store.
type Config struct {
	Name     string // of the queue manager
	Dir      string
	MaxStore int64
	Identity *identity.Identity // nil: the queue manager asks clients for none
	Log      *slog.Logger
	Has      func(dir string, bytes, inodes uint64) bool   // reports whether a disk has so much left
	Started  func(ns *server.Server, opts *server.Options) // is called after the start of each server
}

// New returns the store of a queue manager. It is not open.
func New(cfg Config) *Store {
	return &Store{Cfg: cfg, AccountName: server.DEFAULT_GLOBAL_ACCOUNT, Ending: make(chan struct{}), gone: make(chan struct{})}
}

// readyTimeout is the time in which a started server must report that it is ready.
const readyTimeout = 10 * time.Second

// Healthy returns an error if the store was opened and cannot be used. It is not for a member of a
// cluster: the store of a member is good when it has caught up with the others.
func Healthy(s *Store, log *Log) error {
	h := s.NS.Healthz(nil)
	for end := time.Now().Add(readyTimeout); h.Error != "" && strings.Contains(h.Error, "failed to be ready") && time.Now().Before(end); {
		h = s.NS.Healthz(nil) // it allows itself a millisecond, which a busy host may not
	}

	if errno := streams.FailedCall(h.Error + log.failed()); h.Error != "" && errno != 0 {
		if strings.Contains(h.Error, writeError) {
			log.unstored.last.Store(&h.Error) // mend opens the store again
			return nil
		}
		return transfer.Errorf(transfer.KindNoManager, "the store of queue manager %s in %s cannot be opened: %s: %w", s.Cfg.Name, s.Cfg.Dir, h.Error, errno)
	}
	if h.Error != "" {
		return transfer.Errorf(transfer.KindNoManager, "the store of queue manager %s in %s is damaged: %s",
			s.Cfg.Name, filepath.Join(s.Cfg.Dir, server.JetStreamStoreDir), h.Error).
			WithHint("move that directory aside and start again; accepted transfers are in the ledgers of the agents, not here")
	}
	return nil
}

// Run starts the library's server and waits until it is ready.
func (s *Store) Run(opts *server.Options, log *Log) (*server.Server, error) {
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "queue manager %s cannot start: %w", s.Cfg.Name, err)
	}

	ns.SetLoggerV2(log, false, false, false)
	// Start returns with the store recovered and the listener open, or after it has logged a fatal error.
	ns.Start()
	if fatal := log.fatal(); fatal != "" {
		err = transfer.Errorf(transfer.KindNoManager, "queue manager %s cannot start in %s: %s", s.Cfg.Name, s.Cfg.Dir, fatal)
		if !s.Cfg.Has(s.Cfg.Dir, 1, 1) { // the library has only words for that
			err = transfer.Errorf(transfer.KindNoManager, "queue manager %s cannot start in %s: %s: %w", s.Cfg.Name, s.Cfg.Dir, fatal, syscall.ENOSPC)
		}
	} else if s.Cfg.Started(ns, opts); !ns.ReadyForConnections(readyTimeout) {
		err = transfer.Errorf(transfer.KindNoManager, "queue manager %s is not ready after %s", s.Cfg.Name, readyTimeout).
			WithHint("try again when this host is less busy")
	}
	if err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, err
	}
	return ns, nil
}
