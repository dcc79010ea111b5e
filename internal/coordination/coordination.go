// Package coordination keeps the registry of agents and the audit log, and
// answers what people ask about the network. Transfers run without it: what
// agents have to say waits in their outboxes.
package coordination

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/clock"
	"ferry/internal/failpoint"
	"ferry/internal/qmgr"
	"ferry/internal/status"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Config is what the service is given.
type Config struct {
	Dir   string // the audit log and the registry
	Clock clock.Clock
	Log   *slog.Logger
}

// A Service is the one writer of a network's audit log.
type Service struct {
	cfg     Config
	conn    *qmgr.Conn
	log     *audit.Log
	picture *status.Picture
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	stops   []func()
	saved   sync.Mutex
	gone    chan struct{} // closed with lost set
	lost    error
}

// Start opens the log, rebuilds the picture from it and begins to listen. It
// refuses to start where another coordination service answers.
func Start(ctx context.Context, cfg Config, conn *qmgr.Conn) (*Service, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.System
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ping := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing})
	if _, err := conn.Request(ctx, wire.AskCoordination, ping, time.Second); err == nil {
		return nil, transfer.Errorf(transfer.KindAlive, "another coordination service already runs on this network").
			WithHint("there is one writer of the audit log; stop the other, or give --coordination none")
	}
	log, err := audit.OpenLog(filepath.Join(cfg.Dir, "audit"), cfg.Clock.Now)
	if err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, conn: conn, log: log, picture: status.New(cfg.Clock), gone: make(chan struct{})}
	if err := s.rebuild(); err != nil {
		log.Close()
		return nil, err
	}
	run, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	if err := s.listen(run); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// rebuildRecords is how far back the log is read at a start; what is older is
// found by asking the log.
const rebuildRecords = 200_000

func (s *Service) rebuild() error {
	if err := s.loadRegistry(); err != nil {
		return err
	}
	return s.log.Scan(max(0, s.log.Size()-rebuildRecords), func(_ int64, _ []byte, r *audit.Record) error {
		s.fold(r)
		return nil
	})
}

func (s *Service) fold(r *audit.Record) {
	s.picture.Record(r)
	for _, name := range []transfer.AgentName{r.Agent, r.Source, r.Destination} {
		if r.Agent == name && s.picture.Know(name) {
			s.saveRegistry()
		}
	}
}

func (s *Service) listen(ctx context.Context) error {
	for subject, handle := range map[string]func(qmgr.Message){
		wire.AllProgress:     s.reported,
		wire.AskCoordination: s.asked,
	} {
		stop, err := s.conn.Subscribe(subject, handle)
		if err != nil {
			return err
		}
		s.stops = append(s.stops, stop)
	}
	s.wg.Go(func() {
		q := qmgr.Queue{Stream: qmgr.StreamEvent, Durable: "coordination", Filter: wire.AllEvents}
		if err := s.conn.Consume(ctx, q, s.batch); err != nil && ctx.Err() == nil {
			s.cfg.Log.Error("audit batches are no longer read", "err", err)
		}
	})
	s.wg.Go(func() { s.watch(ctx) })
	return nil
}

// lookEvery is how often the log is looked for at its path.
const lookEvery = 5 * time.Second

// watch notices that the log was taken away.
func (s *Service) watch(ctx context.Context) {
	t := s.cfg.Clock.NewTimer(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C():
		case <-ctx.Done():
			return
		}
		if s.lost = s.log.Check(); s.lost != nil {
			close(s.gone)
			return
		}
		t.Reset(lookEvery)
	}
}

// Gone is closed when the log was taken away under the service: it receipts
// nothing more, and must be stopped. Lost says why then.
func (s *Service) Gone() <-chan struct{} { return s.gone }

// Lost is nil until Gone is closed.
func (s *Service) Lost() error {
	select {
	case <-s.gone:
		return s.lost
	default:
		return nil
	}
}

