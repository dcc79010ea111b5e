// Package coordination keeps the registry of agents and the audit log, and answers questions about the network.
// Transfers run without it: the messages of agents wait in their outboxes.
package coordination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/audit/witness"
	"ferry/internal/coordination/status"
	"ferry/internal/mft/translate"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/enrol"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/failpoint"
	"ferry/internal/sys/quiet"
	"ferry/internal/sys/turns"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Config is the configuration of the service.
type Config struct {
	Dir   string // the audit log and the registry
	Claim *Claim // that StandBy has given; nil: there is no standby
	Clock clock.Clock
	Log   *slog.Logger
	XML   bool // publish the course of transfers in XML, as MQ MFT does; see wire.LogSubject
}

// A Service is the one writer of a network's audit log.
type Service struct {
	cfg     Config
	conn    *qmgr.Conn
	log     *audit.Log
	notary  *notary // nil: the log is not signed
	picture *status.Picture
	logbook *translate.Logbook
	queues  *queuePositions
	trust   *enrol.TrustCache // revoked keys, and the rights of principals
	rights  rights
	obeyed  *obeyedQuestions
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	stops   []func()
	gone    chan struct{} // closed with lost set
	losing  sync.Once
	lost    error
	reading *slowQuestions               // the questions that read the log
	places  map[wire.Kind]*slowQuestions // those that have places of their own
	waiting *waiting                     // questions, for the turns of their askers

	seen   *obeyedQuestions // acknowledgements
	acking sync.Mutex       // held while one is put on record

	definitions *definitions

	quiet   *quiet.Log // about the messages of others
	foreign quiet.Gate // records of transfers that are another's, in the audit
	learned chan struct{}
}

// Bounds of the resources that agents can make the service use.
const (
	maxLedgers = 1024 // of an agent, in the log
	readers    = 4    // questions that read the log, and of each kind that has places of its own
)

// Start opens the log, rebuilds the picture from it and begins to listen. It
// refuses to start where another coordination service answers.
func Start(ctx context.Context, cfg Config, conn *qmgr.Conn) (*Service, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.System
	}

	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}

	if conn.Self() != wire.Coordination {
		return nil, transfer.Errorf(transfer.KindInternal, "coordination has the connection of %s", conn.Self())
	}

	if cfg.Claim == nil {
		var err error
		if cfg.Claim, err = claimShared(cfg); err != nil {
			return nil, err
		}
	}
	s, err := start(ctx, cfg, conn)
	if err != nil && cfg.Claim != nil {
		cfg.Claim.Close()
	}
	return s, err
}

func start(ctx context.Context, cfg Config, conn *qmgr.Conn) (*Service, error) {
	ping := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing})
	if cfg.Claim != nil && cfg.Claim.seen { // the lock decides
	} else if _, err := conn.Request(ctx, wire.AskSubject(wire.Coordination, wire.Coordination), ping, time.Second); err == nil {
		return nil, transfer.Errorf(transfer.KindAlive, "another coordination service already runs on this network").
			WithHint("there is one writer of the audit log; stop the other, or give --coordination none")
	}

	s := &Service{cfg: cfg, conn: conn, picture: status.New(cfg.Clock), logbook: translate.NewLogbook(), reading: newSlowQuestions(readers - 1), places: newPlaces(), waiting: turns.New[qmgr.Message](),
		quiet: quiet.New(cfg.Log, cfg.Clock.Now), learned: make(chan struct{}, 1), gone: make(chan struct{})}
	whole, err := s.open()
	if err != nil {
		return nil, err
	}

	if s.trust, err = enrol.NewTrustCache(enrol.TrustCacheConfig{Conn: conn, Clock: cfg.Clock, Quiet: s.quiet, Who: wire.Coordination,
		Kept: trustIn(cfg.Dir).kept, Keep: trustIn(cfg.Dir).keep, Revoked: func() {}}); err != nil {
		s.log.Close()
		return nil, err
	}
	s.rights = rights{s.trust.Judge()}
	s.obeyed = newObeyedQuestions(conn.Identity(), cfg.Clock)
	s.seen = newObeyedQuestions(conn.Identity(), cfg.Clock)
	s.seen.each = maxSeen

	s.queues = newQueuePositions(s)
	run, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	startDefinitions(run, s, whole)
	if err := s.listen(run); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// rebuildRecords is how many records the service reads back at a start. Older ones are found by asking the log.
