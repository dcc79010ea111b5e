package coordination_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const patience = 90 * time.Second

// A stage is a queue manager with coordination, and a stranger who may publish on every subject.
type stage struct {
	t        *testing.T
	ctx      context.Context
	connect  func(self string) *qmgr.Conn
	stranger *qmgr.Conn
	log      *lines
}

// lines collects the log of coordination.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return newStageOf(t, coordination.Config{Dir: t.TempDir()})
}

// newStageOf is newStage with a configuration. Without a log in it, the lines go to s.log.
func newStageOf(t *testing.T, cfg coordination.Config) *stage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	quiet := slog.New(slog.DiscardHandler)
	server, err := server.Start(ctx, server.Config{Dir: t.TempDir(), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	connect := func(name string) *qmgr.Conn {
		conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{Server: server, Name: name, Self: name, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	s := &stage{t: t, ctx: ctx, connect: connect, stranger: connect("stranger"), log: &lines{}}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(s.log, nil))
	}
	service, err := coordination.Start(ctx, cfg, connect("coordination"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Stop)
	return s
}

// ask asks coordination.
func (s *stage) ask(a wire.Ask) (*wire.Answer, error) {
	s.t.Helper()
	a.V = wire.Version
	data, err := s.stranger.Request(s.ctx, wire.AskSubject(wire.Coordination, s.stranger.Self()), wire.Marshal(a), patience)
	if err != nil {
		s.t.Fatal(err)
	}
	return wire.DecodeAnswer(data)
}

// register registers an agent in the name of a principal.
func (s *stage) register(as string, b wire.Beat) error {
	s.t.Helper()
	b.V, b.Kind = wire.Version, wire.BeatKind
	data, err := s.connect(as).Request(s.ctx, wire.AskSubject(wire.Coordination, as), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskRegister,
		Body: wire.Marshal(wire.Register{Beat: &b})}), patience)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = wire.DecodeAnswer(data)
	return err
}

// report says something on a subject.
func (s *stage) report(subject string, r wire.Report) {
	s.t.Helper()
	r.V = wire.Version
	if err := s.stranger.Publish(subject, wire.Marshal(r)); err != nil {
		s.t.Fatal(err)
	}
}

const ledgerOfALPHA = 7

func record(agent transfer.AgentName, n uint64, r audit.Record) audit.Record {
	r.Agent, r.Incarnation, r.N, r.Time = agent, audit.FormatIncarnation(ledgerOfALPHA), n, time.Unix(1_767_225_600, 0)
	return r
}

// send sends a batch in an agent's name and gives the receipt.
func (s *stage) send(subject string, b audit.Batch, records ...audit.Record) audit.Receipt {
	s.t.Helper()
	inbox := s.connect(string(b.Agent)).NewInbox(wire.Coordination)
	receipts := make(chan []byte, 8)
	stop, err := s.stranger.Subscribe(inbox, func(m qmgr.Message) { receipts <- m.Data })
	if err != nil {
		s.t.Fatal(err)
	}
	defer stop()
	if s.put(subject, b, inbox, records...); s.t.Failed() {
		s.t.FailNow()
	}
	select {
	case data := <-receipts:
		r, err := audit.DecodeReceipt(data)
		if err != nil {
			s.t.Fatal(err)
		}
		return r
	case <-time.After(patience):
		s.t.Fatal("no receipt comes")
		panic("unreachable")
	}
}

