package agent_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const patience = 4 * time.Minute

// A scene is a queue manager with one agent, ALPHA, and a speaker that may publish on every subject.
type scene struct {
	t        *testing.T
	ctx      context.Context
	agent    *agent.Agent
	stranger *qmgr.Conn
	log      *lines
	batches  chan audit.Batch // that ALPHA sends
}

// lines is the log of an agent.
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

func newScene(t *testing.T, duties ...duty.Maker) *scene {
	t.Helper()
	return sceneOf(t, agent.Config{Duties: duties})
}

// sceneOf is newScene with more of ALPHA's configuration.
func sceneOf(t *testing.T, cfg agent.Config) *scene {
	t.Helper()
	return sceneWith(t, cfg, &wire.Registered{}) // coordination has no record of ALPHA yet
}

// sceneWith is sceneOf with coordination's answer to a registration; nil: none.
func sceneWith(t *testing.T, cfg agent.Config, registered *wire.Registered) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	quiet := slog.New(slog.DiscardHandler)
	server, err := server.Start(ctx, server.Config{Dir: t.TempDir(), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	s := &scene{t: t, ctx: ctx, log: &lines{}, batches: make(chan audit.Batch, 1000)}
	connect := func(name string) *qmgr.Conn {
		conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{Server: server, Name: name, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	s.stranger = connect("stranger")
	s.hear(wire.AllEvents, func(m qmgr.Message) {
		b, err := audit.DecodeBatch(m.Data)
		if err != nil {
			t.Error(err)
		}
		select {
		case s.batches <- b:
		default:
		}
	})
	s.hear(wire.AskSubject(wire.Coordination, "ALPHA"), func(m qmgr.Message) {
		if a, err := wire.DecodeAsk(m.Data); err == nil && a.Kind == wire.AskRegister && registered != nil {
			_ = s.stranger.Publish(m.Reply, wire.Marshal(wire.Answer{V: wire.Version, Body: wire.Marshal(registered)}))
		}
	})
	cfg.Name, cfg.Dir, cfg.Roots = "ALPHA", cmp.Or(cfg.Dir, t.TempDir()), []string{t.TempDir()}
	cfg.Log, cfg.Direct = slog.New(slog.NewTextHandler(s.log, nil)), agent.Direct{Mode: agent.DirectOff}
	s.agent, err = agent.Start(ctx, cfg, connect("ALPHA"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.agent.Stop)
	return s
}

func (s *scene) hear(subject string, f func(qmgr.Message)) {
	s.t.Helper()
	stop, err := s.stranger.Subscribe(subject, f)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(stop)
}

func (s *scene) say(subject string, data []byte) {
	s.t.Helper()
	if err := s.stranger.Publish(subject, data); err != nil {
		s.t.Fatal(err)
	}
}

// enqueue stores a command for ALPHA.
func (s *scene) enqueue(subject string, data []byte) {
	s.t.Helper()
	if err := s.stranger.Enqueue(s.ctx, subject, "", data); err != nil {
		s.t.Fatal(err)
	}
}

// settled waits until ALPHA has taken every message so far: its answers come after the messages before them.
func (s *scene) settled() {
	s.t.Helper()
	ping := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing})
	if _, err := s.stranger.Request(s.ctx, wire.AskAgent("ALPHA", s.stranger.Self()), ping, patience); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) until(what string, ok func() bool) {
	s.t.Helper()
	late := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// request is a request that ALPHA accepts.
func request() transfer.Request {
	now := time.Now()
	return transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(now), Submitted: now.UTC(), Source: "ALPHA", Destination: "BETA", Originator: transfer.Originator{User: "ann", Host: "box"}, Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
}

// submitted has ALPHA accept a transfer, and with it write audit records.
func (s *scene) submitted() transfer.ID {
	s.t.Helper()
	q := request()
	s.enqueue(wire.CommandSubject("ALPHA", "ann%40box"), wire.Marshal(wire.Submit{V: wire.Version, Request: q}))
	s.until("the request is accepted", func() bool {
		data, err := s.stranger.Request(s.ctx, wire.AskAgent("ALPHA", s.stranger.Self()), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskStatus, ID: q.ID}), patience)
		if err != nil {
			return false
		}
		_, err = wire.DecodeAnswer(data)
		return err == nil && s.agent.OutboxLeft() > 0 // which is counted a moment later
	})
	return q.ID
}

// A receipt of coordination for records that were not sent drops nothing.
func TestReceiptsThatDoNotFit(t *testing.T) {
	s := newScene(t)
	s.submitted()
	left := s.agent.OutboxLeft()
	var b audit.Batch
	s.until("the records are sent", func() bool {
		select {
		case more := <-s.batches:
			if b = more; len(b.Records) == 0 {
				return false
			}
			last, err := audit.Decode(b.Records[len(b.Records)-1])
			return err == nil && last.N == uint64(left)
		default:
			return false
		}
	})
	receipt := func(mod func(*audit.Receipt)) []byte {
		r := audit.Receipt{Agent: "ALPHA", Incarnation: b.Incarnation, Have: uint64(left), Index: 7}
		mod(&r)
		data, err := audit.EncodeReceipt(r)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	whole := receipt(func(*audit.Receipt) {})
	s.say("ferry.reply.ALPHA.coordination", []byte(`{"v":1,"kind":"audit-receipt","from":"COORDINATION","body":`+string(whole)+`}`))
	if asker, answerer, ok := wire.ReadInbox(b.Reply); !ok || asker != "ALPHA" || answerer != wire.Coordination {
		t.Fatalf("a batch wants its receipt on %q", b.Reply)
	}
	for what, mod := range map[string]func(*audit.Receipt){
		"beyond what was sent":   func(r *audit.Receipt) { r.Have++ },
		"far beyond":             func(r *audit.Receipt) { r.Have = audit.MaxNumber },
		"another agent":          func(r *audit.Receipt) { r.Agent = "BETA" },
		"another ledger":         func(r *audit.Receipt) { r.Incarnation = audit.FormatIncarnation(1) },
		"an index that is none":  func(r *audit.Receipt) { r.Index = -9 },
		"nowhere in the log":     func(r *audit.Receipt) { r.Index = -1 },
		"a number that is none":  func(r *audit.Receipt) { r.Have = 1 << 63 },
		"nothing that was asked": func(r *audit.Receipt) { r.Have = 0 },
	} {
		s.say(b.Reply, receipt(mod))
		s.settled()
		if now := s.agent.OutboxLeft(); now != int64(left) {
			t.Fatalf("%s: %d of %d records are left", what, now, left)
		}
	}
	s.say(b.Reply, whole)
	s.until("the receipt is taken", func() bool { return s.agent.OutboxLeft() == 0 })
}

// A reply subject in a message must be an inbox; ALPHA sends nothing to another subject.
func TestAnswersGoWhereTheyWereAskedFrom(t *testing.T) {
	s := newScene(t)
	heard := make(chan qmgr.Message, 100)
	forbidden := []string{"ferry.command.BETA.mallory", "ferry.control.ALPHA.mallory", "ferry.reply.BETA.ALPHA", "ferry.event.BETA", "ferry.beat.BETA", "ferry.inbox.BETA.ALPHA." + strings.Repeat("A", wire.InboxSecret) + ".1",
		"$JS.API.STREAM.NAMES", "_INBOX.x", "t.anything"}
	for _, subject := range forbidden {
		s.hear(subject, func(m qmgr.Message) { heard <- m })
	}
	q := request()
	for _, to := range forbidden {
		q.ID = transfer.NewID(time.Now())
		s.enqueue(wire.CommandSubject("ALPHA", "MALLORY"), wire.Marshal(wire.Submit{V: wire.Version, Request: q, Reply: to}))
		q.ID, q.Priority = transfer.NewID(time.Now()), 99
		s.enqueue(wire.CommandSubject("ALPHA", "MALLORY"), wire.Marshal(wire.Submit{V: wire.Version, Request: q, Reply: to}))
		q.Priority = 0
		for _, kind := range []wire.Kind{wire.ControlCancel, wire.ControlResume, "explode"} {
			s.enqueue(wire.ControlSubject("ALPHA", "MALLORY"), wire.Marshal(wire.Control{V: wire.Version, ID: transfer.NewID(time.Now()), Kind: kind,
				Body: wire.Marshal(wire.OfTransfer{Transfer: transfer.NewID(time.Now())}), Reply: to}))
		}
	}
	// Behind all of them in both queues, and answered.
	inbox := s.stranger.NewInbox("ALPHA")
	answers := make(chan *wire.Answer, 2)
	s.hear(inbox, func(m qmgr.Message) {
		a, _ := wire.DecodeAnswer(m.Data)
		answers <- a
	})
	q.ID = transfer.NewID(time.Now())
	s.enqueue(wire.CommandSubject("ALPHA", s.stranger.Self()), wire.Marshal(wire.Submit{V: wire.Version, Request: q, Reply: inbox}))
	c := wire.Control{V: wire.Version, ID: transfer.NewID(time.Now()), Kind: wire.ControlCancel, Body: wire.Marshal(wire.OfTransfer{Transfer: transfer.NewID(time.Now())}), Reply: inbox}
	s.enqueue(wire.ControlSubject("ALPHA", s.stranger.Self()), wire.Marshal(c))
	for range 2 {
		select {
		case a := <-answers:
			if a == nil || a.ID != q.ID && a.ID != c.ID {
				t.Errorf("an answer of nothing that was asked: %+v", a)
			}
		case <-s.ctx.Done():
			t.Fatal("questions with a proper inbox get no answer")
		}
	}
	s.settled()
	for {
		select {
		case m := <-heard:
			if !bytes.Contains(m.Data, []byte("mallory")) { // not the test's own messages
				t.Errorf("ALPHA says on %s, because a message named it: %.100s", m.Subject, m.Data)
			}
			continue
		default:
		}
		break
	}
	if n := s.log.count("is wanted on"); n > 1 {
		t.Errorf("%d lines about it are logged", n)
	}
}

// Commands that cannot be read cost no transaction, no audit record and no line
// each.
func TestMalformedCommandsCostLittle(t *testing.T) {
	s := newScene(t)
	s.submitted()
	before := s.agent.OutboxLeft()
	const flood = 300
	for n := range flood {
		s.enqueue(wire.CommandSubject("ALPHA", "MALLORY"), fmt.Appendf(nil, `{"v":1,"request":{"v":%d}}`, n+50))
		s.enqueue(wire.ControlSubject("ALPHA", "MALLORY"), []byte(`{"v":1,"kind":"cancel"}`))
	}
	s.submitted() // behind them
	s.settled()
	if grown := s.agent.OutboxLeft() - before; grown > 10 {
		t.Errorf("%d malformed commands have left %d audit records", 2*flood, grown)
	}
	if n := s.log.count("is refused"); n == 0 || n > 4 {
		t.Errorf("%d malformed commands have left %d lines in the log", 2*flood, n)
	}
	found := false
	s.until("they are on record", func() bool {
		for len(s.batches) > 0 {
			for _, raw := range (<-s.batches).Records {
				var r audit.Record
				if err := json.Unmarshal(raw, &r); err != nil {
					t.Fatal(err)
				}
				found = found || r.Event == audit.Failed && r.Principal == "MALLORY"
			}
		}
		return found
	})
}