const rebuildRecords = 200_000

// open opens the log. While the log reads its last records, open takes them into the picture. Then it reads the registry,
// which has the agents that were removed and came back. whole is false where there is no registry, or it is damaged.
func (s *Service) open() (whole bool, err error) {
	type binding struct {
		index int64
		of    *witness.Binding
	}
	var bindings []binding
	first := true
	s.log, err = audit.OpenTail(filepath.Join(s.cfg.Dir, "audit"), s.cfg.Clock.Now, audit.Tail{Last: rebuildRecords, Each: func(i int64, _ []byte, r *audit.Record) {
		if first && i > 0 {
			s.picture.Begin(r.Time)
		}
		first = false
		if r.Event == audit.Bound && r.Agent == audit.Coordination && r.Binding != nil {
			bindings = append(bindings, binding{i, r.Binding})
		}
		s.addToPicture(r)
	}})
	if err != nil {
		return false, err
	}
	if s.cfg.Claim != nil {
		s.log.Fence(s.cfg.Claim.fence)
	}
	if s.notary, err = newNotary(s.conn.Identity(), s.cfg.Dir, s.log, s.cfg.Clock.Now); err == nil {
		whole, err = s.loadRegistry()
	}
	if err != nil {
		s.log.Close()
		return false, err
	}
	for _, b := range bindings {
		if s.notary != nil {
			s.notary.know(b.index, b.of)
		}
	}
	return whole, nil
}

// startDefinitions opens the definitions of agents and makes their changes, beside the service, until ctx ends. It waits
// a short time for the opening. After it the definitions of agents are removed that the registry, where it is whole, does
// not have, and those of agents that were removed after they had told them.
func startDefinitions(ctx context.Context, s *Service, whole bool) {
	var fence func() error
	if s.cfg.Claim != nil {
		fence = s.cfg.Claim.fence
	}
	d := newDefinitions(ctx, filepath.Join(s.cfg.Dir, "definitions.db"), fence, s.cfg.Clock, s.cfg.Log)
	d.tidy = func(d *definitions) error { return d.forgetRemoved(s.picture, whole) }
	s.definitions = d
	tried := make(chan struct{})
	s.wg.Go(func() {
		d.open()
		close(tried)
		d.run(ctx)
	})
	t := s.cfg.Clock.NewTimer(definitionsStart)
	defer t.Stop()
	select {
	case <-tried:
	case <-t.C():
	case <-ctx.Done():
	}
}

// addToPicture takes a record of the log into the picture. It reports false for a record about another agent's transfer.
func (s *Service) addToPicture(r *audit.Record) bool {
	if r.Event == audit.Removed && r.Agent == audit.Coordination {
		s.picture.Remove(r.Source, r.Time)
	} else if !r.Agent.Stream() && s.picture.Know(r.Agent) {
		s.learn()
	}
	return s.picture.Record(r)
}

// learn says that the registry has more agents.
func (s *Service) learn() {
	wake.Up(s.learned)
}

