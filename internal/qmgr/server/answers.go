package server

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/own"
	"ferry/internal/qmgr/storage"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func (s *Server) About() errands.About {
	a := errands.About{V: 1, Name: s.cfg.Name, Sync: errands.SyncAlways, MaxPayload: streams.MaxPayload,
		MaxPending: streams.MaxPending, Version: server.VERSION, Degraded: s.Degraded(), Linked: len(s.channels.List()) > 0}
	a.Short = storage.ShortOf(s.Store)
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
	library := streams.Library{JS: own.JS, AckWait: streams.AckWait, MaxStored: s.cfg.MaxStored, Log: s.cfg.Log, Quiet: quiet.New(s.cfg.Log, nil), Unfinished: new(streams.Unfinished)}
	r := &responder{own, errands.NewRegistrar("queue manager "+s.cfg.Name, library)}
	r.registrar.Room = func(bytes, messages int) (func(), error) { return s.Room.Take(s.Store, bytes, messages) }
	r.registrar.Members = s.Members
	r.registrar.Notice = func(finding string) { s.Noticed("%s", finding) }
	if s.member != nil {
		r.registrar.Leads, r.registrar.Remove = s.member.Leads, s.member.Remove
	}
	if s.cfg.Guard != nil {
		r.registrar.May, r.registrar.Proved = s.cfg.Guard.May, true
	}
	if s.cfg.Guard != nil && s.cfg.Guard.Keep != nil {
		r.registrar.Admit = s.Admit
	}
	if err = own.Subscribe(wire.AllAsks(wire.Manager), "", func(m *nats.Msg) { r.answer(s, m) }); err == nil {
		err = own.NATS().Flush()
	}
	if err == nil {
		r.registrar.Background(func(ctx context.Context) { r.registrar.KeepExpiring(ctx, library) })
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
	if answer, err := json.Marshal(s.About()); err == nil {
		m.Respond(answer)
	}
}

func (r *responder) stop() {
	if r != nil {
		r.registrar.Close()
		r.Conn.Stop()
	}
}