// Stop ends the service.
func (s *Service) Stop() {
	s.cancel()
	for _, stop := range s.stops {
		stop()
	}
	s.wg.Wait()
	if err := s.log.Close(); err != nil && s.Lost() == nil {
		s.cfg.Log.Error("the audit log did not close", "err", err)
	}
}

// batch appends an agent's batch to the log and says what the log has (R29).
func (s *Service) batch(d qmgr.Delivery) {
	b, err := audit.DecodeBatch(d.Data)
	if err == nil && transfer.Token(string(b.Agent)) != wire.LastToken(d.Subject) {
		err = transfer.Errorf(transfer.KindVersion, "audit batch on %s speaks for agent %s", d.Subject, b.Agent)
	}
	if err != nil {
		s.cfg.Log.Error("an audit batch is refused", "subject", d.Subject, "err", err)
		d.Term()
		return
	}
	before := s.log.Size()
	r, err := s.log.Append(b)
	if err != nil {
		s.cfg.Log.Error("an audit batch could not be appended; its agent keeps it", "agent", b.Agent, "err", err)
		if kind := transfer.KindOf(err); kind == transfer.KindVersion || kind == transfer.KindTooLarge {
			d.Term()
		} else {
			d.Nak(5 * time.Second)
		}
		return
	}
	failpoint.Hit("coordination.appended")
	receipt, err := audit.EncodeReceipt(r)
	if err == nil {
		m := &wire.Message{Kind: wire.KindReceipt, From: audit.Coordination, Receipt: receipt}
		if data, err := m.Encode(); err == nil {
			err = s.conn.Publish(wire.ReceiptSubject(b.Agent), data)
			if err != nil {
				s.cfg.Log.Debug("a receipt could not be sent; the batch comes again", "err", err)
			}
		}
	}
	failpoint.Hit("coordination.before_ack")
	d.Ack()
	if err := s.log.Scan(before, func(_ int64, _ []byte, r *audit.Record) error {
		s.fold(r)
		return nil
	}); err != nil {
		s.cfg.Log.Error("new audit records could not be read back", "err", err)
	}
}

// reported takes heartbeats and live figures.
func (s *Service) reported(m qmgr.Message) {
	r, err := wire.DecodeReport(m.Data)
	if err != nil {
		s.cfg.Log.Debug("a report is dropped", "subject", m.Subject, "err", err)
		return
	}
	token := wire.LastToken(m.Subject)
	switch {
	case r.Beat != nil && r.Beat.Agent.Token() == token:
		if s.picture.Beat(r.Beat) {
			s.saveRegistry()
		}
	case r.Progress != nil && r.Progress.Source.Token() == token:
		s.picture.Progress(r.Progress)
	}
}

// registry is the file that remembers which agents were ever heard of.
type registry struct {
	V      int                  `json:"v"`
	Agents []transfer.AgentName `json:"agents"`
}

func (s *Service) registryPath() string { return filepath.Join(s.cfg.Dir, "agents.json") }

func (s *Service) loadRegistry() error {
	data, err := os.ReadFile(s.registryPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return transfer.Errorf(transfer.KindUnreadable, "the registry cannot be read: %w", err)
	}
	var r registry
	if err := json.Unmarshal(data, &r); err != nil {
		s.cfg.Log.Warn("the registry is damaged and begins anew; living agents register again", "err", err)
		return nil
	}
	for _, a := range r.Agents {
		s.picture.Know(a)
	}
	return nil
}

// saveRegistry writes the names to a new file and renames it. It is a cache of
// what agents say themselves: a failure is logged and otherwise does no harm.
func (s *Service) saveRegistry() {
	s.saved.Lock()
	defer s.saved.Unlock()
	data := wire.Marshal(registry{V: 1, Agents: s.picture.Names()})
	tmp := s.registryPath() + ".new"
	err := os.WriteFile(tmp, data, 0o600)
	if err == nil {
		err = os.Rename(tmp, s.registryPath())
	}
	if err != nil {
		s.cfg.Log.Warn("the registry could not be written", "err", err)
	}
}