func (s *Service) listen(ctx context.Context) error {
	stop, err := s.trust.Listen(ctx, s.wg.Go)
	if err != nil {
		return err
	}
	s.stops = append(s.stops, stop)
	for subject, handle := range map[string]func(qmgr.Message){
		wire.AllProgress:                s.reported,
		wire.AllBeats:                   s.reported,
		wire.AllAsks(wire.Coordination): func(m qmgr.Message) { queueQuestion(s.waiting, s.quiet, m) },
	} {
		stop, err := s.conn.Subscribe(subject, handle)
		if err != nil {
			return err
		}
		s.stops = append(s.stops, stop)
	}

	s.wg.Go(func() { answerInTurns(ctx, s.waiting, s.asked) })
	s.wg.Go(func() { s.keepRegistry(ctx) })
	s.wg.Go(func() { s.relieve(ctx) })
	s.wg.Go(func() { watchQueues(ctx, s) })
	s.wg.Go(func() {
		q := streams.Events()
		if err := s.conn.Consume(ctx, q, s.batch); err != nil && ctx.Err() == nil {
			s.cfg.Log.Error("audit batches are no longer read", "error", err)
		}
	})
	s.wg.Go(func() { s.watch(ctx) })
	s.wg.Go(func() { begunLoop(ctx, s) })
	if s.cfg.Claim != nil && !s.cfg.Claim.alone {
		s.wg.Go(func() { keepLease(ctx, s) })
	}
	return nil
}

// lookEvery is how often the log is looked for at its path, and agents are counted.
const lookEvery = 5 * time.Second

// watch notices that the log was taken away, and which agents come and go.
func (s *Service) watch(ctx context.Context) {
	t := s.cfg.Clock.NewTimer(lookEvery)
	defer t.Stop()
	roll := agentStateLogger{log: s.cfg.Log}
	for {
		select {
		case <-t.C():
		case <-ctx.Done():
			return
		}
		if err := s.log.Check(); err != nil {
			s.lose(err)
			return
		}
		s.count(&roll)
		s.keepNotes()
		t.Reset(lookEvery)
	}
}

// count takes notice of the agents that are in the picture now.
func (s *Service) count(roll *agentStateLogger) {
	agents := s.picture.Agents()
	if roll.take(agents) {
		s.learn() // when the agents that went away were heard last
	}
	s.logbook.Keep(agents)
}

// remove takes an agent out of the registry. Its audit records stay.
func (s *Service) remove(name transfer.AgentName, by string, author *word.Author) error {
	if err := s.log.AppendOwn(audit.Record{Event: audit.Removed, Source: name, Principal: by, Vouched: audit.Vouched{Author: author}}); err != nil {
		return err
	}

	s.picture.Remove(name, s.cfg.Clock.Now())
	s.definitions.forgetLater(name)
	s.learn()
	s.cfg.Log.Info("agent removed", "agent", name, "principal", by)
	return nil
}

// lose says why the service must be stopped.
func (s *Service) lose(err error) {
	s.losing.Do(func() {
		s.lost = err
		close(s.gone)
	})
}

// Gone is closed when the log was taken away under the service, taken over by another
// one, or when a standby is to have it: the service must be stopped. Lost says why then.
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
	if s.cfg.Claim != nil {
		defer s.cfg.Claim.Close()
	}
	if err := s.definitions.close(); err != nil {
		s.cfg.Log.Warn("the definitions of agents did not close", "error", err)
	}
	if s.log.Check() == nil {
		s.saveRegistry(true)
		s.stopNotary()
	}
	if err := s.log.Close(); err != nil && s.Lost() == nil {
		s.cfg.Log.Error("the audit log did not close", "error", err)
	}
}