func (s *stage) put(subject string, b audit.Batch, inbox string, records ...audit.Record) {
	s.t.Helper()
	b.Incarnation, b.Reply = audit.FormatIncarnation(ledgerOfALPHA), inbox
	for i := range records {
		raw, err := audit.Encode(&records[i])
		if err != nil {
			s.t.Fatal(err)
		}
		b.Records = append(b.Records, raw)
	}
	data, err := audit.EncodeBatch(&b)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.stranger.Enqueue(s.ctx, subject, "", data); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) verify() audit.Report {
	s.t.Helper()
	ans, err := s.ask(wire.Ask{Kind: wire.AskVerify})
	if err != nil {
		s.t.Fatal(err)
	}
	var r audit.Report
	if err := json.Unmarshal(ans.Verified, &r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// One batch with a floor that was never reached does not silence an agent, and the missing records are found.
func TestAForgedFloorSilencesNobody(t *testing.T) {
	s := newStage(t)
	subject := wire.EventSubject("ALPHA")
	note := func(n uint64) audit.Record { return record("ALPHA", n, audit.Record{Event: audit.Warning}) }
	if r := s.send(subject, audit.Batch{Agent: "ALPHA", Floor: 1}, note(1), note(2)); r.Have != 2 {
		t.Fatalf("receipted up to %d", r.Have)
	}
	if r := s.verify(); r.Found != 0 {
		t.Fatalf("%+v", r)
	}
	s.put(subject, audit.Batch{Agent: "ALPHA", Floor: 1 << 60}, "")
	s.put(subject, audit.Batch{Agent: "ALPHA", Floor: 1 << 47}, "")
	if r := s.send(subject, audit.Batch{Agent: "ALPHA", Floor: 3}, note(3), note(4)); r.Have != 4 {
		t.Errorf("the agent goes on and is receipted up to %d", r.Have)
	}
	r := s.verify()
	if r.Found == 0 || !strings.Contains(fmt.Sprint(r.Problems), "records 5 to 140737488355327 of ALPHA/0000000000000007 are missing") || r.Late != 2 {
		t.Errorf("verify says %+v", r)
	}
}

// Whoever is not the subject's agent is not believed about it, and a batch that
// is refused does not come again.
func TestWhoSpeaksIsWhoseSubjectItIs(t *testing.T) {
	s := newStage(t)
	id := transfer.NewID(time.Now())
	real := transfer.Progress{ID: id, Source: "ALPHA", Destination: "BETA", State: transfer.Running, Traffic: transfer.Traffic{BytesSent: 5}}
	forged := transfer.Progress{ID: id, Source: "ALPHA", Destination: "BETA", State: transfer.Successful}
	if err := s.register("ALPHA", wire.Beat{Agent: "ALPHA", Host: "real", Status: wire.AgentReady}); err != nil {
		t.Errorf("an agent cannot register: %v", err)
	}
	if err := s.register("MALLORY", wire.Beat{Agent: "ALPHA", Host: "forged", Status: wire.AgentStopped}); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("one agent registers another: %v", err)
	}
	s.report(wire.BeatSubject("MALLORY"), wire.Report{Kind: wire.BeatKind, Beat: &wire.Beat{V: wire.Version, Agent: "ALPHA", Host: "forged", Status: wire.AgentStopped}})
	s.report(wire.ProgressSubject("ALPHA", "ann"), wire.Report{Kind: wire.ProgressKind, Progress: &real})
	s.report(wire.ProgressSubject("MALLORY", "ann"), wire.Report{Kind: wire.ProgressKind, Progress: &forged})
	forged.Source = "MALLORY"
	s.report(wire.ProgressSubject("MALLORY", "ann"), wire.Report{Kind: wire.ProgressKind, Progress: &forged})
	over := audit.Record{Event: audit.Completed, Role: audit.RoleSource, Transfer: id, Source: "ALPHA", Destination: "BETA", State: transfer.Failed}
	for range 50 {
		s.put("ferry.event.MALLORY", audit.Batch{Agent: "ALPHA", Floor: 1}, "", record("ALPHA", 1, over))
		s.put("ferry.event.MALLORY.ALPHA", audit.Batch{Agent: "ALPHA", Floor: 1}, "", record("ALPHA", 1, over))
		s.put("ferry.event.ALPHA", audit.Batch{Agent: "ALPHA", Floor: 1}, "", record("MALLORY", 1, over))
	}
	if r := s.send("ferry.event.MALLORY", audit.Batch{Agent: "MALLORY", Floor: 1}, record("MALLORY", 1, over)); r.Have != 1 {
		t.Errorf("an agent's own records are not kept: %+v", r)
	}
	ans, err := s.ask(wire.Ask{Kind: wire.AskTransfer, Suffix: id.String()})
	if err != nil || len(ans.Transfers) != 1 || ans.Transfers[0].State != transfer.Running || ans.Transfers[0].Source != "ALPHA" || ans.Transfers[0].BytesSent != 5 {
		t.Errorf("the transfer is believed to be %+v (%v)", ans, err)
	}
	ans, err = s.ask(wire.Ask{Kind: wire.AskAgents, Agent: "ALPHA"})
	if err != nil || len(ans.Agents) != 1 || ans.Agents[0].Host != "real" || ans.Agents[0].Status != wire.AgentReady {
		t.Errorf("the agent is believed to be %+v (%v)", ans, err)
	}
	// It is flagged behind the batch, before the next one is taken.
	s.send("ferry.event.MALLORY", audit.Batch{Agent: "MALLORY", Floor: 1}, record("MALLORY", 1, over))
	ans, err = s.ask(wire.Ask{Kind: wire.AskAudit})
	if err != nil || len(ans.Records) != 2 || !strings.Contains(string(ans.Records[0]), "transfers that are another's") {
		t.Errorf("on record is %s (%v)", ans.Records, err)
	}
	for _, kind := range []string{"report dropped", "an audit batch is refused"} {
		if n := s.log.count(kind); n != 1 {
			t.Errorf("%q is logged %d times", kind, n)
		}
	}
}

// Coordination answers inboxes, and says nothing on a subject that a question or
// a batch names otherwise.
func TestCoordinationAnswersInboxesOnly(t *testing.T) {
	s := newStage(t)
	heard := make(chan qmgr.Message, 100)
	for _, subject := range []string{"ferry.reply.ALPHA.BETA", "$JS.API.STREAM.NAMES"} {
		stop, err := s.stranger.Subscribe(subject, func(m qmgr.Message) { heard <- m })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		s.put("ferry.event.ALPHA", audit.Batch{Agent: "ALPHA", Floor: 1}, subject, record("ALPHA", 1, audit.Record{Event: audit.Warning}))
	}
	s.send("ferry.event.ALPHA", audit.Batch{Agent: "ALPHA", Floor: 1}, record("ALPHA", 1, audit.Record{Event: audit.Warning}))
	if _, err := s.ask(wire.Ask{Kind: wire.AskPing}); err != nil {
		t.Fatal(err)
	}
	for len(heard) > 0 {
		m := <-heard
		t.Errorf("coordination says on %s, because a message named it: %s", m.Subject, m.Data)
	}
}
