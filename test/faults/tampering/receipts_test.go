package tampering_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/agent"
	"ferry/internal/audit"
	"ferry/internal/audit/witness"
	"ferry/internal/coordination"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/campaign"
)

// TestCampaignReceipts runs a coordination that sends receipts for records that it does not keep.
func TestCampaignReceipts(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "receipts", Unit: "liars", Full: 40, Short: 4,
		What:     "coordinations with the network's own identity that receipt audit records which they do not keep, with no proof or a false one, and an honest one after them",
		Packages: []string{"internal/audit", "internal/audit/witness", "internal/agent", "internal/agent/outbox", "internal/coordination", "internal/ledger"}},
		func(t *testing.T, c *campaign.C) {
			c.Beside(t, 4, forged)
		})
}

// A stage is a network with one agent and exchangeable coordinations.
type stage struct {
	*testing.T
	ctx     context.Context
	net     *authority.Authority
	server  *server.Server
	service *identity.Identity
	user    *qmgr.Conn
	agent   *agent.Agent
}

func newStage(t *testing.T) *stage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	s := &stage{T: t, ctx: ctx, net: authoritytest.New(t)}
	claims, err := s.net.Claims()
	must(t, err)
	s.server, err = server.Start(ctx, server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0",
		Guard: &server.Guard{Identity: authoritytest.Identity(t, s.net, identity.Manager, "QM", roles.Manager), Claims: claims}})
	must(t, err)
	t.Cleanup(s.server.Shutdown)
	s.service = authoritytest.Identity(t, s.net, identity.Coordination, "", roles.Coordination)
	s.user = s.connect(authoritytest.Identity(t, s.net, identity.User, "ann", roles.Admin))
	desk := &enrol.Responder{Authority: s.net, Conn: s.connect(authoritytest.Identity(t, s.net, identity.Authority, "", roles.Authority)),
		Token: func(string) (string, error) { return "", nil }, Changed: func() {}, Log: slog.New(slog.DiscardHandler)}
	away, err := desk.Attend()
	must(t, err)
	t.Cleanup(away)
	s.agent, err = agent.Start(ctx, agent.Config{Name: "ALPHA", Dir: t.TempDir(), Roots: []string{t.TempDir()}, Log: slog.New(slog.DiscardHandler)},
		s.connect(authoritytest.Identity(t, s.net, identity.Agent, "ALPHA", roles.Agent)))
	must(t, err)
	t.Cleanup(s.agent.Stop)
	return s
}

func (s *stage) connect(i *identity.Identity) *qmgr.Conn {
	s.Helper()
	c, err := qmgr.Connect(s.ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: s.server.URL(), Identity: i})
	must(s.T, err)
	s.Cleanup(c.Close)
	return c
}

func (s *stage) ask(subject string, kind wire.Kind, body any) *wire.Answer {
	s.Helper()
	question := wire.Marshal(wire.Ask{V: wire.Version, Kind: kind, Body: wire.Marshal(body)})
	if kind != wire.AskLog { // all others are signed
		to := identity.Name{Network: s.user.Identity().Name().Network, Role: identity.Agent, Name: "ALPHA"}
		now := time.Now()
		question = word.Sign(s.user.Identity(), word.Statement{Kind: word.Ask, To: to, ID: transfer.NewID(now)}, question, now)
	}
	data, err := s.user.Request(s.ctx, subject, question, 90*time.Second)
	must(s.T, err)
	ans, err := wire.DecodeAnswer(data)
	must(s.T, err)
	return ans
}

func (s *stage) until(what string, ok func() bool) {
	s.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.Fatalf("%s: never", what)
		}
	}
}

const acts = 5

// forged is one case.
func forged(t *testing.T, seed uint64, r *rand.Rand) {
	s := newStage(t)
	l := s.forger(int(seed%4), r)
	for range acts {
		s.ask(wire.AskAgent("ALPHA", s.user.Self()), wire.AskSet, wire.SetRates{Rates: map[transfer.AgentName]string{"": "1M"}})
	}
	s.until("the records are receipted", func() bool { return l.receipts.Load() >= acts })
	asked := l.asked.Load()
	s.until("the agent has asked for proofs", func() bool { return l.asked.Load() >= asked+2 || s.agent.OutboxLeft() < acts })
	if left := s.agent.OutboxLeft(); left < acts {
		t.Fatalf("%d of %d records are left in the outbox, and no log has the others", left, acts)
	}
	l.stop()

	// An honest coordination takes over. Receipts of the liar may stand in its way until an operator has accepted its
	// log; then it gets all records.
	dir := t.TempDir()
	conn := s.connect(s.service)
	honest, err := coordination.Start(s.ctx, coordination.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)}, conn)
	must(t, err)
	shown, err := witness.DecodeShown(s.ask(wire.AskSubject(wire.Coordination, s.user.Self()), wire.AskLog, wire.LogSeen{}).Witness)
	must(t, err)
	s.ask(wire.AskAgent("ALPHA", s.user.Self()), wire.AskAccept, wire.AcceptLog{Note: shown.Note, Binding: shown.Binding.Encode()})
	s.until("the records are proved", func() bool { return s.agent.OutboxLeft() == 0 })
	honest.Stop()
	log, err := audit.OpenLogReadOnly(filepath.Join(dir, "audit"))
	must(t, err)
	defer log.Close()
	report, err := log.VerifySigned(t.Context(), s.service.Roots())
	if err != nil || report.Found > 0 || report.Signed < acts {
		t.Errorf("the log of the honest one: %+v, %v", report, err)
	}
}