// batch appends an agent's batch to the log and answers with the receipt: the records that the log has (R29).
func (s *Service) batch(d qmgr.Delivery) {
	b, err := audit.DecodeBatch(d.Data)
	if err == nil && wire.EventSubject(b.Agent) != d.Subject {
		err = transfer.Errorf(transfer.KindVersion, "audit batch on %s speaks for agent %s", d.Subject, b.Agent)
	}
	if err == nil && !s.log.Takes(&b, maxLedgers) {
		err = transfer.Errorf(transfer.KindBusy, "%d ledgers of agent %s are in the log, the limit", maxLedgers, b.Agent)
	}
	if err != nil {
		s.quiet.Error("an audit batch is refused", "subject", d.Subject, "error", err)
		d.Term()
		return
	}

	var added []*audit.Record
	b.Added = func(r []*audit.Record) { added = r }
	r, refused, err := s.notary.append(s.log, b)
	if refused != "" {
		if err != nil {
			s.quiet.Error("an audit batch is refused", "agent", b.Agent, "error", err)
		}
		s.refuse(d, &b, refused)
		return
	}
	switch kind := transfer.KindOf(err); {
	case kind == transfer.KindVersion || kind == transfer.KindTooLarge || kind == transfer.KindUsage:
		s.quiet.Error("an audit batch is refused", "agent", b.Agent, "error", err)
		d.Term()
		return
	case err != nil:
		s.quiet.Error("an audit batch could not be appended; its agent keeps it", "agent", b.Agent, "error", err)
		d.Nak(5 * time.Second)
		return
	}

	failpoint.Hit("coordination.appended")
	if receipt, err := audit.EncodeReceipt(r); err == nil && b.Reply != "" {
		s.answerWith(b.Agent.Token(), b.Reply, receipt)
	}

	failpoint.Hit("coordination.before_ack")
	d.Ack()
	s.keepNotes()
	foreign := false
	for _, r := range added {
		if !s.addToPicture(r) {
			foreign = true
		} else if s.cfg.XML {
			publish(s, r)
		}
	}

	if foreign {
		s.warnForeign(b.Agent)
	}
}

// publish publishes in XML the content of a record about a transfer, or about another activity of an agent.
func publish(s *Service, r *audit.Record) {
	if about, text := translate.Kept(r); text != nil {
		publishXML(s, wire.KeptSubject(r.Agent, about), text)
	}
	for _, l := range s.logbook.Logs(r) {
		publishXML(s, wire.LogSubject(l.Source.Name, l.ID), l.XML())
	}
}

// publishXML publishes a document. There may be no subscriber; the log has everything that must be kept.
func publishXML(s *Service, subject string, text []byte) {
	if err := qmgr.PublishPlain(s.conn, subject, text); err != nil {
		s.quiet.Warn("XML is not published", "subject", subject, "error", err)
	}
}

// warnForeign appends a warning to the log, at most once a minute: an agent's records, which the log keeps, are about
// transfers of another agent.
func (s *Service) warnForeign(agent transfer.AgentName) {
	s.quiet.Warn("audit records about another agent's transfers ignored", "agent", agent)
	held, ok := s.foreign.Pass(s.cfg.Clock.Now())
	if !ok {
		return
	}
	text := fmt.Sprintf("records of %s speak of transfers that are another's; nothing is believed of them", agent)
	if held > 0 {
		text += fmt.Sprintf(", nor of %d such batches before", held)
	}
	if err := s.log.AppendOwn(audit.Record{Event: audit.Warning, Text: text}); err != nil {
		s.cfg.Log.Error("a warning could not be appended to the audit log", "error", err)
	}
}

// reported takes heartbeats and live figures. It believes only those of the agent that owns the subject.
func (s *Service) reported(m qmgr.Message) {
	r, err := wire.DecodeReport(m.Data)
	if err == nil && !isOwnReport(r, m.Subject) {
		err = transfer.Errorf(transfer.KindUsage, "it speaks for another agent")
	}
	if err == nil && r.Progress != nil {
		s.picture.Progress(r.Progress)
		if p := r.Progress; s.cfg.XML {
			publishXML(s, wire.StatusSubject(p.Source, p.ID), mftxml.StatusXML(p, s.logbook.Progress(p), s.cfg.Clock.Now()))
		}
		return
	}
	if err == nil && r.Standby != nil {
		if s.picture.Standby(r.Standby) {
			s.learn()
		}
		return
	}
	if err == nil && r.Beat.Agent.Stream() {
		return // the registry has no pipes
	}
	if err == nil {
		err = s.beat(r.Beat)
	}
	if err == nil && s.cfg.XML {
		s.logbook.Beat(r.Beat)
		publishXML(s, wire.StateSubject(r.Beat.Agent), mftxml.AgentXML(r.Beat, s.cfg.Clock.Now()))
	}
	if err != nil {
		s.quiet.Warn("report dropped", "subject", m.Subject, "error", err)
	}
}

