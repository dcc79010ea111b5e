package qmgr

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/disk"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/own"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Facts are a connection's knowledge of its queue manager.
type Facts struct {
	ServerName string
	URL        string // as connected, without secrets; "" in process
	MaxPayload int64  // bytes of one message
	MaxPending int64  // bytes that the queue manager holds for a connection before it cuts it; 64 MiB if it does not say
	Reduced    string // why an acknowledged message may be lost in a power cut; "" if each is synced first
	Degraded   string // losses of its store, for an hour after they were noticed; "" for none
	InProcess  bool
	Linked     bool   // it has channels to others
	Cluster    string // its cluster; "" for none, or if it does not say
}

func (s *Server) about() errands.About {
	a := errands.About{V: 1, Name: s.cfg.Name, Sync: errands.SyncAlways, MaxPayload: streams.MaxPayload,
		MaxPending: streams.MaxPending, Version: server.VERSION, Degraded: s.Degraded(), Linked: len(s.channels.List()) > 0}
	a.Short = disk.ShortOf(s.Store)
	if m := s.member; m != nil {
		p := m.Now.Load()
		a.Cluster, a.Passing = m.Note.Cluster, p.Text(m)
		a.NoQuorum = !p.Quorum
		if !p.Alone.IsZero() {
			a.Alone = max(1, time.Since(p.Alone))
		}
	}
	return a
}

// A responder answers for the queue manager over an in-process connection of its own.
type responder struct {
	*own.Conn
	registrar *errands.Registrar
}

func answerAbout(s *Server) (*responder, error) {
	own, err := own.Dial(s.NS, s.cfg.identity(), false, s.cfg.Log)
	if err != nil {
		return nil, noAnswer(s, err)
	}
	library := streams.Library{JS: own.JS, AckWait: streams.AckWait, MaxStored: s.cfg.MaxStored}
	r := &responder{own, errands.NewRegistrar("queue manager "+s.cfg.Name, library)}
	r.registrar.Room = func(bytes, messages int) (func(), error) { return s.Room.Take(s.Store, bytes, messages) }
	r.registrar.Members = s.Members
	r.registrar.Notice = func(finding string) { s.Noticed("%s", finding) }
	if s.member != nil {
		r.registrar.Leads, r.registrar.Remove = s.member.Leads, s.member.Remove
	}
	if s.cfg.Guard != nil {
		r.registrar.May = s.cfg.Guard.May
	}
	if s.cfg.Guard != nil && s.cfg.Guard.Keep != nil {
		r.registrar.Admit = s.Admit
	}
	if err = own.Subscribe(wire.AllAsks(wire.Manager), "", func(m *nats.Msg) { r.answer(s, m) }); err == nil {
		err = own.NATS().Flush()
	}
	switch {
	case err != nil || s.cfg.MaxStored == 0:
	case s.cfg.Cluster != nil: // its streams can be changed once the other members are there
		r.registrar.Background(func(ctx context.Context) { library.FitStoreSoon(ctx, s.cfg.Log) })
	default:
		err = library.FitStore(context.Background(), library.CreateStore)
	}
	if err != nil {
		r.stop()
		return nil, noAnswer(s, err)
	}
	return r, nil
}

// noAnswer returns the error of a queue manager that cannot start because it does not reach itself.
func noAnswer(s *Server, err error) error {
	return transfer.Errorf(transfer.KindNoManager, "queue manager %s does not answer: %w", s.cfg.Name, err)
}

// answer answers a question to the queue manager. A question without a body asks for about.
func (r *responder) answer(s *Server, m *nats.Msg) {
	if answer, ok := bytes.CutPrefix(m.Data, []byte(refusedWord)); ok { // of the gate, or of a client that then hears itself
		if strings.HasPrefix(m.Reply, wire.InboxesOf(wire.LastToken(m.Subject))) {
			m.Respond(answer)
		}
		return
	}
	if !wire.Wants(m.Subject, m.Reply) {
		return
	}
	body := errands.Unpacked(m.Data)
	if len(body) > 0 {
		// the asker repeats its question
		r.registrar.Take(wire.LastToken(m.Subject), body, func(answer []byte) { errands.AnswerInParts(r.NATS(), m.Reply, answer) })
		return
	}
	if answer, err := json.Marshal(s.about()); err == nil {
		m.Respond(answer)
	}
}

func (r *responder) stop() {
	if r != nil {
		r.registrar.Close()
		r.Conn.Stop()
	}
}

// learn asks the queue manager about itself, for Facts. An external one may stay silent: learn then takes 1.3 s at
// most.
func (c *Conn) learn(ctx context.Context) {
	nc := c.control.conn()
	f := Facts{ServerName: nc.ConnectedServerName(), MaxPayload: nc.MaxPayload(), MaxPending: streams.MaxPending}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.facts = f
		c.maxPayload.Store(f.MaxPayload)
	}()

	if c.cfg.Server != nil {
		f.InProcess = true
		f.MaxPayload, f.MaxPending = streams.MaxPayload, streams.MaxPending
		a := c.cfg.Server.about()
		c.noticed(a.Degraded)
		c.passing.Store(a.Present())
		f.Linked, f.Cluster = a.Linked, a.Cluster
		return
	}

	f.URL = nc.ConnectedUrlRedacted()
	f.Reduced = "the queue manager does not say whether it syncs always"
	var a errands.About
	if askManager(ctx, c, nc, &a) && a.V >= 1 {
		f.Reduced, f.Linked = "", a.Linked
		c.noticed(a.Degraded)
		c.passing.Store(a.Present())
		f.Cluster = a.Cluster
		if a.Sync != errands.SyncAlways {
			f.Reduced = fmt.Sprintf("the queue manager does not sync each message before it acknowledges it (sync %s)", a.Sync)
		}
		if a.MaxPending > 0 {
			f.MaxPending = a.MaxPending
		}
		return
	}

	if c.cfg.Identity != nil {
		return // an identity has no right to ask a NATS server
	}

	// Only connections with rights to the system account are answered here.
	var v struct {
		Data server.Varz `json:"data"`
	}
	if ask(ctx, nc, "$SYS.REQ.SERVER.PING.VARZ", nc.NewInbox(), 300*time.Millisecond, &v) {
		if v.Data.MaxPending > 0 {
			f.MaxPending = v.Data.MaxPending
		}
		if js := v.Data.JetStream.Config; js != nil && js.SyncAlways {
			f.Reduced = ""
		} else if js != nil {
			f.Reduced = fmt.Sprintf("the queue manager acknowledges messages up to %s before it syncs them", js.SyncInterval)
		}
	}
}

// askManager asks an embedded queue manager about itself.
func askManager(ctx context.Context, c *Conn, nc *nats.Conn, into *errands.About) bool {
	return ask(ctx, nc, wire.AskSubject(wire.Manager, c.cfg.Self), c.NewInbox(wire.Manager), time.Second, into)
}

func ask(ctx context.Context, nc *nats.Conn, subject, inbox string, timeout time.Duration, into any) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	data, err := errands.Request(ctx, nc, subject, inbox, nil)
	return err == nil && json.Unmarshal(data, into) == nil
}