// A liar is a coordination with the right key that keeps no record.
type liar struct {
	*stage
	way      int
	key      *witness.Key
	conn     *qmgr.Conn
	receipts atomic.Int64 // number of the last record with a receipt
	asked    atomic.Int64 // number of questions for the log
	seed     uint64
	stop     func()
}

func (s *stage) forger(way int, r *rand.Rand) *liar {
	s.Helper()
	l := &liar{stage: s, way: way, conn: s.connect(s.service), seed: r.Uint64()}
	var err error
	l.key, err = witness.OpenKey(s.service, time.Now())
	must(s.T, err)
	ctx, cancel := context.WithCancel(s.ctx)
	drop, err := l.conn.Subscribe(wire.AllAsks(wire.Coordination), l.answer)
	must(s.T, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.conn.Consume(ctx, streams.Events(), l.receipt)
	}()
	l.stop = func() { drop(); cancel(); <-done; l.conn.Close() }
	return l
}

// receipt sends a receipt for a batch without keeping it.
func (l *liar) receipt(d qmgr.Delivery) {
	d.Ack()
	b, err := audit.DecodeBatch(d.Data)
	if err != nil || len(b.Records) == 0 {
		return
	}
	last, err := audit.Decode(b.Records[len(b.Records)-1])
	if err != nil {
		return
	}
	data, err := audit.EncodeReceipt(audit.Receipt{Agent: b.Agent, Incarnation: b.Incarnation, Have: last.N, Index: int64(last.N)})
	if err == nil && l.conn.Answer(b.Agent.Token(), b.Reply, data) == nil {
		l.receipts.Store(int64(last.N))
	}
}

// answer answers questions, and shows an invented log.
func (l *liar) answer(m qmgr.Message) {
	ask, err := wire.DecodeAsk(m.Data)
	if err != nil {
		return
	}
	ans := wire.Answer{V: wire.Version, ID: ask.ID}
	switch ask.Kind {
	case wire.AskRegister: // the agent sends no record before it knows which ones the log has
		ans.Body = wire.Marshal(wire.Registered{})
	case wire.AskLog:
		var seen wire.LogSeen
		if json.Unmarshal(ask.Body, &seen) == nil {
			ans.Witness = l.show(&seen)
		}
		l.asked.Add(1)
	}
	_ = l.conn.Answer(wire.LastToken(m.Subject), m.Reply, wire.Marshal(ans))
}

// show makes a log of records that are not the agent's. Its way decides the replacement for a proof.
func (l *liar) show(seen *wire.LogSeen) []byte {
	at := witness.Checkpoint{Network: l.service.Name().Network, Size: 64, Log: audit.FormatIncarnation(l.seed)}
	leaves := make([]tlog.Hash, at.Size)
	for i := range leaves {
		leaves[i] = tlog.RecordHash([]byte{byte(i), byte(l.seed)})
	}
	at.Root = witness.RootOf(leaves)
	note, err := l.key.Sign(at)
	if err != nil {
		return nil
	}
	s := &witness.Shown{V: 1, Signed: witness.Signed{Note: note, Binding: l.key.Binding()}}
	run := witness.Run{First: seen.First, Count: int(seen.Last-seen.First) + 1}
	switch {
	case seen.First == 0:
	case l.way == 1: // a position without a proof
		s.Runs = []witness.Run{run}
	case l.way == 2: // hashes of the tree, but not those beside the records
		run.Proof = []tlog.Hash{leaves[0], at.Root}
		s.Runs = []witness.Run{run}
	case l.way == 3: // the whole log is theirs
		run.Count, run.Proof = int(at.Size), nil
		s.Runs = []witness.Run{run}
	}
	return wire.Marshal(s)
}