// beat takes a heartbeat.
func (s *Service) beat(b *wire.Beat) error {
	fresh, err := s.picture.Beat(b)
	if fresh {
		s.learn()
	}
	return err
}

// isOwnReport reports whether a report is its subject's agent's own.
func isOwnReport(r *wire.Report, subject string) bool {
	if r.Progress != nil {
		return subject == wire.ProgressSubject(r.Progress.Source, wire.LastToken(subject))
	}
	if r.Standby != nil {
		return subject == wire.BeatSubject(r.Standby.Agent)
	}
	return subject == wire.BeatSubject(r.Beat.Agent)
}

// answerWith says something to whoever asked for it, by its token, on its inbox.
func (s *Service) answerWith(to, inbox string, data []byte) {
	err := s.conn.Answer(to, inbox, data)
	switch {
	case transfer.KindOf(err) == transfer.KindUsage:
		s.quiet.Warn("answer dropped", "error", err)
	case err != nil:
		s.cfg.Log.Debug("cannot send answer; the submitter will ask again", "error", err)
	}
}

// registry is the file of all agents that have ever sent a message. Heard has, of those that are away, when each was
// heard last.
type registry struct {
	V      int                              `json:"v"`
	Agents []transfer.AgentName             `json:"agents"`
	Heard  map[transfer.AgentName]time.Time `json:"heard,omitempty"`
}

func (s *Service) registryPath() string { return filepath.Join(s.cfg.Dir, "agents.json") }

// loadRegistry reads the registry. whole is false where there is none, or it is damaged.
func (s *Service) loadRegistry() (whole bool, err error) {
	data, err := os.ReadFile(s.registryPath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, transfer.Errorf(transfer.KindUnreadable, "the registry cannot be read: %w", err)
	}

	var r registry
	if err := json.Unmarshal(data, &r); err != nil {
		s.cfg.Log.Warn("the registry is damaged and begins anew; living agents register again", "error", err)
		return false, nil
	}

	for _, a := range r.Agents {
		s.picture.Know(a)
	}
	for a, at := range r.Heard {
		s.picture.HeardBefore(a, at)
	}
	return true, nil
}

// keepRegistry writes the registry when there are more agents, every registryPause at most.
func (s *Service) keepRegistry(ctx context.Context) {
	t := s.cfg.Clock.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-t.C():
		case <-ctx.Done():
			return
		}
		select {
		case <-s.learned:
			s.saveRegistry(false)
			t.Reset(registryPause)
		case <-ctx.Done():
			return
		}
	}
}

// relieve removes commands for agents that have never sent a message, when they fill the queue of commands.
func (s *Service) relieve(ctx context.Context) {
	t := s.cfg.Clock.NewTimer(relieveEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C():
			t.Reset(relieveEvery)
		case <-ctx.Done():
			return
		}
		gone, err := s.conn.Relieve(ctx, func(token string) bool {
			name, err := wire.AgentOf(token)
			known := s.picture.Known(name)
			return err == nil && (known.Known || !known.Sure)
		})
		if err != nil {
			s.cfg.Log.Debug("the queue of commands cannot be looked at", "error", err)
		}
		if gone > 0 {
			s.quiet.Warn("removed commands for unknown agents, which took the room of others", "commands", gone)
		}
	}
}

const relieveEvery = 30 * time.Second

const registryPause = 200 * time.Millisecond

// saveRegistry writes the names to a new file and renames it. The last one of a run also has when the agents that are up
// were heard. The file is a cache of the agents' own messages: a failure is logged and does no other harm.
func (s *Service) saveRegistry(last bool) {
	if s.cfg.Claim != nil && s.cfg.Claim.fence() != nil {
		return
	}
	data := wire.Marshal(registry{V: 1, Agents: s.picture.Names(), Heard: s.picture.Heard(last)})
	tmp := s.registryPath() + ".new"
	err := os.WriteFile(tmp, data, 0o600)
	if err == nil {
		err = os.Rename(tmp, s.registryPath())
	}
	if err != nil {
		s.cfg.Log.Warn("the registry could not be written", "error", err)
	}
}
